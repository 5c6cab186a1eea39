"""The tables of the store's file, and the steps from each version of them to the next."""

from __future__ import annotations

import sqlite3

from emulator.errors import ControllerError

APPLICATION_ID = 0x69636777
"""Marks a SQLite file as ours: ``icgw`` in ASCII."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE resources (
            kind TEXT NOT NULL,
            parent TEXT NOT NULL,
            name TEXT NOT NULL,
            version INTEGER NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (kind, parent, name)
        ) WITHOUT ROWID
        """,
        "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
        "INSERT INTO counters VALUES ('change', 0)",
    ),
    (
        """
        CREATE TABLE leases (
            name TEXT PRIMARY KEY,
            holder TEXT NOT NULL,
            generation INTEGER NOT NULL,
            expires_ns INTEGER NOT NULL
        ) WITHOUT ROWID
        """,
    ),
)
"""Step *n* leads from version *n* to version *n* + 1; a file's version is its ``user_version``."""


def look(connection: sqlite3.Connection, file: str) -> None:
    """See whether a file can be brought to the newest version, without changing it.

    Raises:
        ControllerError: The file is some other program's, or a newer version's.
    """
    _version(connection, file)


def migrate(connection: sqlite3.Connection, file: str) -> None:
    """Bring a file to the newest version, all steps or none.

    Args:
        connection: In autocommit mode.
        file: Named in errors.

    Raises:
        ControllerError: The file is some other program's, or a newer version's.
    """
    if _version(connection, file) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been faster.
        for step in MIGRATIONS[_version(connection, file) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _version(connection: sqlite3.Connection, file: str) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    owner: int = connection.execute("PRAGMA application_id").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if owner != APPLICATION_ID and (owner or version or tables):
        raise ControllerError(f"{file} is another program's database")
    if version > len(MIGRATIONS):
        raise ControllerError(
            f"{file} has format {version}, of a newer version of this program; this one knows {len(MIGRATIONS)}"
        )
    return version
