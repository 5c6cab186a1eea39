"""Predictions before a run, against figures worked out by hand, and the plan's picture."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from emulator.errors import ScenarioError
from emulator.model.profile import PROFILES
from emulator.model.workload import Checkpoint, NvmeIo, Ping, Poisson, SmallPackets, TcpBulk, Workload
from emulator.scenario import loads, resolve
from emulator.scenario.plan import plan, render
from emulator.scenario.predict import Flow, Prediction, Route, needed_flows, predict
from topologies import FABRICS

DOCUMENTS = PROFILES["documents"]
CHAIN = FABRICS["chain"](hops=2, rate_bps=100_000_000_000, delay_ns=1_000, mtu_bytes=9000)
STRAIGHT = Route(("h0", "s1", "h1"), ("h1", "s1", "h0"))
FABRIC = FABRICS["icgw"](delay_ns=1_000)
GATEWAY = Route(
    ("g1", "la1", "spa1", "la2", "gw1", "la2", "spa1", "la3", "s1"),
    ("s1", "la3", "spa1", "la2", "gw1", "la2", "spa1", "la1", "g1"),
)


def on_chain(workload: Workload) -> Prediction:
    routes = dict.fromkeys(needed_flows([workload]), STRAIGHT)
    return predict(CHAIN, DOCUMENTS, routes, workload)


def test_ping() -> None:
    """56 bytes of payload are 122 bytes on the line: 9 ns (whole ns) and 1 us on each of two links, both ways."""
    assert on_chain(Ping("p", "h0", "h1")).latency_ns == 4 * (1_000 + 9)


def test_stations_count_once_a_crossing() -> None:
    """Through the gateway a ping crosses eight links and the gateway's 5 us each way."""
    workload = Ping("p", "g1", "s1")
    found = predict(FABRIC, DOCUMENTS, {("g1", "s1", "icmp"): GATEWAY}, workload)
    assert found.latency_ns == 16 * (1_000 + 9) + 2 * DOCUMENTS.gateway.latency_ns


def test_tcp_capacity() -> None:
    """One flow gets what headers leave of the line rate: 8948 of 9038 bytes."""
    found = on_chain(TcpBulk("t", ("h0",), ("h1",), size_bytes=1))
    assert found.capacity_bps == pytest.approx(100e9 * 8948 / 9038, rel=1e-12)
    assert found.bottleneck == "h0-eth0"


def test_flows_share_the_link_that_they_have_in_common() -> None:
    """Two hosts that send to one get one link's worth together."""
    single = FABRICS["single"](hosts=3)
    workload = TcpBulk("t", ("h1", "h2"), ("h3",), flows=2, size_bytes=1)
    routes = {(name, "h3", "tcp"): Route((name, "s1", "h3"), ("h3", "s1", name)) for name in ("h1", "h2")}
    found = predict(single, DOCUMENTS, routes, workload)
    assert found.capacity_bps == pytest.approx(100e9 * 8948 / 9038, rel=1e-12)
    assert found.bottleneck == "s1-eth3"


def test_poisson() -> None:
    """The note has the M/D/1 mean wait for the link's service time."""
    found = on_chain(Poisson("q", "h0", "h1", 0.5, frame_bytes=1226))
    assert found.latency_ns == 2 * (1_000 + 100)
    assert found.note == "mean wait 50.0 ns (M/D/1)"


def test_small_packets_meet_the_packet_rate_of_a_station() -> None:
    """Half a million packets/s of 512 bytes are 2 Gbit/s, far below the line."""
    workload = SmallPackets("s", "g1", "s1", message_bytes=512)
    slow = Route(("g1", "la1", "spa1", "la2", "c1", "la2", "spa1", "la3", "s1"), GATEWAY.back)
    found = predict(FABRIC, DOCUMENTS, {("g1", "s1", "udp"): slow}, workload)
    assert (found.capacity_bps, found.bottleneck) == (500_000 * 512 * 8, "c1")


