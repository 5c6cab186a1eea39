"""Following a job's progress file while the job writes it."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from emulator.engine.progress import PROGRESS_FILE

_log = logging.getLogger(__name__)
_LONGEST_LINE = 1 << 16


@dataclass(frozen=True)
class Step:
    """What a job says that it is doing: *done* of *total* (0: unknown) parts of a stage."""

    stage: str = ""
    done: int = 0
    total: int = 0


class ProgressTail:
    """Reads what was added to ``progress.jsonl`` since it was last asked.

    Args:
        out: Results folder of the job.
    """

    def __init__(self, out: Path) -> None:
        self._path = out / PROGRESS_FILE
        self._offset = 0
        self._rest = b""
        self._complained = False

    def latest(self) -> Step | None:
        """The newest complete line that was added since the last call, or None."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                added = file.read()
        except FileNotFoundError:
            return None
        self._offset += len(added)
        *lines, self._rest = (self._rest + added).split(b"\n")
        self._rest = self._rest[:_LONGEST_LINE]
        found = None
        for line in lines:
            found = self._parse(line) or found
        return found

    def _parse(self, line: bytes) -> Step | None:
        try:
            data = json.loads(line)
            return Step(str(data["stage"]), int(data["done"]), int(data["total"]))
        except (ValueError, KeyError, TypeError):
            if not self._complained:
                _log.warning("%s has a line that is not progress: %.80r", self._path, line)
                self._complained = True
            return None
