"""A packet's headers as plain data, and what one action makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from controller.flows import (
    ETH_TYPE_ARP,
    ETH_TYPE_IPV4,
    ETH_TYPE_VLAN,
    IP_PROTO_ICMP,
    IP_PROTO_TCP,
    IP_PROTO_UDP,
    NO_VLAN,
    ArpReply,
    PopVlan,
    PushVlan,
    SetField,
)

ARP_REQUEST, ARP_REPLY = 1, 2
BROADCAST = "ff:ff:ff:ff:ff:ff"
_PROTOCOLS = {
    "tcp_src": IP_PROTO_TCP,
    "tcp_dst": IP_PROTO_TCP,
    "tcp_ack": IP_PROTO_TCP,
    "udp_src": IP_PROTO_UDP,
    "udp_dst": IP_PROTO_UDP,
    "icmp_type": IP_PROTO_ICMP,
}
_ETH_TYPES = {
    **dict.fromkeys(("ipv4_src", "ipv4_dst", "ip_proto", *_PROTOCOLS), ETH_TYPE_IPV4),
    **dict.fromkeys(("arp_op", "arp_spa", "arp_tpa", "arp_sha", "arp_tha"), ETH_TYPE_ARP),
}


@dataclass(frozen=True)
class Frame:
    """A packet's headers; addresses are written as in `controller.flows.Match`, None: there is no such field.

    Attributes:
        eth_src, eth_dst: Ethernet addresses.
        eth_type: Ethernet type behind all tags.
        vlan: VLAN id of the outermost tag, 0: none.
        inner_vlans: VLAN ids of the tags behind it, outermost first.
        ipv4_src, ipv4_dst: Only of IPv4.
        ip_proto: IP protocol.
        tcp_src, tcp_dst: Only of TCP.
        tcp_ack: Whether TCP's ACK flag is set.
        udp_src, udp_dst: Only of UDP.
        icmp_type: Only of ICMP.
        arp_op, arp_spa, arp_tpa, arp_sha, arp_tha: Only of ARP.
        ttl: IP time to live.
        size_bytes: For counters.
    """

    eth_src: str
    eth_dst: str
    eth_type: int = ETH_TYPE_IPV4
    vlan: int = NO_VLAN
    inner_vlans: tuple[int, ...] = ()
    ipv4_src: str | None = None
    ipv4_dst: str | None = None
    ip_proto: int | None = None
    tcp_src: int | None = None
    tcp_dst: int | None = None
    tcp_ack: bool = False
    udp_src: int | None = None
    udp_dst: int | None = None
    icmp_type: int | None = None
    arp_op: int | None = None
    arp_spa: str | None = None
    arp_tpa: str | None = None
    arp_sha: str | None = None
    arp_tha: str | None = None
    ttl: int = 64
    size_bytes: int = 64

    def field(self, name: str) -> int | str | bool | None:
        """What a switch finds in a field of `Match`; None if the packet has no such field.

        Behind a second tag a switch looks for nothing: it sees the Ethernet type of the tag.
        """
        eth_type = ETH_TYPE_VLAN if self.inner_vlans else self.eth_type
        if name == "eth_type":
            return eth_type
        if _ETH_TYPES.get(name, eth_type) != eth_type or _PROTOCOLS.get(name, self.ip_proto) != self.ip_proto:
            return None
        value: int | str | bool | None = getattr(self, name)
        return value

    def rewritten(self, action: SetField | PushVlan | PopVlan | ArpReply) -> Frame:
        """The packet after one rewriting action; fields that it does not have stay away."""
        if isinstance(action, SetField):
            changed: dict[str, Any] = {action.name: action.value}
            return self if self.field(action.name) is None else replace(self, **changed)
        if isinstance(action, PushVlan):
            behind = (self.vlan, *self.inner_vlans) if self.vlan != NO_VLAN else ()
            return replace(self, vlan=action.vlan, inner_vlans=behind)
        if isinstance(action, PopVlan):
            return replace(self, vlan=(*self.inner_vlans, NO_VLAN)[0], inner_vlans=self.inner_vlans[1:])
        if self.field("arp_op") is None:
            return self
        return replace(
            self,
            eth_src=action.mac,
            eth_dst=self.eth_src,
            arp_op=ARP_REPLY,
            arp_sha=action.mac,
            arp_spa=action.ip,
            arp_tha=self.arp_sha,
            arp_tpa=self.arp_spa,
        )
