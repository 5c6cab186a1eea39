"""Which queue the rules of `Table.CLASS` choose, by sending frames' fields through them in our own words."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from controller.classes import COMPUTE_QUEUE, STORAGE_QUEUE, class_rules, classed_switches
from controller.flows import IP_PROTO_TCP, IP_PROTO_UDP, FlowRule, Purpose, SetQueue, Table, purpose_of
from emulator.model.fabric import Fabric, FabricBuilder, LinkSpec

PLAIN = LinkSpec(10**9, 500)
CLASSED = replace(PLAIN, storage_share=0.3)


@dataclass(frozen=True)
class _Service:
    name: str
    ip: str
    port: int


BLOCK = _Service("block", "10.0.0.2", 4420)


def row(*specs: LinkSpec) -> Fabric:
    """h0 - s1 - s2 … - h1 with these links."""
    builder = FabricBuilder("row")
    builder.add_host("h0", "10.0.0.1/8")
    builder.add_host("h1", "10.0.0.2/8")
    names = ["h0", *(builder.add_switch(f"s{n}").name for n in range(1, len(specs))), "h1"]
    for left, right, spec in zip(names, names[1:], specs, strict=False):
        builder.add_link(left, right, spec)
    return builder.build()


def queue_of(rules: tuple[FlowRule, ...], dpid: int, **packet: int | str) -> int | None:
    """The queue that the highest rule chooses which asks for nothing that the packet does not have."""
    fitting = [
        rule
        for rule in rules
        if rule.dpid == dpid and all(packet.get(key) == value for key, value in rule.match.set_fields().items())
    ]
    if not fitting:
        return None
    best = max(rule.priority for rule in fitting)
    [queue] = {action.queue for rule in fitting if rule.priority == best for action in rule.actions}  # type: ignore[union-attr]
    return queue


def tcp(src: str, sport: int, dst: str, dport: int, proto: int = IP_PROTO_TCP) -> dict[str, int | str]:
    word = "tcp" if proto == IP_PROTO_TCP else "udp"
    return {
        "eth_type": 0x0800,
        "ip_proto": proto,
        "ipv4_src": src,
        "ipv4_dst": dst,
        f"{word}_src": sport,
        f"{word}_dst": dport,
    }


def test_no_rules_without_classes() -> None:
    """A fabric whose links have one queue gets no rules and no switch, so nothing changes for it."""
    assert class_rules(row(PLAIN, PLAIN), [BLOCK]) == ()
    assert classed_switches(row(PLAIN, PLAIN)) == frozenset()


def test_only_switches_with_such_a_link_get_rules() -> None:
    """Switches at either end of a link with two queues have rules, others have none; hosts never matter."""
    fabric = row(PLAIN, CLASSED, PLAIN, PLAIN)
    assert classed_switches(fabric) == {1, 2}
    assert {rule.dpid for rule in class_rules(fabric, [BLOCK])} == {1, 2}
    assert classed_switches(row(CLASSED)) == frozenset(), "a link between two hosts"


@pytest.mark.parametrize(
    ("packet", "queue"),
    [
        (tcp("10.0.0.1", 50_000, "10.0.0.2", 4420), STORAGE_QUEUE),
        (tcp("10.0.0.2", 4420, "10.0.0.1", 50_000), STORAGE_QUEUE),
        ({**tcp("10.0.0.2", 4420, "10.0.0.1", 50_000), "vlan": 7, "in_port": 2}, STORAGE_QUEUE),
        # The same port on another node, or as the other side's number, is no service.
        (tcp("10.0.0.2", 50_000, "10.0.0.1", 4420), COMPUTE_QUEUE),
        (tcp("10.0.0.1", 4420, "10.0.0.2", 50_000), COMPUTE_QUEUE),
        (tcp("10.0.0.1", 1, "10.0.0.2", 4420, IP_PROTO_UDP), COMPUTE_QUEUE),
        ({"eth_type": 0x0806}, COMPUTE_QUEUE),
    ],
)
def test_queue_of_packets(packet: dict[str, int | str], queue: int) -> None:
    """TCP to and from a service's address and port is storage, everything else compute, tagged or not."""
    rules = class_rules(row(PLAIN, CLASSED, PLAIN), [BLOCK])
    assert [queue_of(rules, dpid, **packet) for dpid in (1, 2)] == [queue, queue]


def test_rules_are_complete_and_unique() -> None:
    """Every rule chooses one queue and goes on; no two have the same key, also where services share a place."""
    services = [BLOCK, replace(BLOCK, name="again"), _Service("file", "10.0.0.2", 2049)]
    rules = class_rules(row(PLAIN, CLASSED, PLAIN), services)
    assert len({(rule.dpid, rule.key) for rule in rules}) == len(rules) == 2 * (2 * 2 + 1)
    assert {rule.table for rule in rules} == {Table.CLASS}
    assert {rule.goto for rule in rules} == {Table.SPREAD}
    assert {purpose_of(rule.cookie) for rule in rules} == {Purpose.CLASS}
    assert all(isinstance(rule.actions[0], SetQueue) and len(rule.actions) == 1 for rule in rules)
    assert class_rules(row(PLAIN, CLASSED, PLAIN), services) == rules, "in a fixed order"
