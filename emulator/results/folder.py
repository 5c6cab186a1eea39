"""Writing a results folder: whole files or none, and never over something that is not a results folder.

::

    <folder>/
    ├─ .icgw-results       marks the folder as ours
    ├─ results.json        records of all cells
    ├─ manifest.json       conditions of the run
    ├─ report.html
    └─ cells/<n>/          records.json and side files of the n-th cell, pcaps, logs
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from emulator.errors import EngineError, HostError, ScenarioError
from emulator.results.canonical import canonical_json, parse_records, records_text
from emulator.results.manifest import Manifest
from emulator.results.records import Record

MARKER = ".icgw-results"
RESULTS_FILE = "results.json"
MANIFEST_FILE = "manifest.json"
REPORT_FILE = "report.html"
CELLS = "cells"
PART_FILE = "records.json"

_OWN_FILES = (RESULTS_FILE, MANIFEST_FILE, REPORT_FILE, "results.csv", "timeline.json")


def default_folder(scenario: str) -> Path:
    """Where a scenario's results go unless something else is asked for."""
    return Path("results") / scenario


def write_text(path: Path, text: str) -> None:
    """Write a file so that at any moment either the old or the whole new one is there.

    Raises:
        HostError: The disk is full, or writing is not allowed.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _as_host_error(path):
        try:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


class ResultsFolder:
    """A results folder that is being written; make one with `create`."""

    def __init__(self, path: Path, lock: int | None = None) -> None:
        self.path = path
        self._lock = lock

    def close(self) -> None:
        """Let other runs write here."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> ResultsFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def create(cls, path: str | Path) -> ResultsFolder:
        """Make a results folder, or empty an existing one of what earlier runs wrote.

        Raises:
            ScenarioError: There is something else at that path.
            HostError: It cannot be made or written.
        """
        folder = Path(path)
        with _as_host_error(folder):
            if folder.exists() and not folder.is_dir():
                raise ScenarioError("is a file, a results folder is needed", file=str(path))
            if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
                raise ScenarioError(
                    "is not empty and not a results folder: name another folder or empty it", file=str(path)
                )
            folder.mkdir(parents=True, exist_ok=True)
            lock = _locked(folder / MARKER)
            for name in _OWN_FILES:
                (folder / name).unlink(missing_ok=True)
            cells = folder / CELLS
            if cells.is_symlink():
                cells.unlink()
            elif cells.exists():
                shutil.rmtree(cells)
            cells.mkdir()
        return cls(folder, lock)

    def cell(self, index: int) -> Path:
        """Folder of the n-th cell, made if needed.

        Raises:
            HostError: It cannot be made.
        """
        folder = self.path / CELLS / str(index)
        with _as_host_error(folder):
            folder.mkdir(exist_ok=True)
        return folder

    def write_records(self, records: Iterable[Record]) -> None:
        """Write ``results.json``."""
        write_text(self.path / RESULTS_FILE, records_text(records))

    def write_manifest(self, manifest: Manifest) -> None:
        """Write ``manifest.json``."""
        write_text(self.path / MANIFEST_FILE, canonical_json(manifest.as_json()))

    def merge_parts(self, count: int) -> list[Record]:
        """Read the records of the first *count* cells, in order, and write them as ``results.json``.

        Raises:
            EngineError: A cell left no records.
            ScenarioError: A cell's file is not a list of records.
        """
        records: list[Record] = []
        for index in range(count):
            part = self.path / CELLS / str(index) / PART_FILE
            try:
                text = part.read_text(encoding="utf-8")
            except FileNotFoundError:
                raise EngineError(f"cell {index} left no records ({part})") from None
            except (OSError, UnicodeDecodeError) as error:
                raise EngineError(f"the records of cell {index} cannot be read: {error}") from None
            records += parse_records(text, str(part))
        self.write_records(records)
        return records


def write_part(cell_folder: Path, records: Iterable[Record]) -> None:
    """Write one cell's records into its folder; `ResultsFolder.merge_parts` joins them."""
    write_text(cell_folder / PART_FILE, records_text(records))


def write_side_file(cell_folder: Path, name: str, data: Any) -> None:
    """Write one of a cell's side files, for example ``series.json``, as compact canonical JSON."""
    write_text(cell_folder / name, canonical_json(data, indent=None))


def _locked(marker: Path) -> int:
    """Open the marker, made if needed, and hold it against other runs.

    Raises:
        HostError: Another run writes into the folder.
    """
    descriptor = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise HostError(f"another run is writing into {marker.parent}: wait for it, or name another folder") from None
    return descriptor


@contextmanager
def _as_host_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostError(f"cannot write {error.filename or path}: {error.strerror or error}") from None
    except ValueError as error:  # a path with a zero byte
        raise HostError(f"cannot write {str(path)!r}: {error}") from None
