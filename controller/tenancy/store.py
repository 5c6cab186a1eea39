"""The declared resources on disk: every change is checked, written and then visible, one after the other.

Several processes may share a file. Each keeps the state in memory, and before each change, and when asked, takes in
what others changed. Callers get immutable states, so reading needs no lock.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from controller.tenancy.database import Database
from controller.tenancy.ground import Ground
from controller.tenancy.invariants import problems
from controller.tenancy.kinds import Key, Kind, Resource, check_key, dump, parse
from controller.tenancy.leases import Leases
from controller.tenancy.refusals import Refused, Why
from controller.tenancy.state import DEFAULT_LIMITS, TenancyState
from emulator.errors import ControllerError

Callback = Callable[[TenancyState, TenancyState], None]
MOST_LISTED = 1000


@dataclass(frozen=True)
class Stored:
    """A resource as it is stored.

    Attributes:
        key: Its name, or its VPC's and its own.
        version: Number of the change that wrote it.
        created: Whether that change made it (in answers to `Store.put`).
        resource: The resource.
    """

    key: Key
    version: int
    created: bool
    resource: Resource


@dataclass(frozen=True)
class Page:
    """Some of the resources of a kind, by name.

    Attributes:
        items: In order.
        after: Pass it to get the next ones; None: there are no more.
    """

    items: tuple[Stored, ...]
    after: str | None


class Store:
    """The resources in a file.

    Args:
        path: The file, or ``:memory:``.
        ground: The fabric that they are for.
        claim: See `Database`; what it allows is read afterwards.

    Raises:
        ControllerError: The file cannot be used, or what is in it does not fit the fabric.
    """

    def __init__(self, path: Path | str, ground: Ground, claim: Callable[[], None] = lambda: None) -> None:
        self._ground = ground
        self._callbacks: list[Callback] = []
        self._sorted: dict[tuple[Kind, str], tuple[TenancyState, tuple[str, ...]]] = {}
        self._database = Database(path, claim)
        self._state = TenancyState()
        try:
            with self._database.reading() as connection:
                self._state = self._loaded(connection)
            self.leases = Leases(self._database)
            found = problems(self._state, ground)
            if found:
                more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
                raise ControllerError(f"{self._database.file} does not fit the fabric: {found[0]}{more}")
        except BaseException:
            self._database.close()
            raise

    @property
    def state(self) -> TenancyState:
        """The state after the last change that this process made or took in."""
        return self._state

    def put(
        self, kind: Kind, key: Key | str, body: object, *, if_match: int | None = None, if_none_match: bool = False
    ) -> Stored:
        """Declare a resource, new or instead of the one with the same key.

        Args:
            kind: Its kind.
            key: Its name, or its VPC's and its own.
            body: JSON-like data.
            if_match: Only if the resource exists and has this version.
            if_none_match: Only if the resource does not exist.

        Raises:
            Refused: The change was not made, because of what is asked.
            ControllerError: The change was not made, because of the file.
        """
        proper = check_key(kind, key)
        resource = parse(kind, body)
        with self._database.lock:
            before = self._state
            with self._database.writing() as connection:
                current = self._loaded(connection)
                change = current.put(
                    kind, proper, resource, self._ground, if_match=if_match, if_none_match=if_none_match,
                    limits=DEFAULT_LIMITS,
                )  # fmt: skip
                if change.state is not current:
                    text = json.dumps(dump(change.resource), sort_keys=True, separators=(",", ":"))
                    connection.execute(
                        "INSERT INTO resources VALUES (?, ?, ?, ?, ?) ON CONFLICT (kind, parent, name) "
                        "DO UPDATE SET version = excluded.version, body = excluded.body",
                        (*_row_key(kind, proper), change.version, text),
                    )
                    _count(connection, change.state.change)
            self._publish(before, change.state)
        return Stored(proper, change.version, change.created, change.resource)

    def delete(self, kind: Kind, key: Key | str, *, if_match: int | None = None) -> None:
        """Take a resource away.

        Raises:
            Refused: It does not exist, has another version than *if_match*, or is in use.
            ControllerError: The change was not made, because of the file.
        """
        proper = check_key(kind, key)
        with self._database.lock:
            before = self._state
            with self._database.writing() as connection:
                after = self._loaded(connection).delete(kind, proper, if_match=if_match)
                connection.execute(
                    "DELETE FROM resources WHERE kind = ? AND parent = ? AND name = ?", _row_key(kind, proper)
                )
                _count(connection, after.change)
            self._publish(before, after)

    def get(self, kind: Kind, key: Key | str) -> Stored:
        """A resource.

        Raises:
            Refused: It does not exist.
        """
        proper = check_key(kind, key)
        state = self._state
        return Stored(proper, state.versions.get((kind, proper), 0), False, state.get(kind, proper))

    def list(self, kind: Kind, parent: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """Resources of a kind, by name.

        Args:
            kind: The kind.
            parent: The VPC, for kinds that are parts of one.
            after: Only those whose names come after this one.
            limit: How many at most, 1 to 1000.

        Raises:
            Refused: There is no such VPC, or the limit is none.
        """
        if not 1 <= limit <= MOST_LISTED:
            raise Refused(Why.INVALID, f"{limit} is not a number from 1 to {MOST_LISTED}", "limit")
        state = self._state
        if kind.within_vpc != (parent is not None):
            raise Refused(Why.INVALID, f"{kind.value} are listed {'by VPC' if kind.within_vpc else 'together'}", "vpc")
        if parent is not None and parent not in state.vpcs:
            raise Refused(Why.ABSENT, f"there is no VPC {parent}")
        names = self._names(state, kind, parent)
        start = bisect_right(names, after) if after is not None else 0
        chosen = names[start : start + limit]
        keys = [(name,) if parent is None else (parent, name) for name in chosen]
        items = tuple(Stored(key, state.versions[kind, key], False, state.get(kind, key)) for key in keys)
        return Page(items, chosen[-1] if start + limit < len(names) else None)

    def subscribe(self, callback: Callback) -> None:
        """Have a function called with the states before and after each change, in order.

        It is called after the change is on disk and before the method that made it returns. It must not change the
        store. While it waits, others of the same thread may make further changes; it is called with them meanwhile.
        """
        self._callbacks.append(callback)

    def reload_if_changed(self) -> bool:
        """Take in what other processes changed; true: there was something."""
        with self._database.lock:
            before = self._state
            with self._database.reading() as connection:
                after = self._loaded(connection)
            self._publish(before, after)
            return after is not before

    def close(self) -> None:
        """Close the file; the state stays readable."""
        self._database.close()

    def _names(self, state: TenancyState, kind: Kind, parent: str | None) -> tuple[str, ...]:
        known = self._sorted.get((kind, parent or ""))
        if known is None or known[0] is not state:
            if kind.within_vpc:
                owner = parent or ""
                names = tuple(sorted(state.members(owner) if kind is Kind.NODES else state.gates(owner)))
            else:
                names = tuple(sorted(state.table(kind)))
            if len(self._sorted) >= MOST_LISTED:
                self._sorted.clear()
            known = self._sorted[kind, parent or ""] = (state, names)
        return known[1]

    def _publish(self, before: TenancyState, after: TenancyState) -> None:
        if after is not before:
            self._state = after
            for callback in self._callbacks:
                callback(before, after)

    def _loaded(self, connection: sqlite3.Connection) -> TenancyState:
        """The state in the file. What this process knows already is not parsed again."""
        known = self._state
        row = connection.execute("SELECT value FROM counters WHERE name = 'change'").fetchone()
        if row is None or not isinstance(row[0], int):
            raise ControllerError(f"{self._database.file} has lost its change counter")
        change: int = row[0]
        if change == known.change:
            return known
        entries: list[tuple[Kind, Key, int, Resource]] = []
        for kind_name, parent, name, version in connection.execute("SELECT kind, parent, name, version FROM resources"):
            key: Key = (parent, name) if parent else (name,)
            try:
                kind = Kind(kind_name)
            except ValueError:
                raise ControllerError(
                    f"{self._database.file} has a resource of the unknown kind {kind_name!r}"
                ) from None
            if known.versions.get((kind, key)) == version:
                entries.append((kind, key, version, known.get(kind, key)))
            else:
                entries.append((kind, key, version, self._read(connection, kind, key)))
        return TenancyState.build(entries, change)

    def _read(self, connection: sqlite3.Connection, kind: Kind, key: Key) -> Resource:
        row = connection.execute(
            "SELECT body FROM resources WHERE kind = ? AND parent = ? AND name = ?", _row_key(kind, key)
        ).fetchone()
        where = f"{self._database.file}: {kind.noun} {'/'.join(key)}"
        try:
            return parse(kind, json.loads(row[0]))
        except (ValueError, TypeError, RecursionError):
            raise ControllerError(f"{where} is not JSON") from None
        except Refused as error:
            raise ControllerError(f"{where}: {error}") from None


def _row_key(kind: Kind, key: Key) -> tuple[str, str, str]:
    return (kind.value, key[0] if len(key) > 1 else "", key[-1])


def _count(connection: sqlite3.Connection, change: int) -> None:
    connection.execute("UPDATE counters SET value = ? WHERE name = 'change'", (change,))