def test_nvme_read_of_several_packets() -> None:
    """A 16 KiB read: the command there, the media, then two packets that follow each other on the line back."""
    found = on_chain(NvmeIo("n", ("h0",), "h1", block_bytes=16_384))
    command = 14 + 52 + 72
    first, last = 9_014, 14 + 52 + (24 + 24 + 16_384) - 8_948
    there = 2 * (1_000 + (command + 24) * 8 // 100)
    back = 2 * (1_000 + (first + 24) * 8 // 100) + (last + 24) * 8 // 100
    assert found.latency_ns == there + DOCUMENTS.media.latency_ns + back


def test_checkpoint_duration() -> None:
    """The note says how long the bytes take at least."""
    found = on_chain(Checkpoint("c", ("h0",), "h1", 1_000_000_000))
    assert found.note.startswith("at least 80.8 ms")


def test_missing_and_impossible_routes() -> None:
    """A route that is not given, or that jumps, is an error, not a wrong figure."""
    workload = Ping("p", "h0", "h1")
    with pytest.raises(ScenarioError, match="'p' has no route from h0 to h1"):
        predict(CHAIN, DOCUMENTS, {}, workload)
    flow: Flow = ("h0", "h1", "icmp")
    with pytest.raises(ScenarioError, match="from h0 to h1, which are not linked"):
        predict(CHAIN, DOCUMENTS, {flow: Route(("h0", "h1"), ("h1", "h0"))}, workload)


def test_plan_and_its_picture(small: str) -> None:
    """A plan names every node, link and prediction; it is JSON and text."""
    (cell,) = resolve(loads(small.replace("hops: 3", "hops: 2")))
    made = plan(cell, CHAIN, dict.fromkeys(needed_flows(cell.workloads), STRAIGHT))
    data = json.loads(json.dumps(made.as_json()))
    assert [node["name"] for node in data["nodes"]] == ["h0", "h1", "s1"]
    assert [(link["a"], link["b"], link["rate_bps"]) for link in data["links"]] == [
        ("h0-eth0", "s1-eth1", 10**11), ("s1-eth2", "h1-eth0", 10**11),
    ]  # fmt: skip
    assert [entry["workload"] for entry in data["predictions"]] == ["rtt", "bulk"]
    output = io.StringIO()
    render(made, Console(file=output, width=200))
    for text in ("small: base", "10.0.0.1/8", "h0-eth0", "100 Gbit/s", "4.036 us", "99 Gbit/s", "h0 → s1 → h1"):
        assert text in output.getvalue(), text


def test_a_plan_is_readable_in_80_columns(small: str) -> None:
    """On a usual terminal no line is wider, and neither names nor figures are broken in two.

    Verify: every link stands on one line of its own; what is the same for all links has no column.
    """
    (cell,) = resolve(loads(small.replace("hops: 3", "hops: 2")))
    output = io.StringIO()
    render(plan(cell, CHAIN, dict.fromkeys(needed_flows(cell.workloads), STRAIGHT)), Console(file=output, width=80))
    lines = output.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    for link in CHAIN.links:
        [line] = [line for line in lines if link.a_interface in line and link.b_interface in line]
        assert "100 Gbit/s" in line
        assert f"{link.spec.waiting_packets} packets" in line
    assert any("rtt" in line and "4.036 us" in line for line in lines)
    assert any("h0 → s1 → h1" in line for line in lines)
    assert "ppm" not in output.getvalue()


def test_plan_shows_the_cost_model_where_it_is_in_force(small: str) -> None:
    """Stations matter only in the designs that visit nodes."""
    text = small.replace("kind: chain, hops: 3, rate: 100 Gbit/s, delay: 1 us", "kind: icgw")
    text = text.replace("h0", "g1").replace("h1", "s1").replace("expect", "designs: [gateway]\nexpect")
    (cell,) = resolve(loads(text))
    output = io.StringIO()
    render(plan(cell, FABRIC, dict.fromkeys(needed_flows(cell.workloads), GATEWAY)), Console(file=output, width=200))
    assert "Profile documents" in output.getvalue()
    assert "500 000 packets/s" in output.getvalue()
