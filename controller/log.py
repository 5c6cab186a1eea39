"""Log lines of the controller: one line each, tracebacks only at level debug."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from emulator.errors import ScenarioError

_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"
_MOST_CHARACTERS = 500


class _OneLine(logging.Formatter):
    """Keeps what third-party code logs to one line: a traceback's last line says what happened."""

    def format(self, record: logging.LogRecord) -> str:
        if record.levelno == logging.DEBUG:
            return super().format(record)
        message = record.getMessage()
        lines = [line.strip() for line in message.splitlines() if line.strip()]
        if len(lines) > 1:
            message = f"{lines[0]} … {lines[-1]}" if "Traceback" in message else " ".join(lines)
        if record.exc_info and record.exc_info[1] is not None:
            message += f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        plain = logging.makeLogRecord({**record.__dict__, "msg": message[:_MOST_CHARACTERS], "args": ()})
        if record.name.startswith("ryu") and record.levelno == logging.ERROR:
            # To Ryu a switch's malformed message is an error; the controller lives on, so here it is a warning.
            plain.levelname = "WARNING"
        plain.exc_info = plain.exc_text = plain.stack_info = None
        return super().format(plain)


def set_up(file: Path | None, *, debug: bool) -> None:
    """Log to a file, or to standard error.

    Raises:
        ScenarioError: The file cannot be written.
    """
    try:
        handler = logging.FileHandler(file, encoding="utf-8") if file else logging.StreamHandler(sys.stderr)
    except OSError as error:
        raise ScenarioError(f"cannot be written: {error.strerror}", file=str(file), key="--log") from None
    handler.setFormatter(_OneLine(_FORMAT, "%Y-%m-%d %H:%M:%S"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.INFO)
    # Ryu tells about its own insides at level info.
    logging.getLogger("ryu").setLevel(logging.DEBUG if debug else logging.WARNING)
