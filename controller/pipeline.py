"""The rules that every design shares: the way through the tables, colours, and routing by destination."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from controller.flows import ETH_TYPE_IPV4, IP_PROTO_TCP, FlowRule, Match, Purpose, Table, cookie_of
from controller.routing import Routes
from emulator.model.fabric import Fabric

PRIORITY_DEFAULT = 0
PRIORITY_EXEMPT = 200
PRIORITY_PLAIN = 100
PRIORITY_COLOURED = 200


def base_rules(fabric: Fabric, routes: Routes, exempt: Collection[int]) -> Iterator[FlowRule]:
    """All rules but the steering ones.

    Args:
        fabric: Its switches get the rules.
        routes: Where packets go.
        exempt: Datapath ids of the switches with steering rules, in which other TCP is exempt.
    """
    for switch in fabric.switches:
        if switch.dpid is None:
            continue
        if switch.dpid in exempt:
            yield FlowRule(
                switch.dpid,
                Table.STEER,
                PRIORITY_EXEMPT,
                Match(eth_type=ETH_TYPE_IPV4, ip_proto=IP_PROTO_TCP),
                goto=Table.SPREAD,
                cookie=cookie_of(Purpose.EXEMPT),
                note="TCP to other ports than a service's",
            )
        yield _default(switch.dpid, Table.STEER, Table.SPREAD)
        yield _default(switch.dpid, Table.SPREAD, Table.ROUTE)
        yield _default(switch.dpid, Table.ROUTE, None)
        yield from _routing(fabric, routes, switch.name, switch.dpid)


def _default(dpid: int, table: Table, goto: Table | None) -> FlowRule:
    note = "next table" if goto is not None else "unknown destination"
    return FlowRule(dpid, table, PRIORITY_DEFAULT, Match(), goto=goto, cookie=cookie_of(Purpose.DEFAULT), note=note)


def _routing(fabric: Fabric, routes: Routes, switch: str, dpid: int) -> Iterator[FlowRule]:
    coloured = False
    for host in routes.attachments:
        ports = [
            routes.port_to(switch, host, (colour + routes.colours[host]) % routes.planes)
            for colour in range(routes.planes)
        ]
        if ports[0] is None:
            continue
        mac = fabric.by_name[host].mac
        for colour, port in enumerate(ports):
            # Colour 0 is what packets have that nobody coloured, so its rule serves all that have no better one.
            if colour and port == ports[0]:
                continue
            coloured = coloured or colour > 0
            yield FlowRule(
                dpid,
                Table.ROUTE,
                PRIORITY_COLOURED if colour else PRIORITY_PLAIN,
                Match(eth_dst=mac, metadata=colour or None),
                output=port,
                cookie=cookie_of(Purpose.ROUTE),
                note=f"to {host}" + (f" from colour {colour}" if colour else ""),
            )
    if coloured:
        for host, colour in routes.colours.items():
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
