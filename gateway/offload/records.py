"""Flows as the XDP program has them (`bpf/offload.bpf.c`), as numpy types, and what their changes do to checksums."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.errors import GatewayError

Records = npt.NDArray[Any]

KEY = np.dtype(
    [
        ("ingress", "=u4"),
        ("source", ">u4"),
        ("destination", ">u4"),
        ("source_port", ">u2"),
        ("destination_port", ">u2"),
        ("protocol", "u1"),
        ("padding", "u1", (3,)),
    ]
)
"""`struct flow_key`."""
FLOW = np.dtype(
    [
        ("egress", "=u4"),
        ("slot", "=u4"),
        ("own_mac", "u1", (6,)),
        ("new_macs", "u1", (12,)),
        ("max_bytes", "=u2"),
        ("flags", "=u2"),
        ("new_source_port", ">u2"),
        ("new_destination_port", ">u2"),
        ("padding", "=u2"),
        ("new_source", ">u4"),
        ("new_destination", ">u4"),
        ("ip_delta", ">u2"),
        ("transport_delta", ">u2"),
        ("cookie", "=u8"),
    ],
    align=False,
)
"""`struct flow`."""
COUNT = np.dtype([("packets", "=u8"), ("bytes", "=u8"), ("last_seen_ns", "=u8")])
"""`struct flow_count`."""
OUTCOMES = (
    "hit",
    "miss",
    "stack",
    "truncated",
    "not_ipv4",
    "options",
    "fragment",
    "other_protocol",
    "connection_control",
    "not_our_mac",
    "expiring",
    "too_long",
    "no_egress",
)
"""`enum outcome`: what the program did with a packet, or why the daemon got it."""

REWRITE_ADDRESSES = 1
_PROTOCOLS = frozenset({socket.IPPROTO_TCP, socket.IPPROTO_UDP})


@dataclass(frozen=True)
class Conversation:
    """One direction of a TCP or UDP conversation, as it comes in.

    Attributes:
        ingress: Index of the interface.
        source, destination: Addresses.
        source_port, destination_port: Ports.
        protocol: 6 or 17.
    """

    ingress: int
    source: IPv4Address
    destination: IPv4Address
    source_port: int
    destination_port: int
    protocol: int


@dataclass(frozen=True)
class Forwarding:
    """What is done with its packets.

    Attributes:
        egress: Index of the interface that they leave by.
        own_mac: Ethernet destination that they must have come with, 6 bytes.
        target_mac, source_mac: Ethernet addresses that they leave with.
        max_bytes: Longest IP packet that is forwarded.
        source, destination: Addresses that they leave with; None: theirs.
        source_port, destination_port: Ports that they leave with; None: theirs.
        cookie: The daemon's own mark.
    """

    egress: int
    own_mac: bytes
    target_mac: bytes
    source_mac: bytes
    max_bytes: int = 1500
    source: IPv4Address | None = None
    destination: IPv4Address | None = None
    source_port: int | None = None
    destination_port: int | None = None
    cookie: int = 0


def _sum(words: Iterable[int]) -> int:
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _halves(address: IPv4Address) -> tuple[int, int]:
    return int(address) >> 16, int(address) & 0xFFFF


def delta(old: Iterable[int], new: Iterable[int]) -> int:
    """What changed 16-bit words add to a one's complement sum (RFC 1624, equation 3): ~m + m' for each."""
    return _sum([*(~word & 0xFFFF for word in old), *new])


def key_record(flow: Conversation) -> Any:
    """A conversation as the map's key.

    Raises:
        GatewayError: It is none that the program knows.
    """
    if flow.protocol not in _PROTOCOLS:
        raise GatewayError(f"flows of protocol {flow.protocol} are not offloaded: only TCP and UDP")
    record = np.zeros((), dtype=KEY)
    record["ingress"] = flow.ingress
    record["source"], record["destination"] = int(flow.source), int(flow.destination)
    record["source_port"], record["destination_port"] = flow.source_port, flow.destination_port
    record["protocol"] = flow.protocol
    return record


def flow_record(flow: Conversation, forwarding: Forwarding) -> Any:
    """What is done with a conversation as the map's value; its slot is the table's to set."""
    record = np.zeros((), dtype=FLOW)
    source = flow.source if forwarding.source is None else forwarding.source
    destination = flow.destination if forwarding.destination is None else forwarding.destination
    ports = (
        flow.source_port if forwarding.source_port is None else forwarding.source_port,
        flow.destination_port if forwarding.destination_port is None else forwarding.destination_port,
    )
    old = [*_halves(flow.source), *_halves(flow.destination)]
    new = [*_halves(source), *_halves(destination)]
    old_ports = (flow.source_port, flow.destination_port)
    record["egress"] = forwarding.egress
    record["own_mac"] = np.frombuffer(forwarding.own_mac, dtype=np.uint8)
    record["new_macs"] = np.frombuffer(forwarding.target_mac + forwarding.source_mac, dtype=np.uint8)
    record["max_bytes"] = forwarding.max_bytes
    record["new_source"], record["new_destination"] = int(source), int(destination)
    record["new_source_port"], record["new_destination_port"] = ports
    record["cookie"] = forwarding.cookie
    if old != new or old_ports != ports:
        record["flags"] = REWRITE_ADDRESSES
        record["ip_delta"] = delta(old, new)
        record["transport_delta"] = delta([*old, *old_ports], [*new, *ports])
    return record


def conversation(record: Any) -> Conversation:
    """The other way round."""
    return Conversation(
        int(record["ingress"]),
        IPv4Address(int(record["source"])),
        IPv4Address(int(record["destination"])),
        int(record["source_port"]),
        int(record["destination_port"]),
        int(record["protocol"]),
    )
