"""Whole plans in real switches, without a controller: what the path model says is what packets do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import pytest

from controller.designs import Design, Plan, plan
from controller.flows import ETH_TYPE_ARP
from controller.frame import ARP_REQUEST, BROADCAST, Frame
from controller.paths import Spread
from controller.pathtrace import Tracer
from emulator.model.fabric import Fabric
from tests.support.controller_fabrics import leaf_spine, services_of
from tests.support.dummy_ovs import missing
from tests.support.real_switches import RealFabric, real_fabric

FABRIC = leaf_spine(spines=2, leaves=3, gpus=3, computes=2, storage=2, parallel=2)
FABRIC = Fabric(
    FABRIC.name,
    FABRIC.nodes,
    tuple(replace(link, spec=replace(link.spec, storage_share=0.3)) for link in FABRIC.links[:4]) + FABRIC.links[4:],
)
SERVICES = services_of(FABRIC, 4420)
EXCHANGES = (("icmp", 0), ("udp", 53), ("tcp", 4420), ("tcp", 22))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealFabric]:
    """The switches of the fabric."""
    if missing():
        pytest.skip(f"Open vSwitch is not installed: {', '.join(missing())}")
    with real_fabric(tmp_path_factory.mktemp("plan"), FABRIC) as real:
        yield real


def sent(tracer: Tracer) -> list[tuple[str, Frame]]:
    """Every packet that any host, forwarder or proxy sends in any exchange of two hosts, and ARP requests."""
    found: dict[tuple[str, Frame], None] = {}
    for source, target in permutations(FABRIC.hosts, 2):
        for protocol, port in EXCHANGES:
            journey = tracer.journey(source.name, target.name, protocol, port)
            for leg in journey.there + journey.back:
                steps = [step for step in leg.steps if step.what in ("sends", "forwards")]
                found |= dict.fromkeys((step.node, step.frame) for step in steps)
        assert source.mac
        assert source.ip
        assert target.ip
        request = Frame(source.mac, BROADCAST, ETH_TYPE_ARP, arp_op=ARP_REQUEST, arp_sha=source.mac)
        addresses = {"arp_spa": str(source.ip.ip), "arp_tpa": str(target.ip.ip), "arp_tha": "00:00:00:00:00:00"}
        found[source.name, replace(request, **addresses)] = None  # type: ignore[arg-type]
    return list(found)


def possible(tracer: Tracer, host: str, frame: Frame) -> list[list[tuple[str, Frame]]]:
    """Who may get a packet first, and as what; nobody if it is lost."""
    found = []
    for leg in tracer.ways(host, frame):
        hosts = [index for index, step in enumerate(leg.steps) if not FABRIC.by_name[step.node].is_switch]
        first = hosts[1] if len(hosts) > 1 else None
        found.append([] if first is None else [(leg.steps[first].node, leg.steps[first - 1].frame)])
    return found


def compare(real: RealFabric, tracer: Tracer, packets: list[tuple[str, Frame]]) -> int:
    """Let all packets come in and hold what arrives against the model; returns how many arrived."""
    arrived = 0
    for (host, frame), got in zip(packets, real.deliver(packets), strict=True):
        assert got in possible(tracer, host, frame), (host, frame, got)
        arrived += bool(got)
    return arrived


@pytest.mark.parametrize("spread", list(Spread))
@pytest.mark.parametrize("design", list(Design))
def test_packets_arrive_where_the_model_says_whatever_fails(real: RealFabric, design: Design, spread: Spread) -> None:
    """A plan is taken and given back exactly; its packets arrive as modelled, also over what failures leave.

    Steps: load the plan; let every packet of every exchange of two hosts come in, ARP included; take more and more
    links away, until a switch is cut off, and let some of them come in again.
    Verify: what each host gets, header by header, and that nobody else gets anything.
    """
    made: Plan = plan(FABRIC, design, SERVICES, spread)
    real.set_down(())
    real.load(made.program)
    for dpid, openflow in real.sockets.items():
        rules, groups, _ = openflow.held()
        assert set(made.program_of(dpid).rules) == {rule for rule in rules if rule is None or rule.priority != 65_535}
        assert set(made.program_of(dpid).groups) == set(groups)
    tracer = Tracer(made)
    packets = sent(tracer)
    assert compare(real, tracer, packets) == len(packets)
    links = [link.name for link in FABRIC.links if {link.a, link.b} <= {"s0", "s1", "l0"}]
    lost = 0
    some = packets[::5]
    for count in (1, 2, len(links)):
        tracer.down = frozenset(links[:count])
        real.set_down(tracer.down)
        lost = len(some) - compare(real, tracer, some)
        assert count > 1 or not lost  # a parallel link takes over at once
    assert 0 < lost < len(some)
    real.set_down(())
