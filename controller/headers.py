"""Reads addresses from the first bytes of a packet that somebody untrusted sent. Pure; never raises on any bytes."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from controller.flows import ETH_TYPE_ARP, ETH_TYPE_IPV4, ETH_TYPE_VLAN, IP_PROTO_ICMP, IP_PROTO_TCP, IP_PROTO_UDP

ETH_TYPE_IPV6 = 0x86DD
_TAGS = (ETH_TYPE_VLAN, 0x88A8)
_MOST_TAGS = 4
_LEAST_IPV4_BYTES = 20
_FRAGMENT_OFFSET = 0x1FFF
_PROTOCOLS = {IP_PROTO_ICMP: "icmp", IP_PROTO_TCP: "tcp", IP_PROTO_UDP: "udp"}


@dataclass(frozen=True)
class Headers:
    """What is known of a packet; None: not there, or cut off.

    Attributes:
        eth_src, eth_dst: Ethernet addresses.
        eth_type: Ethernet type behind all tags.
        vlans: VLAN ids of the tags, outermost first.
        ip_src, ip_dst: IP addresses; of ARP the sender's and the target's.
        protocol: ``arp``, ``tcp``, ``udp``, ``icmp``, ``ipv6`` or the IP protocol's number.
        port_src, port_dst: TCP or UDP ports.
        arp_mac: Ethernet address that ARP claims for ``ip_src``.
        defect: Where the packet ends too early or contradicts itself; empty: nowhere.
    """

    eth_src: str | None = None
    eth_dst: str | None = None
    eth_type: int | None = None
    vlans: tuple[int, ...] = ()
    ip_src: str | None = None
    ip_dst: str | None = None
    protocol: str | None = None
    port_src: int | None = None
    port_dst: int | None = None
    arp_mac: str | None = None
    defect: str = ""

    def fields(self) -> dict[str, object]:
        """What is known, by name."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if value not in (None, (), "")
        }

    def __str__(self) -> str:
        ends = [
            end if port is None else f"{end}:{port}"
            for address, mac, port in (
                (self.ip_src, self.eth_src, self.port_src),
                (self.ip_dst, self.eth_dst, self.port_dst),
            )
            if (end := address or mac or "?")
        ]
        kind = self.protocol or ("?" if self.eth_type is None else f"type {self.eth_type:#06x}")
        if self.arp_mac:
            return f"arp: {self.ip_src} is at {self.arp_mac}, to {self.ip_dst}"
        return f"{kind} {ends[0]} to {ends[1]}"


def read_headers(data: bytes) -> Headers:
    """Read as far as the bytes make sense."""
    if len(data) < 14:
        return Headers(defect=f"{len(data)} bytes are no Ethernet header")
    found: dict[str, object] = {"eth_dst": _mac(data[0:6]), "eth_src": _mac(data[6:12])}
    offset, defect = 12, ""
    vlans: list[int] = []
    kind = int.from_bytes(data[offset : offset + 2], "big")
    while kind in _TAGS and len(vlans) < _MOST_TAGS and len(data) >= offset + 6:
        vlans.append(int.from_bytes(data[offset + 2 : offset + 4], "big") & 0xFFF)
        offset += 4
        kind = int.from_bytes(data[offset : offset + 2], "big")
    found |= {"eth_type": kind, "vlans": tuple(vlans)}
    payload = data[offset + 2 :]
    if kind in _TAGS:
        defect = "ends within its tags" if len(vlans) < _MOST_TAGS else f"has more than {_MOST_TAGS} tags"
    elif kind == ETH_TYPE_IPV4:
        defect = _ipv4(payload, found)
    elif kind == ETH_TYPE_ARP:
        defect = _arp(payload, found)
    elif kind == ETH_TYPE_IPV6:
        defect = _ipv6(payload, found)
    return Headers(**found, defect=defect)  # type: ignore[arg-type]  # the names are its own


def _ipv4(data: bytes, found: dict[str, object]) -> str:
    if len(data) < _LEAST_IPV4_BYTES:
        return "ends within its IPv4 header"
    found |= {"ip_src": str(IPv4Address(data[12:16])), "ip_dst": str(IPv4Address(data[16:20]))}
    protocol = data[9]
    found["protocol"] = _PROTOCOLS.get(protocol, str(protocol))
    length = (data[0] & 0xF) * 4
    if data[0] >> 4 != 4 or length < _LEAST_IPV4_BYTES:
        return f"has the IPv4 version and header length {data[0]:#04x}"
    if int.from_bytes(data[6:8], "big") & _FRAGMENT_OFFSET:
        return ""  # ports are in the first fragment
    if protocol in (IP_PROTO_TCP, IP_PROTO_UDP):
        if len(data) < length + 4:
            return "ends before its ports"
        found["port_src"] = int.from_bytes(data[length : length + 2], "big")
        found["port_dst"] = int.from_bytes(data[length + 2 : length + 4], "big")
    return ""


def _arp(data: bytes, found: dict[str, object]) -> str:
    found["protocol"] = "arp"
    if len(data) < 28:
        return "ends within its ARP"
    if data[:6] != b"\x00\x01\x08\x00\x06\x04":
        return "is ARP for something else than IPv4 over Ethernet"
    found["arp_mac"] = _mac(data[8:14])
    found |= {"ip_src": str(IPv4Address(data[14:18])), "ip_dst": str(IPv4Address(data[24:28]))}
    return ""


def _ipv6(data: bytes, found: dict[str, object]) -> str:
    found["protocol"] = "ipv6"
    if len(data) < 40:
        return "ends within its IPv6 header"
    found |= {"ip_src": str(IPv6Address(data[8:24])), "ip_dst": str(IPv6Address(data[24:40]))}
    return ""


def _mac(data: bytes) -> str:
    return data.hex(":")
