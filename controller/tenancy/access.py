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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

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
from controller.tenancy.verdicts import Allowed
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


Shape = tuple[int, tuple[tuple[str, int | bool], ...]]
"""Priority and further fields of a rule between two nodes."""


def shapes(opened: Allowed, asked: Allowed) -> list[Shape]:
    """What tells the rules from one node to another apart.

    Args:
        opened: What it may open.
        asked: What the other one may open.
    """
    return [*_opening(opened), *_answering(opened, asked)]


@dataclass(frozen=True)
class Pair:
    """One node on its way to another one of its VPC.

    Attributes:
        site: The fabric.
        segment: The VPC's segment.
        source, target: The nodes.
        ip: The target's address in the VPC.
    """

    site: Site
    segment: int
    source: Place
    target: Place
    ip: str

    def rules(self, wanted: Iterable[Shape], known: Mapping[Shape, FlowRule]) -> dict[Shape, FlowRule]:
        """The rules of these shapes; those that are known are not made again."""
        place, host, peer = self.source, self.source.host, self.target.host
        actions = (PushVlan(self.segment), SetField("eth_dst", self.target.mac))
        base = {"in_port": place.port, "eth_type": ETH_TYPE_IPV4, "ipv4_dst": self.ip}
        goto, cookie = self.site.classes(place.dpid), cookie_of(Purpose.ALLOW)
        notes = {PRIORITY_OPEN: f"{host} opens to {peer}", PRIORITY_ANSWER: f"{host} answers {peer}"}
        made: dict[Shape, FlowRule] = {}
        for shape in wanted:
            rule = known.get(shape)
            if rule is None:
                priority, fields = shape
                match = Match(**base, **dict(fields))  # type: ignore[arg-type]  # names of fields are checked by Match
                rule = FlowRule(
                    place.dpid, Table.ACCESS, priority, match, actions, goto=goto, cookie=cookie, note=notes[priority]
                )
            made[shape] = rule
        return made


def _opening(allowed: Allowed) -> Iterator[Shape]:
    for protocol, number, ranges in (("tcp", IP_PROTO_TCP, allowed.tcp), ("udp", IP_PROTO_UDP, allowed.udp)):
        for value, mask in ports.blocks(ranges):
            yield PRIORITY_OPEN, (("ip_proto", number), *_port_fields(f"{protocol}_dst", value, mask))
    if allowed.icmp:
        yield PRIORITY_OPEN, (("ip_proto", IP_PROTO_ICMP),)


def _answering(opened: Allowed, asked: Allowed) -> Iterator[Shape]:
    """Answers, but for those that are let through anyway."""
    if opened.tcp != ports.ALL:
        for value, mask in ports.blocks(asked.tcp):
            fields = _port_fields("tcp_src", value, mask)
            yield PRIORITY_ANSWER, (("ip_proto", IP_PROTO_TCP), ("tcp_ack", True), *fields)
    if opened.udp != ports.ALL:
        for value, mask in ports.blocks(asked.udp):
            yield PRIORITY_ANSWER, (("ip_proto", IP_PROTO_UDP), *_port_fields("udp_src", value, mask))
    if asked.icmp and not opened.icmp:
        yield PRIORITY_ANSWER, (("ip_proto", IP_PROTO_ICMP), ("icmp_type", _ECHO_REPLY))


def _port_fields(name: str, value: int, mask: int) -> tuple[tuple[str, int], ...]:
    """A masked port as fields of `Match`."""
    if mask == 0:
        return ()
    if mask == ports.LAST_PORT:
        return ((name, value),)
    return ((name, value), (f"{name}_mask", mask))
