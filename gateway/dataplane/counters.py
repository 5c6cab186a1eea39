"""What became of all frames so far: by reason, and by tenant and service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gateway.dataplane.classify import Service
from gateway.dataplane.memory import Bytes, Ints
from gateway.dataplane.reasons import LEFT_TO_KERNEL, REASONS, Reason

_SERVICES = len(Service)


class Counters:
    """Frames and bytes by `Reason`; each frame is counted once, so their sum is what came in."""

    def __init__(self) -> None:
        self._frames = np.zeros(REASONS, np.int64)
        self._bytes = np.zeros(REASONS, np.int64)
        self._classes: dict[tuple[int, int], tuple[int, int]] = {}

    def count(self, reason: Bytes, lengths: Ints) -> None:
        """Count a batch; *lengths* are those with which the frames came in."""
        if not np.count_nonzero(reason):
            self._frames[Reason.FORWARDED] += lengths.size
            self._bytes[Reason.FORWARDED] += np.add.reduce(lengths)
            return
        self._frames += np.bincount(reason, minlength=REASONS)
        # Sums of less than 2^53 bytes are exact in floating point.
        self._bytes += np.bincount(reason, lengths, REASONS).astype(np.int64)

    def move(self, reason: Reason, lengths: Ints) -> None:
        """Count forwarded frames as lost after all: the way out had no room for them."""
        total = int(lengths.sum())
        for column, value in ((self._frames, lengths.size), (self._bytes, total)):
            column[Reason.FORWARDED] -= value
            column[reason] += value

    def count_classes(self, tenant: Ints, service: Ints, frames: Ints, sizes_bytes: Ints) -> None:
        """Count frames of flows by tenant and service."""
        classes, place = np.unique(tenant * _SERVICES + service, return_inverse=True)
        for name, count, size in zip(
            classes.tolist(), np.bincount(place, frames), np.bincount(place, sizes_bytes), strict=True
        ):
            key = divmod(name, _SERVICES)
            before = self._classes.get(key, (0, 0))
            self._classes[key] = before[0] + int(count), before[1] + int(size)

    def frames(self, reason: Reason) -> int:
        """Frames that met this reason."""
        return int(self._frames[reason])

    @property
    def frames_in(self) -> int:
        """Frames that came in."""
        return int(self._frames.sum())

    @property
    def lost_frames(self) -> int:
        """Frames that were lost here, for whatever reason."""
        return sum(self.frames(reason) for reason in Reason if reason and reason not in LEFT_TO_KERNEL)

    def export(self) -> dict[str, Any]:
        """All counters, for `restore`."""
        classes = [[*key, *value] for key, value in self._classes.items()]
        return {"frames": self._frames.tolist(), "bytes": self._bytes.tolist(), "classes": classes}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on counting where another one was."""
        self._frames[:], self._bytes[:] = state["frames"], state["bytes"]
        for tenant, service, frames, size_bytes in state["classes"]:
            self._classes[tenant, service] = frames, size_bytes

    def as_json(self) -> dict[str, Any]:
        """All counters as plain data."""
        return {
            "frames_in": self.frames_in,
            "bytes_in": int(self._bytes.sum()),
            "lost_frames": self.lost_frames,
            "reasons": {
                reason.label: {"frames": int(self._frames[reason]), "bytes": int(self._bytes[reason])}
                for reason in Reason
            },
            "classes": [
                {"tenant": tenant, "service": Service(service).name.lower(), "frames": frames, "bytes": size}
                for (tenant, service), (frames, size) in sorted(self._classes.items())
            ],
        }
