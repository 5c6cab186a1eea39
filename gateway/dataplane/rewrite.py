"""The stage that writes: new Ethernet addresses, one hop less, translated addresses and ports, updated checksums.

Only these bytes are written, each frame's by one to three stores.
"""

from __future__ import annotations

import numpy as np

from gateway.dataplane.checksum import updated
from gateway.dataplane.edits import Deltas, Edits
from gateway.dataplane.headers import TCP, UDP, W_LAYER4, W_TCP, W_TTL_SOURCE, Headers
from gateway.dataplane.memory import Bytes, Ints, Words, integer, read, records, word, write
from gateway.dataplane.route import Routes

_16, _32 = word(16), word(32)
_M = word(0xFFFF)
_TTL_PROTOCOL = word(0xFFFF << 48)
_HOP = word(1 << 56)
_TTL_AT = integer(8)
_TCP, _TCP_SUM, _UDP_SUM = integer(TCP), integer(16), integer(6)


def write_macs(memory: Bytes, offsets: Ints, next_hop: Ints, routes: Routes) -> None:
    """Let frames begin with the addresses of their next hops."""
    records(memory, 12)[offsets] = routes.macs[next_hop]


def write_plain(memory: Bytes, headers: Headers, source: Words, target_ports: Words, deltas: Deltas) -> None:
    """Rewrite frames of which all are `Headers.plain`.

    Args:
        memory: Where they lie.
        headers: Their headers.
        source: Their new sources.
        target_ports: Their new targets and ports, as in `Headers.words`.
        deltas: What that does to their checksums.
    """
    word3 = headers.words[W_TTL_SOURCE]
    checksum = updated((word3 >> _32) & _M, deltas.header)
    checksum <<= _32
    checksum |= (word3 & _TTL_PROTOCOL) - _HOP
    checksum |= source
    at = headers.network + _TTL_AT
    if not np.count_nonzero(deltas.changes):
        write(memory, at, checksum, 8)
        return
    both = np.empty((at.size, 2), ">u8")
    both[:, 0] = checksum
    both[:, 1] = target_ports
    records(memory, 16)[at] = both.view("V16")[:, 0]
    tcp = headers.protocol == _TCP
    old = (headers.words[W_LAYER4] >> _32) & _M
    np.copyto(old, (headers.words[W_TCP] >> _16) & _M, where=tcp)
    new = updated(old, deltas.transport)
    where = np.full(at.size, _UDP_SUM)
    np.copyto(where, _TCP_SUM, where=tcp)
    zero = new == 0
    if np.count_nonzero(zero):
        new[zero & ~tcp] = 0xFFFF
    none = old == 0
    if np.count_nonzero(none):
        new[none & ~tcp] = 0
    write(memory, headers.transport + where, new, 2)


def write_other(memory: Bytes, headers: Headers, edits: Edits, deltas: Deltas) -> None:
    """Rewrite frames of IP of any shape, field by field."""
    rows = np.flatnonzero(headers.family == 4)
    at = headers.network[rows]
    checksum = read(memory, at + 10, 2).view(np.uint64)
    write(memory, at + 8, headers.ttl[rows] - 1, 1)
    write(memory, at + 10, updated(checksum, deltas.header[rows]), 2)
    write(memory, at + 12, edits.source[rows], 4)
    write(memory, at + 16, edits.target[rows], 4)
    rows = np.flatnonzero(headers.family == 6)
    at = headers.network[rows]
    write(memory, at + 7, headers.ttl[rows] - 1, 1)
    for position, column in enumerate((edits.source_high, edits.source, edits.target_high, edits.target)):
        write(memory, at + 8 + 8 * position, column[rows], 8)
    for protocol, sum_at in ((TCP, 16), (UDP, 6)):
        rows = np.flatnonzero((headers.protocol == protocol) & deltas.changes)
        at = headers.transport[rows]
        write(memory, at, edits.source_port[rows], 2)
        write(memory, at + 2, edits.target_port[rows], 2)
        old = read(memory, at + sum_at, 2).view(np.uint64)
        new = updated(old, deltas.transport[rows])
        if protocol == UDP:
            new[new == 0] = 0xFFFF
            new[old == 0] = 0
        write(memory, at + sum_at, new, 2)
