"""Second table: the first switch answers ARP itself, and only within the asker's segment.

The segment comes as metadata from the first table, so one rule serves all askers at a switch. ARP never crosses the
fabric: what is not answered here is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controller.flows import (
    ETH_TYPE_ARP,
    IN_PORT,
    ArpReply,
    FlowRule,
    Match,
    Output,
    Purpose,
    Table,
    cookie_of,
)
from controller.tenancy.site import Place, Site

PRIORITY_DEFAULT = 0
PRIORITY_ANSWER = 100
PRIORITY_OWN = 200
ENDPOINT_MAC = "06:69:63:67:77:01"
"""Where endpoints seem to be. The first switch rewrites it to a storage node's address."""
_REQUEST = 1


def silence(site: Site) -> Iterator[FlowRule]:
    """The default: nobody has that address."""
    for switch in site.fabric.switches:
        if switch.dpid is not None:
            yield FlowRule(
                switch.dpid,
                Table.ARP,
                PRIORITY_DEFAULT,
                Match(),
                cookie=cookie_of(Purpose.DEFAULT),
                note="nobody has that address",
            )


def answers(segment: int, askers: Iterable[tuple[Place, str]], addresses: Mapping[str, str]) -> Iterator[FlowRule]:
    """Answers within a segment.

    Args:
        segment: Its number.
        askers: Hosts with the address that they have in it.
        addresses: Ethernet address by IP address.
    """
    places = list(askers)
    for dpid in sorted({place.dpid for place, _ in places}):
        for ip, mac in addresses.items():
            yield FlowRule(
                dpid,
                Table.ARP,
                PRIORITY_ANSWER,
                Match(metadata=segment, eth_type=ETH_TYPE_ARP, arp_op=_REQUEST, arp_tpa=ip),
                (ArpReply(ip, mac), Output(IN_PORT)),
                cookie=cookie_of(Purpose.ARP),
                note=f"where {ip} is in segment {segment}",
            )
    for place, ip in places:
        # Who asks for its own address looks for duplicates, and must not be told that there is one.
        yield FlowRule(
            place.dpid,
            Table.ARP,
            PRIORITY_OWN,
            Match(in_port=place.port, metadata=segment, eth_type=ETH_TYPE_ARP, arp_op=_REQUEST, arp_tpa=ip),
            cookie=cookie_of(Purpose.ARP),
            note=f"{place.host} announces its address",
        )
