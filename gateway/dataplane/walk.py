"""Frames that do not have the common shape: header by header, each step for all of them at once.

A step reads only what it has made sure to lie within the frame. A frame that fails leaves the walk with its reason, and
its later fields stay zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gateway.dataplane.headers import (
    ETHERNET_BYTES,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPES_VLAN,
    IPV4_BYTES,
    IPV6_BYTES,
    TAG_BYTES,
    TCP,
    TCP_BYTES,
    UDP,
    UDP_BYTES,
    W_IP,
    W_LAYER4,
    W_SOURCE_TYPE,
    W_TARGET,
    W_TARGET_PORTS,
    W_TCP,
    W_TTL_SOURCE,
    Headers,
)
from gateway.dataplane.memory import Bytes, Flags, Ints, read, read_words
from gateway.dataplane.reasons import Reason

MAX_EXTENSIONS = 8
"""IPv6 extension headers that are looked at."""

_MAX_TAGS = 2
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_EXTENSIONS = (_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION)
_EXTENSION_BYTES = 8
_MORE_OR_OFFSET_V4, _MORE_OR_OFFSET_V6 = 0x3FFF, 0xFFF9
_COLUMNS = (
    *("target_mac", "tags", "vlan", "inner_vlan", "family", "network", "transport", "payload", "ends", "protocol"),
    *("ttl", "source", "target", "source_high", "target_high", "source_port", "target_port"),
)


@dataclass(slots=True)
class _Walkers:
    """Frames on their way.

    Attributes:
        rows: Which of the batch.
        at: Where their next header begins.
        ends: Where they, or their IP packets, end.
        readable: Where what may be read of them ends.
        kind: What their next header will be.
    """

    rows: Ints
    at: Ints
    ends: Ints
    readable: Ints
    kind: Ints

    def keep(self, which: Flags) -> _Walkers:
        """Those of them for which *which* is true."""
        return _Walkers(self.rows[which], self.at[which], self.ends[which], self.readable[which], self.kind[which])


class _Walk:
    def __init__(self, memory: Bytes, headers: Headers) -> None:
        self.memory = memory
        self.headers = headers

    def fail(self, walkers: _Walkers, which: Flags, reason: Reason) -> _Walkers:
        """Let those for which *which* is true leave."""
        if not np.count_nonzero(which):
            return walkers
        self.headers.reason[walkers.rows[which]] = reason
        return walkers.keep(~which)

    def ethernet(self, rows: Ints, max_bytes: int) -> _Walkers:
        h = self.headers
        at = h.offsets[rows]
        walkers = _Walkers(rows, at, at + h.lengths[rows], h.head_ends[rows], np.zeros(rows.size, np.int64))
        walkers = self.fail(walkers, walkers.readable - walkers.at < ETHERNET_BYTES, Reason.RUNT)
        at = walkers.at
        h.target_mac[walkers.rows] = h.words[W_TARGET][walkers.rows] = read_words(self.memory, at) >> np.uint64(16)
        source_type = read_words(self.memory, at + 6)
        walkers.kind = (source_type & np.uint64(0xFFFF)).view(np.int64)
        walkers.at = at + ETHERNET_BYTES
        h.words[W_SOURCE_TYPE][walkers.rows] = source_type
        return self.fail(walkers, walkers.ends - at > max_bytes, Reason.JUMBO)

    def tags(self, walkers: _Walkers) -> _Walkers:
        h = self.headers
        for column in (h.vlan, h.inner_vlan):
            tagged = np.isin(walkers.kind, ETHERTYPES_VLAN)
            if not np.count_nonzero(tagged):
                break
            cut = tagged & (walkers.readable - walkers.at < TAG_BYTES)
            walkers, tagged = self.fail(walkers, cut, Reason.TRUNCATED), tagged[~cut]
            at, rows = walkers.at[tagged], walkers.rows[tagged]
            column[rows] = read(self.memory, at, 2) & 0x0FFF
            h.tags[rows] += 1
            walkers.kind[tagged] = read(self.memory, at + 2, 2)
            walkers.at[tagged] += TAG_BYTES
        walkers = self.fail(walkers, np.isin(walkers.kind, ETHERTYPES_VLAN), Reason.TOO_MANY_TAGS)
        words = h.words[W_SOURCE_TYPE]
        words[walkers.rows] = (words[walkers.rows] & ~np.uint64(0xFFFF)) | walkers.kind.view(np.uint64)
        is_ip = (walkers.kind == ETHERTYPE_IPV4) | (walkers.kind == ETHERTYPE_IPV6)
        return self.fail(walkers, ~is_ip, Reason.NOT_IP)

    def ipv4(self, walkers: _Walkers) -> _Walkers:
        h, memory = self.headers, self.memory
        h.network[walkers.rows] = walkers.at
        walkers = self.fail(walkers, walkers.readable - walkers.at < IPV4_BYTES, Reason.TRUNCATED)
        first = read(memory, walkers.at, 1)
        header, total = (first & 15) * 4, read(memory, walkers.at + 2, 2)
        bad = (first >> 4 != 4) | (header < IPV4_BYTES) | (total < header)
        walkers, header, total = self.fail(walkers, bad, Reason.MALFORMED), header[~bad], total[~bad]
        cut = (walkers.at + total > walkers.ends) | (walkers.at + header > walkers.readable)
        walkers, header, total = self.fail(walkers, cut, Reason.TRUNCATED), header[~cut], total[~cut]
        bad = _header_sums(memory, walkers.at, header) % 0xFFFF != 0
        walkers, header, total = self.fail(walkers, bad, Reason.BAD_CHECKSUM), header[~bad], total[~bad]
        at, rows = walkers.at, walkers.rows
        h.family[rows] = 4
        h.ends[rows] = walkers.ends = at + total
        walkers.readable = np.minimum(walkers.readable, walkers.ends)
        h.words[W_IP][rows] = read_words(memory, at)
        h.words[W_TTL_SOURCE][rows] = word = read_words(memory, at + 8)
        h.ttl[rows] = (word >> np.uint64(56)).view(np.int64)
        h.protocol[rows] = walkers.kind = ((word >> np.uint64(48)) & np.uint64(0xFF)).view(np.int64)
        h.source[rows] = word & np.uint64(0xFFFF_FFFF)
        h.target[rows] = target = read(memory, at + 16, 4).view(np.uint64)
        h.words[W_TARGET_PORTS][rows] = target << np.uint64(32)
        h.transport[rows] = h.payload[rows] = walkers.at = at + header
        return self.fail(walkers, read(memory, at + 6, 2) & _MORE_OR_OFFSET_V4 != 0, Reason.FRAGMENT)

    def ipv6(self, walkers: _Walkers) -> _Walkers:
        h, memory = self.headers, self.memory
        h.network[walkers.rows] = walkers.at
        walkers = self.fail(walkers, walkers.readable - walkers.at < IPV6_BYTES, Reason.TRUNCATED)
        walkers = self.fail(walkers, read(memory, walkers.at, 1) >> 4 != 6, Reason.MALFORMED)
        ends = walkers.at + IPV6_BYTES + read(memory, walkers.at + 4, 2)
        cut = ends > walkers.ends
        walkers, ends = self.fail(walkers, cut, Reason.TRUNCATED), ends[~cut]
        at, rows = walkers.at, walkers.rows
        h.family[rows] = 6
        h.ends[rows] = walkers.ends = ends
        walkers.readable = np.minimum(walkers.readable, ends)
        h.words[W_IP][rows] = word = read_words(memory, at)
        h.ttl[rows] = (word & np.uint64(0xFF)).view(np.int64)
        for position, column in enumerate((h.source_high, h.source, h.target_high, h.target)):
            column[rows] = read_words(memory, at + 8 + 8 * position)
        walkers.kind = ((word >> np.uint64(8)) & np.uint64(0xFF)).view(np.int64)
        walkers.at = at + IPV6_BYTES
        walkers = self.extensions(walkers)
        rows = walkers.rows
        h.protocol[rows] = walkers.kind
        h.transport[rows] = h.payload[rows] = walkers.at
        return walkers

    def extensions(self, walkers: _Walkers) -> _Walkers:
        """Walk over extension headers; fragments leave, but for those that are a whole packet (RFC 6946)."""
        memory = self.memory
        for count in range(MAX_EXTENSIONS + 1):
            extension = np.isin(walkers.kind, _EXTENSIONS)
            if not np.count_nonzero(extension):
                return walkers
            if count == MAX_EXTENSIONS:
                return self.fail(walkers, extension, Reason.TOO_MANY_EXTENSIONS)
            if count:
                # Hop-by-hop options come first or not at all (RFC 8200, section 4.1).
                late = walkers.kind == _HOP_BY_HOP
                walkers, extension = self.fail(walkers, late, Reason.MALFORMED), extension[~late]
            cut = extension & (walkers.readable - walkers.at < _EXTENSION_BYTES)
            walkers, extension = self.fail(walkers, cut, Reason.TRUNCATED), extension[~cut]
            at, kind = walkers.at[extension], walkers.kind[extension]
            units = read(memory, at + 1, 1)
            length = np.where(kind == _AUTHENTICATION, (units + 2) * 4, (units + 1) * 8)
            length[kind == _FRAGMENT] = _EXTENSION_BYTES
            piece = np.zeros(extension.size, np.bool_)
            piece[extension] = (kind == _FRAGMENT) & (read(memory, at + 2, 2) & _MORE_OR_OFFSET_V6 != 0)
            walkers.kind[extension] = read(memory, at, 1)
            walkers.at[extension] = at + length
            cut = walkers.at > walkers.readable
            walkers = self.fail(walkers, cut, Reason.TRUNCATED)
            walkers = self.fail(walkers, piece[~cut], Reason.FRAGMENT)
        return walkers

    def transport(self, walkers: _Walkers) -> None:
        h, memory = self.headers, self.memory
        for protocol, least, lengths_of in ((TCP, TCP_BYTES, self._tcp), (UDP, UDP_BYTES, self._udp)):
            some = walkers.keep(walkers.kind == protocol)
            some = self.fail(some, some.readable - some.at < least, Reason.TRUNCATED)
            some = lengths_of(some)
            at, rows = some.at, some.rows
            ports = read(memory, at, 4)
            h.source_port[rows], h.target_port[rows] = ports >> 16, ports & 0xFFFF
            h.words[W_TARGET_PORTS][rows] = (h.target[rows] << np.uint64(32)) | ports.view(np.uint64)
            # Sequence and acknowledgement of TCP; a UDP header alone may be the end of the memory.
            h.words[W_LAYER4][rows] = read(memory, at + 4, 4).view(np.uint64) << np.uint64(32)
            if protocol == TCP:
                h.words[W_LAYER4][rows] = read_words(memory, at + 4)
                h.words[W_TCP][rows] = read_words(memory, at + 12)

    def _tcp(self, some: _Walkers) -> _Walkers:
        header = (read(self.memory, some.at + 12, 1) >> 4) * 4
        bad = header < TCP_BYTES
        some, header = self.fail(some, bad, Reason.MALFORMED), header[~bad]
        cut = some.at + header > some.readable
        some, header = self.fail(some, cut, Reason.TRUNCATED), header[~cut]
        self.headers.payload[some.rows] = some.at + header
        return some

    def _udp(self, some: _Walkers) -> _Walkers:
        length = read(self.memory, some.at + 4, 2)
        bad = length < UDP_BYTES
        some, length = self.fail(some, bad, Reason.MALFORMED), length[~bad]
        some = self.fail(some, some.at + length > some.ends, Reason.TRUNCATED)
        self.headers.payload[some.rows] = some.at + UDP_BYTES
        return some


def _header_sums(memory: Bytes, at: Ints, header: Ints) -> NDArray[np.int64]:
    """Sums of the 32-bit words of IPv4 headers: modulo 65535 they are those of the 16-bit words."""
    sums = np.zeros(at.size, np.int64)
    for word in range(0, int(header.max(initial=0)), 4):
        inside = word < header
        sums[inside] += read(memory, at[inside] + word, 4)
    return sums


def walk(memory: Bytes, headers: Headers, rows: Ints, max_bytes: int) -> None:
    """Fill in the fields of some frames of a batch, whatever stands there now.

    Args:
        memory: Where the frames lie.
        headers: The batch; its columns must be writable.
        rows: Which frames.
        max_bytes: Longer frames are `Reason.JUMBO`.
    """
    for name in _COLUMNS:
        getattr(headers, name)[rows] = 0
    headers.words[:, rows] = 0
    steps = _Walk(memory, headers)
    walkers = steps.tags(steps.ethernet(rows, max_bytes))
    network: tuple[tuple[int, Callable[[_Walkers], _Walkers]], ...] = (
        (ETHERTYPE_IPV4, steps.ipv4),
        (ETHERTYPE_IPV6, steps.ipv6),
    )
    for kind, step in network:
        some = walkers.keep(walkers.kind == kind)
        if some.rows.size:
            steps.transport(step(some))
