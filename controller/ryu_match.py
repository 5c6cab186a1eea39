"""Translates matches to Ryu's OpenFlow 1.3 structures and back; what `Match` cannot say in full reads as None."""

from __future__ import annotations

import controller.green  # noqa: F401 - first, it makes Ryu importable

# isort: split

from ipaddress import IPv4Network
from typing import Any

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.flows import MASKED_FIELDS, NO_VLAN, Match
from emulator.errors import ControllerError

_ACK = 0x10
_FULL_PORT = 0xFFFF
_ADDRESS_BITS = 32
_PLAIN = frozenset(
    (
        *("in_port", "metadata", "eth_src", "eth_dst", "eth_type", "ip_proto", *MASKED_FIELDS),
        *("arp_op", "arp_spa", "arp_tpa", "arp_sha"),
    )
)


def write_match(match: Match) -> Any:
    """A match as Ryu has it.

    Raises:
        ControllerError: A prefix or mask is not in the one form in which switches give it back.
    """
    fields: dict[str, Any] = {}
    for name, value in match.set_fields().items():
        if name.endswith("_mask"):
            continue
        if name in MASKED_FIELDS:
            mask = getattr(match, f"{name}_mask")
            if mask is not None and (not 0 < mask < _FULL_PORT or int(value) & ~mask):
                raise ControllerError(f"a rule matches {name} {value:#x} under the mask {mask:#x}: a switch would not")
            fields[name] = value if mask is None else (value, mask)
        elif name in ("ipv4_src", "ipv4_dst") and "/" in str(value):
            fields[name] = _network(name, str(value))
        elif name == "vlan":
            fields["vlan_vid"] = ofp.OFPVID_NONE if value == NO_VLAN else ofp.OFPVID_PRESENT | int(value)
        elif name == "tcp_ack":
            fields["tcp_flags"] = (_ACK if value else 0, _ACK)
        elif name == "icmp_type":
            fields["icmpv4_type"] = value
        else:
            fields[name] = value
    return parser.OFPMatch(**fields)


def _network(name: str, text: str) -> tuple[str, str]:
    try:
        network = IPv4Network(text)
    except ValueError as error:
        raise ControllerError(f"a rule matches {name} {text}: {error}") from None
    if str(network) != text or network.prefixlen in (0, _ADDRESS_BITS):
        raise ControllerError(f"a rule matches {name} {text}: a switch would write that differently")
    return str(network.network_address), str(network.netmask)


def read_match(match: Any) -> Match | None:
    """A match as ours, or None."""
    fields: dict[str, Any] = {}
    for name, value in match.items():
        if name in ("ipv4_src", "ipv4_dst"):
            fields[name] = _prefix(value)
            if fields[name] is None:
                return None
        elif name in MASKED_FIELDS and isinstance(value, tuple):
            fields[name], fields[f"{name}_mask"] = value
        elif name in ("tcp_flags", "tcp_flags_nxm") and value in ((0, _ACK), (_ACK, _ACK)):
            fields["tcp_ack"] = bool(value[0])
        elif isinstance(value, tuple):
            return None
        elif name == "vlan_vid" and (value == ofp.OFPVID_NONE or value & ofp.OFPVID_PRESENT):
            fields["vlan"] = value & ~ofp.OFPVID_PRESENT
        elif name == "icmpv4_type":
            fields["icmp_type"] = value
        elif name in _PLAIN:
            fields[name] = value
        else:
            return None
    return Match(**fields)


def _prefix(value: Any) -> str | None:
    if not isinstance(value, tuple):
        return str(value)
    try:
        return str(IPv4Network((value[0], value[1])))
    except ValueError:  # bits that do not make a prefix
        return None
