"""First table: a host may say what it is, and nothing else.

Priorities at a host's port, highest first. What violates a rule is reported at a limited rate and dropped::

    1500  answers as a DHCP server, or LLDP                       violation
    1400  IPv4 or ARP with the host's own addresses               in
    1300  other ARP; other IPv4 with the host's Ethernet address  violation
    1200  other Ethernet types with it, such as IPv6              dropped
    1100  any other untagged frame                                violation: another Ethernet address
    1000  what is left is tagged                                  violation
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.flows import (
    ETH_TYPE_ARP,
    ETH_TYPE_IPV4,
    ETH_TYPE_LLDP,
    IP_PROTO_UDP,
    NO_VLAN,
    FlowRule,
    Match,
    Meter,
    Purpose,
    Table,
    ToController,
    cookie_of,
)
from controller.tenancy.site import Place, Site
from controller.tenancy.violations import Violation

PRIORITY_DEFAULT = 0
PRIORITY_TRUNK = 300
PRIORITY_FORGERY = 1500
PRIORITY_OWN = 1400
PRIORITY_SPOOFED = 1300
PRIORITY_OTHER = 1200
PRIORITY_STRANGER = 1100
PRIORITY_TAGGED = 1000

REPORT_METER = 1
REPORT_RATE_PPS = 100
REPORT_BURST_PACKETS = 100
_DHCP_SERVER_PORT = 67


def report(dpid: int, table: Table, priority: int, match: Match, violation: Violation, note: str = "") -> FlowRule:
    """A rule that drops, and tells the controller at a limited rate."""
    return FlowRule(
        dpid,
        table,
        priority,
        match,
        (ToController(),),
        meter=REPORT_METER,
        cookie=violation.cookie,
        note=note or violation.slug,
    )


def meters(site: Site) -> Iterator[Meter]:
    """What limits the reports of each switch with hosts."""
    for dpid in site.edges:
        yield Meter(dpid, REPORT_METER, REPORT_RATE_PPS, REPORT_BURST_PACKETS)


def borders(site: Site) -> Iterator[FlowRule]:
    """What does not depend on tenants: ports to switches, violations, and the default."""
    hosts = {name for name, _ in site.attachments.items()}
    for switch in site.fabric.switches:
        if switch.dpid is None:
            continue
        for link in site.fabric.links_of(switch.name):
            port, peer = (link.a_port, link.b) if link.a == switch.name else (link.b_port, link.a)
            if peer not in hosts and site.fabric.by_name[peer].is_switch:
                yield FlowRule(
                    switch.dpid,
                    Table.ADMIT,
                    PRIORITY_TRUNK,
                    Match(in_port=port),
                    goto=site.classes(switch.dpid),
                    cookie=cookie_of(Purpose.ADMIT),
                    note=f"from {peer}, admitted there",
                )
        yield FlowRule(
            switch.dpid,
            Table.ADMIT,
            PRIORITY_DEFAULT,
            Match(),
            cookie=cookie_of(Purpose.DEFAULT),
            note="ports that nobody should use",
        )
    for place in site.places.values():
        yield from _violations(place)


def _violations(place: Place) -> Iterator[FlowRule]:
    def found(priority: int, violation: Violation, **fields: object) -> FlowRule:
        match = Match(in_port=place.port, **fields)  # type: ignore[arg-type]  # the names of fields are checked by Match
        return report(place.dpid, Table.ADMIT, priority, match, violation, f"{violation.slug} by {place.host}")

    yield found(
        PRIORITY_FORGERY,
        Violation.DHCP_SERVER,
        vlan=NO_VLAN,
        eth_type=ETH_TYPE_IPV4,
        ip_proto=IP_PROTO_UDP,
        udp_src=_DHCP_SERVER_PORT,
    )
    yield found(PRIORITY_FORGERY, Violation.LLDP_FORGERY, vlan=NO_VLAN, eth_type=ETH_TYPE_LLDP)
    yield found(PRIORITY_SPOOFED, Violation.ARP_SPOOFING, vlan=NO_VLAN, eth_type=ETH_TYPE_ARP)
    yield found(PRIORITY_SPOOFED, Violation.IP_SPOOFING, vlan=NO_VLAN, eth_type=ETH_TYPE_IPV4, eth_src=place.mac)
    yield FlowRule(
        place.dpid,
        Table.ADMIT,
        PRIORITY_OTHER,
        Match(in_port=place.port, vlan=NO_VLAN, eth_src=place.mac),
        cookie=cookie_of(Purpose.DEFAULT),
        note=f"neither IPv4 nor ARP, from {place.host}",
    )
    yield found(PRIORITY_STRANGER, Violation.MAC_SPOOFING, vlan=NO_VLAN)
    yield found(PRIORITY_TAGGED, Violation.VLAN_HOPPING)


def own_address(place: Place, ip: str, segment: int | None) -> Iterator[FlowRule]:
    """A host may send from its address, and ask for others' in its segment; None: for nobody's."""
    yield sends_from(place, ip)
    claim = {"in_port": place.port, "vlan": NO_VLAN, "eth_src": place.mac, "eth_type": ETH_TYPE_ARP}
    yield FlowRule(
        place.dpid,
        Table.ADMIT,
        PRIORITY_OWN,
        Match(**claim, arp_sha=place.mac, arp_spa=ip),  # type: ignore[arg-type]  # in_port is a number
        write_metadata=segment,
        goto=Table.ARP if segment is not None else None,
        cookie=cookie_of(Purpose.ADMIT),
        note=f"{place.host} asks for an address" if segment is not None else f"{place.host} is in no segment",
    )
    yield FlowRule(
        place.dpid,
        Table.ADMIT,
        PRIORITY_OWN,
        Match(**claim, arp_sha=place.mac, arp_spa="0.0.0.0", arp_tpa=ip),  # type: ignore[arg-type]  # noqa: S104
        cookie=cookie_of(Purpose.ADMIT),
        note=f"{place.host} looks for others with its address (RFC 5227); there are none",
    )


def sends_from(place: Place, ip: str) -> FlowRule:
    """A host may send from an address: its own, or one of those whose traffic it carries."""
    return FlowRule(
        place.dpid,
        Table.ADMIT,
        PRIORITY_OWN,
        Match(in_port=place.port, vlan=NO_VLAN, eth_src=place.mac, eth_type=ETH_TYPE_IPV4, ipv4_src=ip),
        goto=Table.ACCESS,
        cookie=cookie_of(Purpose.ADMIT),
        note=f"{place.host} sends from {ip}",
    )
