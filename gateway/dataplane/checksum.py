"""Checksums of the Internet, for batches: incremental updates (RFC 1624) and full sums over what a frame carries.

A sum of 16-bit words with end-around carry is a remainder modulo 65535, and a number of any length has the same
remainder as the sum of its 16-bit words. So an update is one subtraction and one remainder:
``new = (old + what went - what came) mod 65535``. Both zeros of one's complement are the remainder 0; the sum over a
header is never all zeros, so the stored checksum is 0x0000, and 0xFFFF in UDP, where 0 means that there is none.
"""

from __future__ import annotations

import numpy as np

from gateway.dataplane.headers import TCP, UDP, Headers
from gateway.dataplane.memory import Bytes, Flags, Ints, Words, read, word
from gateway.dataplane.reasons import Reason

MODULUS = word(0xFFFF)
PLENTY = word(0xFFFF << 32)
"""A multiple of the modulus that is greater than what is subtracted."""


def updated(old: Words, delta: Words) -> Words:
    """Checksums after an update; *delta* is the sum of what went minus that of what came, plus `PLENTY`."""
    new: Words = (old + delta) % MODULUS
    return new


def verify_transport(memory: Bytes, headers: Headers) -> None:
    """Mark frames whose TCP or UDP checksum is wrong as `Reason.BAD_TRANSPORT_CHECKSUM`.

    This reads every byte of the frames, which forwarding does not; frames in several pieces are left out. Do not ask it
    of frames whose checksums an interface is still to fill in. UDP without a checksum is right over IPv4, and over IPv6
    as tunnels have it (RFC 6935).
    """
    some = (headers.reason == Reason.FORWARDED) & ((headers.protocol == TCP) | (headers.protocol == UDP))
    some &= headers.ends <= headers.head_ends
    for row in np.flatnonzero(some):
        if not _is_right(memory, headers, int(row)):
            headers.reason[row] = Reason.BAD_TRANSPORT_CHECKSUM


def _is_right(memory: Bytes, headers: Headers, row: int) -> bool:
    start, end, protocol = int(headers.transport[row]), int(headers.ends[row]), int(headers.protocol[row])
    if protocol == UDP:
        end = start + int.from_bytes(memory[start + 4 : start + 6].tobytes(), "big")
        if not memory[start + 6] and not memory[start + 7]:
            return True
    addresses = sum(
        int(column[row]) % 0xFFFF
        for column in (headers.source_high, headers.source, headers.target_high, headers.target)
    )
    total = addresses + protocol + (end - start) + _sum(memory[start:end])
    return total % 0xFFFF == 0


def _sum(data: Bytes) -> int:
    even = data.size & ~1
    total = int(data[:even].view(">u2").sum(dtype=np.uint64))
    return total + (int(data[-1]) << 8 if data.size & 1 else 0)


def transport_checksum_at(headers: Headers, rows: Ints) -> Ints:
    """Where the checksums of TCP and UDP lie; `rows` must be of these protocols."""
    return headers.transport[rows] + np.where(headers.protocol[rows] == TCP, 16, 6)


def has_transport_checksum(memory: Bytes, headers: Headers, rows: Ints) -> Flags:
    """Whether frames carry a checksum of TCP or UDP that must follow the addresses."""
    protocol = headers.protocol[rows]
    carries: Flags = (protocol == TCP) | (protocol == UDP)
    udp = np.flatnonzero(protocol == UDP)
    carries[udp] = read(memory, headers.transport[rows[udp]] + 6, 2) != 0
    return carries
