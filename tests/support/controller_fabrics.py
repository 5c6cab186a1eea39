"""Fabrics for tests of the controller."""

from __future__ import annotations

import networkx

from controller.services import Service
from emulator.model.fabric import Fabric, FabricBuilder, LinkSpec, Role

SPEC = LinkSpec(rate_bps=100_000_000_000, delay_ns=1_000)
LONG = LinkSpec(rate_bps=100_000_000_000, delay_ns=500_000)


class Hosts:
    """Adds hosts with consecutive addresses."""

    def __init__(self, builder: FabricBuilder) -> None:
        self._builder = builder
        self._count = 0

    def add(self, name: str, role: Role, switch: str, zone: str = "a") -> None:
        """Add a host behind a switch."""
        self._count += 1
        self._builder.add_host(
            name, f"10.{self._count >> 16}.{self._count >> 8 & 255}.{self._count & 255}/8", role=role, zone=zone
        )
        self._builder.add_link(name, switch, SPEC)


def leaf_spine(
    *,
    spines: int = 2,
    leaves: int = 3,
    gpus: int = 4,
    computes: int = 3,
    routers: int = 1,
    gateways: int = 2,
    storage: int = 2,
    parallel: int = 1,
) -> Fabric:
    """One zone; hosts of each role go round the leaves."""
    builder = FabricBuilder("leaf-spine")
    for index in range(spines):
        builder.add_switch(f"s{index}", tier=0)
    for index in range(leaves):
        builder.add_switch(f"l{index}")
    for spine in range(spines):
        for leaf in range(leaves):
            for _ in range(parallel):
                builder.add_link(f"s{spine}", f"l{leaf}", SPEC)
    hosts = Hosts(builder)
    for name, role, count in (
        ("g", Role.GPU, gpus),
        ("c", Role.COMPUTE, computes),
        ("r", Role.ROUTER, routers),
        ("gw", Role.GATEWAY, gateways),
        ("st", Role.STORAGE, storage),
    ):
        for index in range(count):
            hosts.add(f"{name}{index}", role, f"l{index % leaves}")
    return builder.build()


def random_regular(switches: int, degree: int, hosts: int) -> Fabric:
    """As many links at each switch, at random, of two rates, and hosts at all of them."""
    builder = FabricBuilder("jellyfish")
    for index in range(switches):
        builder.add_switch(f"s{index}")
    for number, (a, b) in enumerate(networkx.random_regular_graph(degree, switches, seed=7).edges):
        builder.add_link(f"s{a}", f"s{b}", LinkSpec((400 if number % 3 else 100) * 10**9, 1000))
    for index in range(hosts):
        builder.add_host(f"h{index}", f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}/8")
        builder.add_link(f"h{index}", f"s{index % switches}", LinkSpec(100 * 10**9, 1000))
    return builder.build()


def services_of(fabric: Fabric, *ports: int) -> tuple[Service, ...]:
    """One service per storage node and port."""
    return tuple(
        Service(f"{node.name}-{port}", node.name, str(node.ip.ip), port)
        for node in fabric.with_role(Role.STORAGE)
        if node.ip
        for port in ports
    )
