"""Which nodes storage traffic crosses, told from the rules themselves (claim G09)."""

from __future__ import annotations

from collections.abc import Iterable

from controller.designs import Plan
from controller.pathtrace import DEFAULT_SOURCE_PORT, Leg, Tracer
from controller.services import storage_nodes
from emulator.model.fabric import Fabric, Role


def carriers(plan: Plan, role: Role) -> frozenset[str]:
    """Nodes of one role that storage traffic of any client crosses, found by following packets through the rules.

    Every client, storage node, service and protocol is tried, and for TCP every source-port bucket.
    """
    tracer = Tracer(plan)
    fabric = plan.fabric
    found: set[str] = set()
    requests = [(service.node, "tcp", service.port) for service in plan.services]
    requests += [(name, protocol, 0) for name in storage_nodes(fabric, plan.services) for protocol in ("icmp", "udp")]
    buckets = sorted(
        {rule.match.tcp_src for rule in plan.rules if rule.match.tcp_src_mask and rule.match.tcp_src is not None}
    ) or [0]
    for client in fabric.with_role(Role.GPU):
        for target, protocol, port in requests:
            for bucket in buckets if protocol == "tcp" else [0]:
                source_port = (DEFAULT_SOURCE_PORT & ~0xFF) + bucket
                journey = tracer.journey(client.name, target, protocol, port, source_port)
                found |= {
                    step.node
                    for leg in journey.there + journey.back
                    for step in leg.steps
                    if fabric.by_name[step.node].role is role
                }
    return frozenset(found)


def hosts_on(fabric: Fabric, legs: Iterable[Leg]) -> list[str]:
    """The hosts that legs visit, in order, each visit once."""
    names: list[str] = []
    for leg in legs:
        for step in leg.steps:
            if not fabric.by_name[step.node].is_switch and names[-1:] != [step.node]:
                names.append(step.node)
    return names
