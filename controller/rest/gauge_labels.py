"""Labels of a flow entry as Faucet's Gauge gives them, from the entry in Ryu's shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OLD_NAMES = {
    "dl_src": "eth_src",
    "dl_dst": "eth_dst",
    "dl_type": "eth_type",
    "dl_vlan": "vlan_vid",
    "nw_src": "ipv4_src",
    "nw_dst": "ipv4_dst",
    "nw_proto": "ip_proto",
}
"""Ryu shows some fields under the names of OpenFlow 1.0; Gauge has those of 1.3."""
_TCP, _UDP = 6, 17
_INSTRUCTIONS = ("GOTO_TABLE:", "WRITE_METADATA:", "METER:", "CLEAR_ACTIONS")


def flow_labels(entry: Mapping[str, Any]) -> dict[str, str]:
    """The labels beside those of the switch."""
    match: Mapping[str, Any] = entry.get("match", {})
    labels = {
        "table_id": str(entry["table_id"]),
        "priority": str(entry["priority"]),
        "inst_count": str(_instructions(entry.get("actions", ()))),
        "cookie": str(entry.get("cookie", 0)),
    }
    for name, value in match.items():
        labels[_new_name(name, match)] = str(value)
    if str(match.get("dl_vlan", "")).isdigit():
        labels["vlan"] = str(match["dl_vlan"])
    return labels


def _new_name(name: str, match: Mapping[str, Any]) -> str:
    if name in ("tp_src", "tp_dst"):
        protocol = {_TCP: "tcp", _UDP: "udp"}.get(match.get("nw_proto", 0), "tp")
        return f"{protocol}{name[2:]}"
    return _OLD_NAMES.get(name, name)


def _instructions(actions: Any) -> int:
    others, applied = 0, 0
    for action in actions:
        if isinstance(action, dict) or str(action).startswith(_INSTRUCTIONS):
            others += 1
        else:
            applied = 1
    return others + applied
