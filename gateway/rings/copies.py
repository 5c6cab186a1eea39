"""The one place where bytes of frames are copied in user space. It counts what it does, so that zero is a measurement.

Every port and every step of the fast path that copies bytes of frames from memory to memory calls `move`. (Rewriting a
header field in place is not a copy.) What the kernel copies on its side of a system call cannot be counted here: ports
say how they are attached (`Crossing`), and `docs/dataplane.md` says where the kernel copies in each mode.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt


class Crossing(str, Enum):
    """What the kernel does with a frame's bytes between a device and this process's memory."""

    NONE = "none"
    """The device reads and writes the memory itself."""
    COPY = "copy"
    """The kernel copies once in each direction."""


class CopyLedger:
    """Counts copies, by what they were made for.

    Attributes:
        frames: Frames copied, by purpose.
        copied_bytes: Their bytes, by purpose.
    """

    def __init__(self) -> None:
        self.frames: dict[str, int] = {}
        self.copied_bytes: dict[str, int] = {}

    def move(
        self,
        purpose: str,
        target: npt.NDArray[np.uint8],
        target_offsets: npt.NDArray[np.int64],
        source: npt.NDArray[np.uint8],
        source_offsets: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
    ) -> None:
        """Copy frames from memory to memory, one by one, and count them.

        Args:
            purpose: What they are copied for.
            target: Where to.
            target_offsets: Where each of them is to begin there.
            source: Where from.
            source_offsets: Where each of them begins there.
            lengths: Their lengths in bytes.
        """
        for to, start, length in zip(target_offsets.tolist(), source_offsets.tolist(), lengths.tolist(), strict=True):
            target[to : to + length] = source[start : start + length]
        self.count(purpose, len(lengths), int(lengths.sum()))

    def put(self, purpose: str, target: npt.NDArray[np.uint8], offset: int, frame: bytes) -> None:
        """Copy one frame that a library handed over as an object of its own into memory, and count it."""
        target[offset : offset + len(frame)] = np.frombuffer(frame, dtype=np.uint8)
        self.count(purpose, 1, len(frame))

    def count(self, purpose: str, frames: int, copied_bytes: int) -> None:
        """Count copies."""
        if frames:
            self.frames[purpose] = self.frames.get(purpose, 0) + frames
            self.copied_bytes[purpose] = self.copied_bytes.get(purpose, 0) + copied_bytes

    @property
    def total_frames(self) -> int:
        """Copies of frames, for whatever purpose."""
        return sum(self.frames.values())

    def as_json(self) -> dict[str, Any]:
        """All counts as plain data."""
        return {
            "frames": self.total_frames,
            "bytes": sum(self.copied_bytes.values()),
            "by_purpose": {
                name: {"frames": count, "bytes": self.copied_bytes[name]} for name, count in self.frames.items()
            },
        }
