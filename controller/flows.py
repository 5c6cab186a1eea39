"""OpenFlow rules as plain data, in the subset of OpenFlow 1.3 that the planner uses.

Every switch has the same three tables, passed in order::

    STEER   which node must the packet visit next?   rewrites eth_dst, per ingress port
    SPREAD  which of the equal paths may it take?    writes the source's colour into the metadata
    ROUTE   where is that node?                      outputs by eth_dst (and colour); drops what it does not know

A rule without an output and without a next table drops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import IntEnum

ETH_TYPE_IPV4 = 0x0800
IP_PROTO_ICMP = 1
IP_PROTO_TCP = 6
IP_PROTO_UDP = 17

COOKIE_OWNER = 0x69636777
"""Upper half of every cookie that this controller writes: ``icgw`` in ASCII."""


class Table(IntEnum):
    """The tables of the pipeline; the number is the OpenFlow table id."""

    STEER = 0
    SPREAD = 1
    ROUTE = 2


class Purpose(IntEnum):
    """Why a rule exists; the lower half of its cookie."""

    DEFAULT = 0
    """What happens to packets that nothing else matches: next table, or drop in the last one."""
    STEER = 1
    """Sends storage traffic to the next node that it must visit."""
    EXEMPT = 2
    """Keeps TCP that is no storage service out of the steering."""
    COLOUR = 3
    """Marks the packet with its source's colour."""
    ROUTE = 4
    """Outputs towards the node that owns the destination address."""


@dataclass(frozen=True)
class Match:
    """What a rule looks at; None: anything.

    Attributes:
        in_port: Port on which the packet came in.
        metadata: The source's colour, as written by the table before.
        eth_src, eth_dst: Ethernet addresses, lower case with colons.
        eth_type: Ethernet type.
        ip_proto: IP protocol number.
        ipv4_src, ipv4_dst: Dotted IPv4 addresses.
        tcp_src, tcp_dst: TCP ports.
        tcp_src_mask: Bits of ``tcp_src`` that count; None: all. Open vSwitch takes masked ports, plain OpenFlow 1.3
            does not ask switches to.
    """

    in_port: int | None = None
    metadata: int | None = None
    eth_src: str | None = None
    eth_dst: str | None = None
    eth_type: int | None = None
    ip_proto: int | None = None
    ipv4_src: str | None = None
    ipv4_dst: str | None = None
    tcp_src: int | None = None
    tcp_dst: int | None = None
    tcp_src_mask: int | None = None

    def set_fields(self) -> dict[str, int | str]:
        """The fields that are not None, by name."""
        return {name: value for name in _MATCH_FIELDS if (value := getattr(self, name)) is not None}

    def __str__(self) -> str:
        return ",".join(_show_fields(self)) or "any"


_MATCH_FIELDS = tuple(item.name for item in fields(Match))


def _show_fields(match: Match) -> Iterator[str]:
    for name, value in match.set_fields().items():
        if name == "tcp_src_mask":
            continue
        if name == "eth_type":
            yield f"{name}={value:#06x}"
        elif name == "tcp_src" and match.tcp_src_mask is not None:
            yield f"{name}={value:#x}/{match.tcp_src_mask:#x}"
        else:
            yield f"{name}={value}"


@dataclass(frozen=True)
class FlowRule:
    """One entry of a flow table.

    Attributes:
        dpid: Datapath id of the switch.
        table: Where in the pipeline.
        priority: Higher wins.
        match: What it applies to.
        set_eth_dst: New destination address, before anything else.
        output: Port to send to.
        write_metadata: New metadata.
        goto: Next table.
        cookie: Owner and purpose, see `cookie_of`.
        note: One clause for people; not part of what is installed.
    """

    dpid: int
    table: Table
    priority: int
    match: Match
    set_eth_dst: str | None = None
    output: int | None = None
    write_metadata: int | None = None
    goto: Table | None = None
    cookie: int = 0
    note: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[Table, int, Match]:
        """What identifies the rule in its switch: adding another one with the same key replaces it."""
        return (self.table, self.priority, self.match)

    @property
    def drops(self) -> bool:
        """Whether packets end here."""
        return self.output is None and self.goto is None

    @property
    def actions(self) -> list[str]:
        """What it does, as short texts in order."""
        texts = []
        if self.set_eth_dst is not None:
            texts.append(f"set_eth_dst:{self.set_eth_dst}")
        if self.output is not None:
            texts.append(f"output:{self.output}")
        if self.write_metadata is not None:
            texts.append(f"write_metadata:{self.write_metadata}")
        if self.goto is not None:
            texts.append(f"goto:{self.goto.name.lower()}")
        return texts or ["drop"]

    def __str__(self) -> str:
        return (
            f"dpid={self.dpid} table={self.table.name.lower()} priority={self.priority} "
            f"{self.match} -> {' '.join(self.actions)}"
        )


def cookie_of(purpose: Purpose) -> int:
    """The 64-bit cookie of this controller's rules of one purpose."""
    return COOKIE_OWNER << 32 | purpose


def purpose_of(cookie: int) -> Purpose | None:
    """The purpose behind a cookie, or None if it is not one of ours."""
    if cookie >> 32 != COOKIE_OWNER:
        return None
    try:
        return Purpose(cookie & 0xFFFFFFFF)
    except ValueError:
        return None
