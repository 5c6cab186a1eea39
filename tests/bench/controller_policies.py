"""From 10 000 policies to rules: 100 VPCs of 10 nodes with 100 policies each, and all in one VPC of 100 nodes."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from controller.tenancy.compile import Compiler
from controller.tenancy.kinds import Key, Kind, Resource
from controller.tenancy.model import Destinations, Policy, PortRange, Protocol, Sources, Tenant, Vpc, VpcNode
from controller.tenancy.state import TenancyState
from tests.bench.apart import MEMORY, Figures, Watch, apart, main
from tests.bench.table import Row, spread
from tests.support.controller_fabrics import leaf_spine
from tests.support.tenancy_sites import site_of

POLICIES, VPCS, NODES = 10_000, 100, 10
FEWER = 10
"""A tenth of it is compiled too: what grows faster than the number of policies shows in the ratio."""


def _policy(vpc: str, hosts: list[str], number: int) -> Policy:
    """One of many that differ: between two nodes, over one port."""
    source, target = hosts[number % len(hosts)], hosts[(number // len(hosts) + 1 + number) % len(hosts)]
    return Policy(
        vpc=vpc,
        action="deny" if number % 5 == 0 else "allow",
        priority=number % 10_000,
        source=Sources(nodes=(source,)),
        destination=Destinations(nodes=(target,)),
        protocol=Protocol.TCP,
        ports=(PortRange(first=1000 + number, last=1000 + number + number % 3),),
    )


def compiled(vpcs: str, nodes: str, policies: str) -> Figures:
    """Compile so many VPCs with so many nodes and policies each; then change one policy and compile again."""
    entries: list[tuple[Kind, Key, Resource]] = []
    for index in range(int(vpcs)):
        name = f"v{index}"
        entries.append((Kind.TENANTS, (name,), Tenant()))
        entries.append((Kind.VPCS, (name,), Vpc(tenant=name, cidrs=(IPv4Network("10.0.0.0/16"),), segment=100 + index)))
        hosts = [f"g{index * int(nodes) + number}" for number in range(int(nodes))]
        for number, host in enumerate(hosts):
            entries.append((Kind.NODES, (name, host), VpcNode(ip=IPv4Address("10.0.0.1") + number)))
        for number in range(int(policies)):
            entries.append((Kind.POLICIES, (f"p{index}-{number}",), _policy(name, hosts, number)))
    state = TenancyState.build([(kind, key, 1, resource) for kind, key, resource in entries], 1)
    site = site_of(leaf_spine(gpus=int(vpcs) * int(nodes), leaves=20), "shortest-path")
    compiler = Compiler(site)
    watch = Watch()
    rules = len(compiler.program(state).rules)
    whole_s = watch.lap()
    changed = state.put(Kind.POLICIES, ("p0-0",), _policy("v0", ["g0", "g1"], 7), site.ground).state
    watch.lap()
    compiler.parts(changed)
    return {"whole_s": whole_s, "again_s": watch.lap(), "rules": rules}


def measure(rounds: int) -> list[Row]:
    """Each in a process of its own."""
    rows = []
    for what, vpcs, nodes in ((f"{VPCS} VPCs", VPCS, NODES), ("one VPC of 100 nodes", 1, 100)):
        whole, less = (
            [apart(__name__, "compiled", str(vpcs), str(nodes), str(count // vpcs)) for _ in range(rounds)]
            for count in (POLICIES, POLICIES // FEWER)
        )
        note = f"{whole[0]['rules']:.0f} rules; {spread([one[MEMORY] for one in whole])[2]:.2f} GiB at most"
        ratios = [a["whole_s"] / b["whole_s"] for a, b in zip(whole, less, strict=True)]
        rows += [
            Row(f"{POLICIES} policies in {what}: s", spread([one["whole_s"] for one in whole]), note),
            Row("the same after one policy changed: s", spread([one["again_s"] for one in whole])),
            Row(f"ratio to {POLICIES // FEWER} policies", spread(ratios), f"in proportion: {FEWER}"),
        ]
    return rows


if __name__ == "__main__":
    main({"compiled": compiled})
