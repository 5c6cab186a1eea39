"""What counts as storage bytes through compute nodes: only what port counters can tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from emulator.experiment.crossing import ComputeCrossings
from emulator.model.workload import NvmeIo, TcpBulk, Workload
from topologies import icgw

NVME = NvmeIo("volume", initiators=("g1",), target="s1")
TCP = TcpBulk("bulk", sources=("g1",), targets=("c1",))


class Counting:
    """A controller whose counters grow by 10 B to compute nodes, 7 B each way of storage nodes."""

    def __init__(self) -> None:
        self.asked = 0

    def counters(self) -> dict[str, Any]:
        self.asked += 1
        storage = {"to_bytes": 7 * self.asked, "from_bytes": 7 * self.asked}
        return {"roles": {"compute": {"to_bytes": 10 * self.asked}, "storage": storage}}


@pytest.mark.parametrize(
    ("groups", "crossed"),
    [([[NVME]], 10), ([[NVME], [NVME, NVME]], 20), ([[TCP]], None), ([[NVME, TCP]], None), ([[NVME], [NVME, TCP]], 10)],
    ids=str,
)
def test_bytes_are_counted_only_while_nothing_but_storage_runs(
    groups: Sequence[Sequence[Workload]], crossed: int | None
) -> None:
    """A TCP flow beside a volume sends to compute nodes too, so nothing that is true could be said."""
    crossings = ComputeCrossings(None, icgw(), Counting())  # type: ignore[arg-type]  # no records are made
    for group in groups:
        with crossings.during(group):
            pass
    assert crossings.crossed_bytes == crossed
