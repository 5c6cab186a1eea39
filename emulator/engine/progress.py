"""Progress from inside a job: JSON lines in the results folder, which the engine on the host follows."""

from __future__ import annotations

import json
import os
from pathlib import Path

from emulator.engine.job import OUT_VARIABLE

PROGRESS_FILE = "progress.jsonl"
ERROR_FILE = "error.json"


def out_folder() -> Path:
    """The job's writable folder as seen from inside."""
    return Path(os.environ[OUT_VARIABLE])


def report(stage: str, done: int = 0, total: int = 0) -> None:
    """Say what the job is doing now, and how much of it is done."""
    with (out_folder() / PROGRESS_FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"stage": stage, "done": done, "total": total}) + "\n")


def report_error(exit_code: int, kind: str, message: str) -> None:
    """Leave the error that ends the job, for the host to show as its one line."""
    text = json.dumps({"exit_code": exit_code, "kind": kind, "message": message})
    (out_folder() / ERROR_FILE).write_text(text, encoding="utf-8")
