"""The rules that every design shares: admission, the way through the tables, colours, and routing by destination.

In the open mode everybody may talk: only LLDP and ARP are looked at on the way in, and switches answer ARP for all
hosts. In the tenants' mode other rules admit packets of hosts, and the last hop checks once more (`deliver`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from controller.flows import (
    ETH_TYPE_ARP,
    ETH_TYPE_IPV4,
    ETH_TYPE_LLDP,
    IN_PORT,
    IP_PROTO_TCP,
    ArpReply,
    FlowRule,
    Match,
    Output,
    Purpose,
    Table,
    ToController,
    cookie_of,
)
from controller.frame import ARP_REQUEST
from controller.paths import Attachment, Paths
from emulator.model.fabric import Fabric

PRIORITY_DEFAULT = 0
PRIORITY_PLAIN = 100
PRIORITY_COLOURED = 200
PRIORITY_EXEMPT = 200
PRIORITY_LLDP = 400
PRIORITY_DISCOVER = 500
PRIORITY_OWN_ADDRESS = 200
LLDP_BYTES = 512
"""How much of an LLDP frame the controller gets."""


def discovery(fabric: Fabric) -> Iterator[FlowRule]:
    """LLDP from other switches goes to the controller, LLDP from anybody else nowhere."""
    for switch, dpid in _switches(fabric):
        for port in trunk_ports(fabric, switch):
            yield FlowRule(
                dpid,
                Table.ADMIT,
                PRIORITY_DISCOVER,
                Match(in_port=port, eth_type=ETH_TYPE_LLDP),
                (ToController(LLDP_BYTES),),
                cookie=cookie_of(Purpose.DISCOVER),
                note="LLDP of another switch",
            )
        yield FlowRule(
            dpid,
            Table.ADMIT,
            PRIORITY_LLDP,
            Match(eth_type=ETH_TYPE_LLDP),
            cookie=cookie_of(Purpose.VIOLATE),
            note="LLDP that no switch sent",
        )


def open_admission(fabric: Fabric, attachments: Mapping[str, Attachment]) -> Iterator[FlowRule]:
    """Everybody is let in; ARP is answered by the first switch and goes no further.

    A host that asks for its own address looks for duplicates (RFC 5227), and must not be told that there is one.
    """
    for switch, dpid in _switches(fabric):
        yield FlowRule(
            dpid,
            Table.ADMIT,
            PRIORITY_PLAIN,
            Match(eth_type=ETH_TYPE_ARP),
            goto=Table.ARP,
            cookie=cookie_of(Purpose.ARP),
            note="ARP is answered here",
        )
        yield _default(dpid, Table.ADMIT, Table.STEER)
        yield _default(dpid, Table.ARP, None, "nobody has that address")
        here = {host: place.port for host, place in attachments.items() if place.switch == switch}
        if not here:
            continue
        for host in attachments:
            node = fabric.by_name[host]
            if node.ip is None or node.mac is None:
                continue
            request = Match(eth_type=ETH_TYPE_ARP, arp_op=ARP_REQUEST, arp_tpa=str(node.ip.ip))
            yield FlowRule(
                dpid,
                Table.ARP,
                PRIORITY_PLAIN,
                request,
                (ArpReply(str(node.ip.ip), node.mac), Output(IN_PORT)),
                cookie=cookie_of(Purpose.ARP),
                note=f"where {host} is",
            )
            if host in here:
                yield FlowRule(
                    dpid,
                    Table.ARP,
                    PRIORITY_OWN_ADDRESS,
                    replace(request, in_port=here[host]),
                    cookie=cookie_of(Purpose.ARP),
                    note=f"{host} looks for others with its address",
                )


def forwarding(
    fabric: Fabric,
    paths: Paths,
    *,
    exempt: Collection[int] = (),
    classed: Collection[int] = (),
    deliver: bool = False,
) -> Iterator[FlowRule]:
    """The way through the tables from STEER on, but for the steering rules themselves.

    Args:
        fabric: Its switches get the rules.
        paths: Where packets go.
        exempt: Datapath ids of the switches with steering rules, in which other TCP is exempt.
        classed: Datapath ids of the switches with rules in `Table.CLASS`; the others skip it.
        deliver: The last switch sends packets for its hosts through `Table.DELIVER`, not straight to them.
    """
    for switch, dpid in _switches(fabric):
        steered = Table.CLASS if dpid in classed else Table.SPREAD
        if dpid in exempt:
            yield FlowRule(
                dpid,
                Table.STEER,
                PRIORITY_EXEMPT,
                Match(eth_type=ETH_TYPE_IPV4, ip_proto=IP_PROTO_TCP),
                goto=steered,
                cookie=cookie_of(Purpose.EXEMPT),
                note="TCP to other ports than a service's",
            )
        yield _default(dpid, Table.STEER, steered)
        if dpid in classed:
            yield _default(dpid, Table.CLASS, Table.SPREAD)
        yield _default(dpid, Table.SPREAD, Table.ROUTE)
        yield _default(dpid, Table.ROUTE, None, "unknown destination")
        yield from _routing(fabric, paths, switch, dpid, deliver=deliver)


def trunk_ports(fabric: Fabric, switch: str) -> list[int]:
    """A switch's ports to other switches, in order."""
    ports = [(link.a_port, link.b) if link.a == switch else (link.b_port, link.a) for link in fabric.links_of(switch)]
    return sorted(port for port, peer in ports if fabric.by_name[peer].is_switch)


def _switches(fabric: Fabric) -> Iterator[tuple[str, int]]:
    for node in fabric.switches:
        if node.dpid is not None:
            yield node.name, node.dpid


def _default(dpid: int, table: Table, goto: Table | None, note: str = "next table") -> FlowRule:
    return FlowRule(dpid, table, PRIORITY_DEFAULT, Match(), goto=goto, cookie=cookie_of(Purpose.DEFAULT), note=note)


def _routing(fabric: Fabric, paths: Paths, switch: str, dpid: int, *, deliver: bool) -> Iterator[FlowRule]:
    coloured = False
    for host, place in paths.attachments.items():
        match = Match(eth_dst=fabric.by_name[host].mac)
        if place.switch == switch:
            yield FlowRule(
                dpid,
                Table.ROUTE,
                PRIORITY_PLAIN,
                match,
                () if deliver else (Output(place.port),),
                goto=Table.DELIVER if deliver else None,
                cookie=cookie_of(Purpose.ROUTE),
                note=f"to {host}",
            )
            continue
        actions = [
            paths.towards(switch, place.switch, (colour + paths.colours[host]) % paths.planes)
            for colour in range(paths.planes)
        ]
        for colour, action in enumerate(actions):
            # Colour 0 is what packets have that nobody coloured, so its rule serves all that have no better one.
            if action is None or (colour and action == actions[0]):
                continue
            coloured = coloured or colour > 0
            yield FlowRule(
                dpid,
                Table.ROUTE,
                PRIORITY_COLOURED if colour else PRIORITY_PLAIN,
                Match(eth_dst=match.eth_dst, metadata=colour or None),
                (action,),
                cookie=cookie_of(Purpose.ROUTE),
                note=f"to {host}" + (f" from colour {colour}" if colour else ""),
            )
    if coloured:
        for host, colour in paths.colours.items():
            if colour:
                yield FlowRule(
                    dpid,
                    Table.SPREAD,
                    PRIORITY_PLAIN,
                    Match(eth_src=fabric.by_name[host].mac),
                    write_metadata=colour,
                    goto=Table.ROUTE,
                    cookie=cookie_of(Purpose.COLOUR),
                    note=f"from {host}",
                )
