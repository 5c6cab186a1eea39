"""One turn of the fast path: batches are received, decided on, rewritten in place and sent. No clock, no waiting.

A frame never waits here: what its egress has no room for is dropped and counted, as on a full port of a switch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gateway.dataplane.pipeline import Pipeline
from gateway.dataplane.reasons import Reason
from gateway.rings.batch import Batch
from gateway.rings.port import Port

Decided = Callable[[int, int], None]
"""Is called with the ingress's number and the time after a batch in which flows began."""


class Forwarder:
    """Moves frames between ports.

    Args:
        ports: For each port its queues.
        pipeline: Decides.
        batch_frames: Frames that are handled at a time.
        decided: Is told of batches in which flows began.

    Attributes:
        draining: What arrives is dropped.
        batches: Batches so far.
    """

    def __init__(
        self,
        ports: Sequence[Sequence[Port]],
        pipeline: Pipeline,
        batch_frames: int,
        decided: Decided | None = None,
    ) -> None:
        self._ports = ports
        self._ingresses = [
            (number, index, port) for number, queues in enumerate(ports) for index, port in enumerate(queues)
        ]
        self.pipeline = pipeline
        self._limit = batch_frames
        self._decided = decided
        self.draining = False
        self.batches = 0
        self.drained_frames = 0

    def turn(self, now_ns: int) -> int:
        """Take one batch from each queue; how many frames that were.

        Args:
            now_ns: The time; later in each turn than in the one before.
        """
        total = 0
        for number, index, port in self._ingresses:
            batch = port.receive(self._limit)
            count = len(batch)
            if count:
                total += count
                if self.draining:
                    self.drained_frames += count
                    batch.release()
                else:
                    self._forward(batch, number, index, now_ns)
        return total

    def _forward(self, batch: Batch, ingress: int, queue: int, now_ns: int) -> None:
        self.batches += 1
        pipeline = self.pipeline
        headroom = batch.owner.headroom(batch.offsets)
        begun = pipeline.flows.begun
        verdicts = pipeline.process(
            batch.memory, batch.offsets, batch.lengths, headroom, ingress, now_ns, batch.heads()
        )
        # Frames stay in their pieces of memory, so those that are dropped can be given back by where they were before.
        batch.offsets, batch.lengths = verdicts.offsets, verdicts.lengths
        ports = verdicts.port
        first = int(ports[0])
        if (ports == first).all():
            self._send(batch, first, queue)
        else:
            for egress in np.unique(ports).tolist():
                self._send(batch.take(ports == egress), egress, queue)
        if self._decided is not None and pipeline.flows.begun != begun:
            self._decided(ingress, now_ns)

    def _send(self, batch: Batch, egress: int, queue: int) -> None:
        if egress < 0:
            batch.release()
            return
        queues = self._ports[egress]
        port = queues[queue % len(queues)]
        count = port.send(batch)
        if count == len(batch):
            return
        port.flush()
        rest = batch.take(slice(count, None))
        count = port.send(rest)
        if count < len(rest):
            lost = rest.take(slice(count, None))
            self.pipeline.counters.move(Reason.EGRESS_FULL, lost.lengths)
            lost.release()

    def flush(self) -> bool:
        """Push on what was sent; whether all of it has left."""
        left = True
        for _, _, port in self._ingresses:
            left &= port.flush()
        return left

    def as_json(self) -> dict[str, Any]:
        """All figures as plain data."""
        return {
            "draining": self.draining,
            "batches": self.batches,
            "drained_frames": self.drained_frames,
            "pipeline": self.pipeline.as_json(),
            "ports": [port.as_json() for _, _, port in self._ingresses],
        }
