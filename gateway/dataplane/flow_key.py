"""Names of flows, as objects for people and as words for tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np

from gateway.dataplane.headers import W_TARGET_PORTS, W_TTL_SOURCE, Headers
from gateway.dataplane.memory import Ints, Words, word

_PROTOCOL_SOURCE = word(0xFF << 48 | 0xFFFF_FFFF)
_16, _32, _48 = word(16), word(32), word(48)
NARROW, WIDE = 2, 5
"""Words in the names of IPv4 and IPv6 flows."""


@dataclass(frozen=True)
class FlowKey:
    """The name of a flow: its packets share tenant, protocol, addresses and ports."""

    tenant: int
    protocol: int
    source: IPv4Address | IPv6Address
    target: IPv4Address | IPv6Address
    source_port: int
    target_port: int

    def words(self) -> tuple[int, ...]:
        """The key in the table."""
        source, target = int(self.source), int(self.target)
        ports = self.source_port << 16 | self.target_port
        if self.source.version == 4:
            return target << 32 | ports, self.protocol << 48 | self.tenant << 32 | source
        low = (1 << 64) - 1
        last = self.tenant << 48 | self.protocol << 32 | ports
        return source >> 64, source & low, target >> 64, target & low, last

    def as_json(self) -> dict[str, Any]:
        """The name as plain data."""
        return {**vars(self), "source": str(self.source), "target": str(self.target)}

    @classmethod
    def of(cls, words: Sequence[int]) -> FlowKey:
        """The inverse of `words`."""
        if len(words) == NARROW:
            first, second = words
            source, target = IPv4Address(second & 0xFFFF_FFFF), IPv4Address(first >> 32)
            return cls(second >> 32 & 0xFFFF, second >> 48, source, target, first >> 16 & 0xFFFF, first & 0xFFFF)
        a, b, c, d, last = words
        wide = IPv6Address(a << 64 | b), IPv6Address(c << 64 | d)
        return cls(last >> 48, last >> 32 & 0xFF, *wide, last >> 16 & 0xFFFF, last & 0xFFFF)


def narrow_keys(headers: Headers, tenant: Ints) -> tuple[Words, ...]:
    """Keys of IPv4 flows, for `ExactTable.find`."""
    second = headers.words[W_TTL_SOURCE] & _PROTOCOL_SOURCE
    second |= tenant.view(np.uint64) << _32
    return headers.words[W_TARGET_PORTS], second


def wide_keys(headers: Headers, tenant: Ints, rows: Ints) -> tuple[Words, ...]:
    """Keys of IPv6 flows."""
    last = tenant[rows].view(np.uint64) << _48
    last |= headers.protocol[rows].view(np.uint64) << _32
    last |= headers.source_port[rows].view(np.uint64) << _16
    last |= headers.target_port[rows].view(np.uint64)
    addresses = (headers.source_high, headers.source, headers.target_high, headers.target)
    return (*(column[rows] for column in addresses), last)
