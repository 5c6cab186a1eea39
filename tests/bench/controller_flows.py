"""Entries a second into Open vSwitch: the controller next to Ryu's ``simple_switch_13``, each of the same number.

The controller reads everything back after the barrier: its time is from the decision to change the switch until the
switch is proved right. Ryu's application goes from the first message to the answer of a barrier, and then its
``ofctl_rest`` is asked for all entries. The switch has the dummy datapath: its flow tables are the real ones.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from emulator.errors import EngineError
from emulator.model.fabric import Fabric, FabricBuilder, LinkSpec
from tests.bench.apart import Watch
from tests.bench.table import Row, spread
from tests.support.controller_process import running_controller
from tests.support.dummy_ovs import DummyOvs, dummy_ovs
from tests.support.stock_ryu import stock_ryu

FLOWS = 10_000
_WAIT_S, _LOOK_S = 120.0, 0.05
_RYU = ("tests.bench.ryu_pusher", "ryu.app.ofctl_rest")


def _fabric() -> Fabric:
    """A spine, which has one rule for each host, between two leaves."""
    spec = LinkSpec(100 * 10**9, 1000)
    builder = FabricBuilder("spine")
    for name in ("s", "l0", "l1"):
        builder.add_switch(name)
    for leaf in range(2):
        builder.add_link("s", f"l{leaf}", spec)
    for number in range(FLOWS):
        builder.add_host(f"h{number}", f"10.0.{number >> 8}.{number & 255}/8")
        builder.add_link(f"h{number}", f"l{number % 2}", spec)
    return builder.build()


def wait_for(look: Callable[[], bool], what: str) -> None:
    """Look until it is so.

    Raises:
        EngineError: It is not in time.
    """
    end_s = time.monotonic() + _WAIT_S
    while not look():
        if time.monotonic() > end_s:
            raise EngineError(f"bench: {what} after {_WAIT_S:g} s")
        time.sleep(_LOOK_S)


@contextmanager
def _switch(fabric: Fabric, folder: Path, controller: str) -> Iterator[DummyOvs]:
    with dummy_ovs(folder) as ovs:
        ovs.build(fabric, f"tcp:{controller}", skip=frozenset({"l0", "l1"}))
        yield ovs


def _entries(ovs: DummyOvs) -> int:
    text = ovs.tool("ovs-ofctl", "-O", "OpenFlow13", "dump-aggregate", f"unix:{ovs.folder}/s.mgmt")
    return int(text.split("flow_count=")[1].split()[0])


def ours(fabric: Fabric, folder: Path) -> float:
    """Seconds from the decision to change the switch until it is proved to hold everything."""
    (folder / "controller").mkdir()
    (folder / "ovs").mkdir()
    with (
        running_controller(folder / "controller", fabric, "shortest-path", (), "--lldp-interval", "0") as running,
        _switch(fabric, folder / "ovs", running.openflow) as ovs,
    ):

        def times_ns() -> dict[str, int]:
            events = running.client.get("/v1/events", kind="switch")["events"]
            return {event["fields"]["state"]: event["time_ns"] for event in events if "state" in event["fields"]}

        wait_for(lambda: "ready" in times_ns(), "the switch is not ready")
        assert _entries(ovs) >= FLOWS
        found = times_ns()
    return (found["ready"] - found["verifying"]) / 1e9


def theirs(fabric: Fabric, folder: Path) -> tuple[float, float]:
    """Seconds from the first message to the answer of the barrier, and for reading all entries."""
    dpid = fabric.by_name["s"].dpid
    (folder / "ryu").mkdir()
    file = folder / "ryu" / "seconds"
    with (
        patch.dict(os.environ, ICGW_BENCH_FILE=str(file), ICGW_BENCH_FLOWS=str(FLOWS)),
        stock_ryu(folder / "ryu.log", *_RYU) as (openflow, client),
        _switch(fabric, folder / "ryu", openflow) as ovs,
    ):
        wait_for(file.exists, "Ryu's entries are not in the switch")
        assert _entries(ovs) >= FLOWS
        watch = Watch()
        found = client.get(f"/stats/flow/{dpid}", _WAIT_S)
        read_s = watch.lap()
        assert len(found[str(dpid)]) >= FLOWS
    return float(file.read_text()), read_s


def measure(rounds: int) -> list[Row]:
    """Both in turn."""
    fabric = _fabric()
    pairs = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="icgw-bench-") as name:
            pairs.append((ours(fabric, Path(name)), theirs(fabric, Path(name))))
    return [
        Row("icgw, entries/s, proved by reading back", spread([FLOWS / a for a, _ in pairs]), f"{FLOWS} entries"),
        Row("Ryu's simple_switch_13, entries/s, barrier", spread([FLOWS / b for _, (b, _) in pairs]), "same switch"),
        Row("the same, and ofctl_rest reads back: entries/s", spread([FLOWS / (b + c) for _, (b, c) in pairs])),
        Row("ratio icgw / Ryu, both reading back", spread([(b + c) / a for a, (b, c) in pairs])),
    ]
