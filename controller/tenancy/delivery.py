"""Last table: a host gets what its segment sends it, without the tag, and answers of services as from its endpoints.

Fabric addresses mean what they say only in translated packets; a VPC's nodes may have the same addresses among
themselves. So an answer is translated back only if the Ethernet source, which the sender's switch has checked, is that
of the node from which answers of services come.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.flows import (
    ETH_TYPE_IPV4,
    IP_PROTO_TCP,
    FlowRule,
    Match,
    Output,
    PopVlan,
    Purpose,
    SetField,
    Table,
    cookie_of,
)
from controller.tenancy.model import Endpoint, StorageService
from controller.tenancy.site import Place, Site

PRIORITY_DEFAULT = 0
PRIORITY_PLAIN = 100
PRIORITY_TRANSLATED = 200


def defaults(site: Site) -> Iterator[FlowRule]:
    """The default: the packet is of another segment."""
    for switch in site.fabric.switches:
        if switch.dpid is not None:
            yield FlowRule(
                switch.dpid,
                Table.DELIVER,
                PRIORITY_DEFAULT,
                Match(),
                cookie=cookie_of(Purpose.DEFAULT),
                note="of another segment",
            )


def plain(place: Place, segment: int) -> FlowRule:
    """A host gets what comes to it in a segment."""
    return FlowRule(
        place.dpid,
        Table.DELIVER,
        PRIORITY_PLAIN,
        Match(vlan=segment, eth_dst=place.mac),
        (PopVlan(), Output(place.port)),
        cookie=cookie_of(Purpose.DELIVER),
        note=f"{place.host} in segment {segment}",
    )


def translated(
    client: Place, ip: str, segment: int, last: Place, server: Place, service: StorageService, endpoint: Endpoint
) -> FlowRule:
    """A service's answers look to a client as if its endpoint had sent them.

    Args:
        client: Who gets them.
        ip: Its address in the VPC.
        segment: The VPC's segment.
        last: Node that sends them on the last leg.
        server: Node of the service.
        service: What the packets say.
        endpoint: What the client gets to see.
    """
    return FlowRule(
        client.dpid,
        Table.DELIVER,
        PRIORITY_TRANSLATED,
        Match(
            eth_src=last.mac,
            eth_dst=client.mac,
            eth_type=ETH_TYPE_IPV4,
            vlan=segment,
            ip_proto=IP_PROTO_TCP,
            ipv4_src=server.ip,
            ipv4_dst=client.ip,
            tcp_src=service.port,
        ),
        (
            PopVlan(),
            SetField("ipv4_src", str(endpoint.ip)),
            SetField("ipv4_dst", ip),
            SetField("tcp_src", endpoint.port),
            Output(client.port),
        ),
        cookie=cookie_of(Purpose.DELIVER),
        note=f"{endpoint.service} answers {client.host} as {endpoint.ip}:{endpoint.port}",
    )
