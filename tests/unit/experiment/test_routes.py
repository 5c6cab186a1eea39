"""Routes of cells: what predictions and theory records are computed from."""

from __future__ import annotations

import pytest

from emulator.errors import ControllerError
from emulator.experiment.routes import Routes
from emulator.model.profile import profile
from topologies import chain, icgw

COSTS = profile("documents")


def test_hosts_wired_to_each_other_need_no_switch() -> None:
    """One hop is one link and no plan."""
    routes = Routes(chain(hops=1), "shortest-path")
    assert routes.route("h0", "h1").there == ("h0", "h1")
    assert len(routes.path("h0", "h1")) == 1
    assert routes.stations("h0", "h1", COSTS) == []


@pytest.mark.parametrize("hops", [2, 3, 5])
def test_chains(hops: int) -> None:
    """A chain of n hops crosses n links and n - 1 switches."""
    routes = Routes(chain(hops=hops), "shortest-path")
    assert len(routes.path("h0", "h1")) == hops
    assert routes.route("h0", "h1").back == tuple(reversed(routes.route("h0", "h1").there))


def test_conventional_crosses_router_and_compute() -> None:
    """Packets to storage cross two stations of 100 us each, and none of the gateway."""
    routes = Routes(icgw(gpus=2, storage=1), "conventional")
    there = routes.route("g1", "s1").there
    assert there.index("r1") < min(there.index(name) for name in there if name.startswith("c"))
    assert "gw1" not in there
    assert [station.latency_ns for station in routes.stations("g1", "s1", COSTS)] == [100_000, 100_000]


def test_gateway_crosses_only_the_gateway() -> None:
    """Packets to storage cross one station of 5 us and no general compute node, with TCP and without."""
    routes = Routes(icgw(gpus=2, storage=1), "gateway")
    for protocol in ("icmp", "udp", "tcp"):
        there = routes.route("g1", "s1", protocol).there
        assert there.count("gw1") == 1
        assert not any(name.startswith(("c", "r")) for name in there)
    assert [station.latency_ns for station in routes.stations("g1", "s1", COSTS)] == [5_000]


def test_traffic_between_gpus_goes_direct() -> None:
    """The designs steer storage traffic and nothing else."""
    for design in ("conventional", "gateway"):
        routes = Routes(icgw(gpus=2, storage=1), design)
        assert routes.stations("g1", "g2", COSTS) == []


def test_unknown_host() -> None:
    """A host that is not there is named."""
    with pytest.raises(ControllerError, match="'h7'"):
        Routes(chain(hops=2), "shortest-path").route("h0", "h7")
