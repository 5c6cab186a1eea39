"""What a rule looks at, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Match:
    """What a rule looks at; None: anything.

    Attributes:
        in_port: Port on which the packet came in.
        metadata: The source's colour, as written by the table before.
        eth_src, eth_dst: Ethernet addresses, lower case with colons.
        eth_type: Ethernet type (of what is behind a tag).
        vlan: VLAN id of the tag, 1 to 4094; 0 (`NO_VLAN`): no tag.
        ip_proto: IP protocol number.
        ipv4_src, ipv4_dst: Dotted IPv4 addresses, or prefixes like ``10.0.0.0/8``.
        tcp_src, tcp_dst, udp_src, udp_dst: Ports.
        tcp_src_mask, tcp_dst_mask, udp_src_mask, udp_dst_mask: Bits of them that count; None: all. Open vSwitch takes
            masked ports, plain OpenFlow 1.3 does not ask switches to.
        tcp_ack: True: the ACK flag is set, so the segment does not open a connection. An extension of Open vSwitch.
        icmp_type: Type of an ICMP message.
        arp_op: 1 request, 2 reply.
        arp_spa, arp_tpa: Sender's and target's IPv4 address.
        arp_sha: Sender's Ethernet address.
    """

    in_port: int | None = None
    metadata: int | None = None
    eth_src: str | None = None
    eth_dst: str | None = None
    eth_type: int | None = None
    vlan: int | None = None
    ip_proto: int | None = None
    ipv4_src: str | None = None
    ipv4_dst: str | None = None
    tcp_src: int | None = None
    tcp_dst: int | None = None
    udp_src: int | None = None
    udp_dst: int | None = None
    tcp_src_mask: int | None = None
    tcp_dst_mask: int | None = None
    udp_src_mask: int | None = None
    udp_dst_mask: int | None = None
    tcp_ack: bool | None = None
    icmp_type: int | None = None
    arp_op: int | None = None
    arp_spa: str | None = None
    arp_tpa: str | None = None
    arp_sha: str | None = None

    def set_fields(self) -> dict[str, int | str]:
        """The fields that are not None, by name."""
        return {name: value for name in _MATCH_FIELDS if (value := getattr(self, name)) is not None}

    def __str__(self) -> str:
        return ",".join(_show_fields(self)) or "any"


_MATCH_FIELDS = tuple(item.name for item in fields(Match))
MASKED_FIELDS = ("tcp_src", "tcp_dst", "udp_src", "udp_dst")
"""Fields of `Match` with a mask in the field of the same name and ``_mask``."""


def _show_fields(match: Match) -> Iterator[str]:
    for name, value in match.set_fields().items():
        if name.endswith("_mask"):
            continue
        mask = getattr(match, f"{name}_mask", None)
        if name == "eth_type":
            yield f"{name}={value:#06x}"
        elif mask is not None:
            yield f"{name}={value:#x}/{mask:#x}"
        else:
            yield f"{name}={value}"
