"""The store's SQLite file: opening it, transactions, and what can go wrong with it in one line each."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from controller.tenancy.migrations import look, migrate
from emulator.errors import ControllerError

IN_MEMORY = ":memory:"
_BUSY_TIMEOUT_S = 10.0
"""How long a transaction waits for one of another process; each takes about as long as the disk's write."""
_PRIVATE = 0o600


class Database:
    """One connection, used by one thread at a time.

    Every commit is on the disk before it returns (write-ahead log, ``synchronous=FULL``), so what was acknowledged
    survives the process and the machine, and a process that dies half-way leaves what was there before.

    Args:
        path: The file, made if it does not exist; ``:memory:``: none, gone with the process.
        claim: Called before anything in the file is changed, and after it was seen to be ours or empty; may refuse by
            raising.

    Raises:
        ControllerError: It cannot be opened, read or written, or is not ours.
    """

    def __init__(self, path: Path | str, claim: Callable[[], None] = lambda: None) -> None:
        self.file = str(path)
        self._lock = threading.RLock()
        if self.file != IN_MEMORY:
            _create(Path(path))
        with self._one_line():
            self._connection = sqlite3.connect(
                self.file, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        try:
            with self._one_line():
                # Looking into the file first: other programs' files are left as they are.
                self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                look(self._connection, self.file)
            claim()
            with self._one_line():
                migrate(self._connection, self.file)
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
                self._connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            self._connection.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view of the file."""
        with self._lock, self._one_line():
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._connection.rollback()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One change, made whole or not at all; nobody else writes meanwhile, in no process."""
        with self._lock, self._one_line():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # The disk may be full: then there may be nothing left to take back.
                with suppress(sqlite3.Error):
                    self._connection.rollback()
                raise

    @property
    def lock(self) -> threading.RLock:
        """Held during transactions; may be held around several."""
        return self._lock

    def close(self) -> None:
        """Close the file. Harmless if done twice."""
        with self._lock, suppress(sqlite3.Error):
            self._connection.close()

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise ControllerError(f"{self.file}: {_reason(error)}") from None


def _create(path: Path) -> None:
    """Make the file for its owner only: it says who may talk to whom."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE))
    except OSError as error:
        raise ControllerError(f"{path}: cannot be opened for writing: {error.strerror}") from None
    except ValueError as error:
        raise ControllerError(f"{str(path)!r}: cannot be opened: {error}") from None


def _reason(error: sqlite3.Error) -> str:
    text = str(error)
    if "not a database" in text:
        return "is not a database of this program"
    if "locked" in text:
        return f"another process kept it locked for {_BUSY_TIMEOUT_S:g} s"
    if "readonly" in text or "read-only" in text or "unable to open" in text:
        return f"cannot be written, nor the files that SQLite needs beside it ({text})"
    if "full" in text:
        return "the disk is full, so the change was not made"
    return f"cannot be used: {text}"
