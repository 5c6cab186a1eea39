"""Third table: may these two talk? Only the first switch asks.

Semantics
    Policies judge who *opens*: the first TCP segment, a UDP datagram, an ICMP message from source to destination.
    Within a VPC the policy with the highest priority that applies decides, a denial before a permission of the same
    priority, and if none applies the answer is no (`controller.tenancy.verdicts`).
    Answers are let back by what a stateless switch can see. If A may open TCP to B's port p, B may send TCP segments
    from port p with the ACK flag to A; if A may send UDP to B's port p, B may send UDP from port p to A; if A may send
    ICMP to B, B may send echo replies to A.
    A denial of B to A is about opening, so it does not stop B's answers to A; nothing but such answers passes because
    of a permission in the other direction. So with a denial of all B sends to A and a permission of A to B's UDP port
    p, B can send A datagrams from port p that A never asked for. TCP cannot be opened like this: a segment that opens
    a connection has no ACK flag.
    Later fragments of a packet show no ports, so they pass only where all ports of their protocol do.

Within a pair the rules only permit, and never disagree: port numbers are covered by masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.flows import (
    ETH_TYPE_IPV4,
    IP_PROTO_ICMP,
    IP_PROTO_TCP,
    IP_PROTO_UDP,
    FlowRule,
    Match,
    Purpose,
    PushVlan,
    SetField,
    Table,
    cookie_of,
)
from controller.tenancy import ports
from controller.tenancy.admission import report
from controller.tenancy.site import Place, Site
from controller.tenancy.verdicts import Allowed, Verdicts
from controller.tenancy.violations import Violation

PRIORITY_DEFAULT = 0
PRIORITY_MULTICAST = 100
PRIORITY_ANSWER = 200
PRIORITY_OPEN = 300
_MULTICAST = "224.0.0.0/4"
_ECHO_REPLY = 0


def refusals(site: Site) -> Iterator[FlowRule]:
    """The defaults: what is not allowed is denied and reported; multicast is dropped in silence, hosts chatter so."""
    for dpid in site.edges:
        yield FlowRule(
            dpid,
            Table.ACCESS,
            PRIORITY_MULTICAST,
            Match(eth_type=ETH_TYPE_IPV4, ipv4_dst=_MULTICAST),
            cookie=cookie_of(Purpose.DEFAULT),
            note="there is no multicast",
        )
        yield report(dpid, Table.ACCESS, PRIORITY_DEFAULT, Match(), Violation.NOT_ALLOWED, "no policy allows it")


def within(
    site: Site, segment: int, verdicts: Verdicts, members: Mapping[str, tuple[Place, str]]
) -> Iterator[FlowRule]:
    """Who may talk to whom among the nodes of a VPC.

    Args:
        site: The fabric.
        segment: The VPC's segment.
        verdicts: Its policies.
        members: Its nodes and their addresses in it, by host.
    """
    shapes: dict[tuple[Allowed, Allowed], list[_Fields]] = {}
    for source, (place, _) in members.items():
        for target, (peer, ip) in members.items():
            if source == target:
                continue
            opened, answered = verdicts.between(source, target), verdicts.between(target, source)
            actions = (PushVlan(segment), SetField("eth_dst", peer.mac))
            base = {"in_port": place.port, "eth_type": ETH_TYPE_IPV4, "ipv4_dst": ip}
            if (opened, answered) not in shapes:
                shapes[opened, answered] = [*_opening(opened), *_answering(opened, answered)]
            for priority, fields in shapes[opened, answered]:
                yield FlowRule(
                    place.dpid,
                    Table.ACCESS,
                    priority,
                    Match(**base, **fields),  # type: ignore[arg-type]  # names of fields are checked by Match
                    actions,
                    goto=site.classes(place.dpid),
                    cookie=cookie_of(Purpose.ALLOW),
                    note=f"{source} {'opens to' if priority == PRIORITY_OPEN else 'answers'} {target}",
                )


_Fields = tuple[int, dict[str, int | bool]]


def _opening(allowed: Allowed) -> Iterator[_Fields]:
    for protocol, number, ranges in (("tcp", IP_PROTO_TCP, allowed.tcp), ("udp", IP_PROTO_UDP, allowed.udp)):
        for value, mask in ports.blocks(ranges):
            yield PRIORITY_OPEN, {"ip_proto": number, **port_fields(f"{protocol}_dst", value, mask)}
    if allowed.icmp:
        yield PRIORITY_OPEN, {"ip_proto": IP_PROTO_ICMP}


def _answering(opened: Allowed, asked: Allowed) -> Iterator[_Fields]:
    """Answers, but for those that are let through anyway."""
    if opened.tcp != ports.ALL:
        for value, mask in ports.blocks(asked.tcp):
            fields = {"ip_proto": IP_PROTO_TCP, "tcp_ack": True, **port_fields("tcp_src", value, mask)}
            yield PRIORITY_ANSWER, fields
    if opened.udp != ports.ALL:
        for value, mask in ports.blocks(asked.udp):
            yield PRIORITY_ANSWER, {"ip_proto": IP_PROTO_UDP, **port_fields("udp_src", value, mask)}
    if asked.icmp and not opened.icmp:
        yield PRIORITY_ANSWER, {"ip_proto": IP_PROTO_ICMP, "icmp_type": _ECHO_REPLY}


def port_fields(name: str, value: int, mask: int) -> dict[str, int | bool]:
    """A masked port as fields of `Match`."""
    if mask == 0:
        return {}
    if mask == ports.LAST_PORT:
        return {name: value}
    return {name: value, f"{name}_mask": mask}
