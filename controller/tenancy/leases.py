"""Which of the controllers that share a file decides, and until when.

A lease has one holder at a time. Its generation grows with every change of holder, so what an earlier holder still
sends can be told from what the present one sends (OpenFlow switches compare it as well).
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace

from controller.tenancy.database import Database


@dataclass(frozen=True)
class Lease:
    """Who holds a lease.

    Attributes:
        holder: Name of the controller.
        generation: Grows with every change of holder, from 1.
        expires_ns: End of the lease on the clock that the controllers share, in ns.
    """

    holder: str
    generation: int
    expires_ns: int

    def held_by(self, holder: str, now_ns: int) -> bool:
        """Whether a controller holds it now."""
        return self.holder == holder and now_ns < self.expires_ns


class Leases:
    """The leases in a store's file. Every method may raise `ControllerError` if the file cannot be used.

    Args:
        database: The open file.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, name: str) -> Lease | None:
        """A lease as it is, expired or not; None: nobody ever had it."""
        with self._database.reading() as connection:
            return _read(connection, name)

    def acquire(self, name: str, holder: str, now_ns: int, length_ns: int) -> Lease:
        """Take a lease that is free, or keep one's own.

        The generation stays if the holder still holds it, and grows otherwise: a holder that let its lease expire may
        have been replaced in between by one that is gone again.

        Returns:
            The lease as it is now, possibly another holder's.
        """
        with self._database.writing() as connection:
            lease = _read(connection, name)
            if lease is not None and now_ns < lease.expires_ns and lease.holder != holder:
                return lease
            taken = Lease(holder, (lease.generation if lease else 0) + 1, now_ns + length_ns)
            if lease is not None and lease.held_by(holder, now_ns):
                taken = _prolonged(lease, now_ns, length_ns)
            connection.execute(
                "INSERT INTO leases VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                "holder = excluded.holder, generation = excluded.generation, expires_ns = excluded.expires_ns",
                (name, taken.holder, taken.generation, taken.expires_ns),
            )
            return taken

    def renew(self, name: str, holder: str, generation: int, now_ns: int, length_ns: int) -> Lease | None:
        """Prolong a lease that is still one's own.

        Returns:
            The lease, or None: it is lost, and must be acquired again.
        """
        with self._database.writing() as connection:
            lease = _read(connection, name)
            if lease is None or lease.generation != generation or not lease.held_by(holder, now_ns):
                return None
            longer = _prolonged(lease, now_ns, length_ns)
            connection.execute("UPDATE leases SET expires_ns = ? WHERE name = ?", (longer.expires_ns, name))
            return longer

    def release(self, name: str, holder: str, generation: int, now_ns: int) -> bool:
        """Give a lease back early, so that another controller need not wait; false: it was lost already."""
        with self._database.writing() as connection:
            lease = _read(connection, name)
            if lease is None or lease.generation != generation or not lease.held_by(holder, now_ns):
                return False
            connection.execute("UPDATE leases SET expires_ns = ? WHERE name = ?", (now_ns, name))
            return True


def _prolonged(lease: Lease, now_ns: int, length_ns: int) -> Lease:
    # A clock that was set back must not shorten what was promised already.
    return replace(lease, expires_ns=max(lease.expires_ns, now_ns + length_ns))


def _read(connection: sqlite3.Connection, name: str) -> Lease | None:
    row = connection.execute("SELECT holder, generation, expires_ns FROM leases WHERE name = ?", (name,)).fetchone()
    return Lease(*row) if row else None
