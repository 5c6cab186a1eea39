"""Progress for people: lines on standard error, rewritten in place on a terminal."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Tells which phase a build is in and roughly how far the phase has come."""

    def __init__(self, stream: TextIO | None = None, quiet_s: float = 10.0) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._in_place = self._stream.isatty()
        self._quiet_s = quiet_s
        self._name = ""
        self._last_time = 0.0
        self._last_text = ""
        self._open_line = False

    def phase(self, name: str, detail: str = "") -> None:
        """Starts a phase."""
        self._name = name
        self._last_time = time.monotonic()
        self._write(f"{name}: {detail}" if detail else name, final=True)

    def step(self, done: float, total: float, detail: str = "") -> None:
        """Says how far the phase has come; `done` may overshoot `total`."""
        share = min(99, int(100 * done / total)) if total > 0 else 0
        now = time.monotonic()
        if now - self._last_time < (0.2 if self._in_place else self._quiet_s):
            return
        self._last_time = now
        text = f"{self._name}: {share:2d} %" + (f" ({detail})" if detail else "")
        self._write(text, final=not self._in_place)

    def note(self, text: str) -> None:
        """Says something worth knowing that is not a phase."""
        self._write(text, final=True)

    def close(self) -> None:
        """Ends a line that is still being rewritten."""
        if self._open_line:
            self._stream.write("\n")
            self._open_line = False
            self._stream.flush()

    def _write(self, text: str, *, final: bool) -> None:
        lead = "\r\x1b[K" if self._open_line else ""
        self._stream.write(f"{lead}kernel: {text}" + ("\n" if final else ""))
        self._stream.flush()
        self._open_line = not final
