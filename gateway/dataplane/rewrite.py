"""The stage that writes: new Ethernet addresses, one hop less, translated addresses and ports, updated checksums.

Only these bytes are written, each frame's by one to three stores.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gateway.dataplane.checksum import updated
from gateway.dataplane.edits import Deltas, Edits
from gateway.dataplane.headers import TCP, UDP, W_LAYER4, W_TCP, W_TTL_SOURCE, Headers
from gateway.dataplane.memory import Bytes, Ints, Words, integer, read, records, word, write
from gateway.dataplane.route import Routes

_16, _32 = word(16), word(32)
_M, _ZERO = word(0xFFFF), word(0)
_TTL_PROTOCOL = word(0xFFFF << 48)
_HOP = word(1 << 56)
_TTL_AT = integer(8)
_TCP, _TCP_SUM, _UDP_SUM = integer(TCP), integer(16), integer(6)


def write_macs(memory: Bytes, offsets: Ints, next_hop: Ints, routes: Routes) -> None:
    """Let frames begin with the addresses of their next hops."""
    records(memory, 12)[offsets] = routes.macs[next_hop]


class Decided(Protocol):
    """A table of what frames leave with."""

    edits: Edits
    deltas: Deltas
    target_ports: Words
    """New targets and ports, as in `Headers.words`."""


def write_plain(memory: Bytes, headers: Headers, flows: Decided, numbers: Ints) -> None:
    """Rewrite frames of which all are `Headers.plain`.

    Args:
        memory: Where they lie.
        headers: Their headers.
        flows: What they leave with.
        numbers: The entry of each frame in it.
    """
    ttl_source = headers.words[W_TTL_SOURCE]
    checksum = updated((ttl_source >> _32) & _M, flows.deltas.header[numbers])
    checksum <<= _32
    checksum |= (ttl_source & _TTL_PROTOCOL) - _HOP
    checksum |= flows.edits.source[numbers]
    at = headers.network + _TTL_AT
    write(memory, at, checksum, 8)
    changes = flows.deltas.changes[numbers]
    if not np.count_nonzero(changes):
        return
    write(memory, at + _TTL_AT, flows.target_ports[numbers], 8)
    tcp = headers.protocol == _TCP
    old = (headers.words[W_LAYER4] >> _32) & _M
    np.copyto(old, (headers.words[W_TCP] >> _16) & _M, where=tcp)
    new = updated(old, flows.deltas.transport[numbers])
    where = headers.transport + _UDP_SUM
    np.add(where, _TCP_SUM - _UDP_SUM, out=where, where=tcp)
    zero = new == _ZERO
    if np.count_nonzero(zero):
        new[zero & ~tcp] = 0xFFFF
    none = old == _ZERO
    if np.count_nonzero(none):
        new[none & ~tcp] = 0
    write(memory, where, new, 2)


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
