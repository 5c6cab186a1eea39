"""Queueing disciplines as plain data: encoded for the kernel, and decoded from what it says it has set.

Each class has the fields that matter here, in exact units. Structures and attribute numbers are those of
linux/pkt_sched.h. Where each sits on its interface is `emulator.network.qdisc_tree`'s business.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, Union

from emulator.network.netlink import NESTED, attribute, attribute_list, attributes, u32, u64

TICK_NS = 64
"""PSCHED_SHIFT 6: the kernel's old time unit for token buckets."""

_MAX_U32 = 0xFFFFFFFF
_LOSS_SCALE = 0xFFFFFFFF
_UNLIMITED_PACKETS = 1_000_000_000


@dataclass(frozen=True)
class Netem:
    """A line: serialization at a rate, then propagation. With rate 0, propagation only.

    Attributes:
        rate_bytes_per_s: 0 for infinitely fast.
        delay_ns: Propagation delay.
        limit_packets: Most packets in it: waiting, on the line, and in propagation.
        loss: Probability of loss in units of 1/(2^32 - 1).
        overhead_bytes: Added to each packet's length for its time on the line.
        seed: Of the random losses; None where there are none, or where the kernel is too old to say.
    """

    kind: ClassVar[str] = "netem"

    rate_bytes_per_s: int = 0
    delay_ns: int = 0
    limit_packets: int = _UNLIMITED_PACKETS
    loss: int = 0
    overhead_bytes: int = 0
    seed: int | None = None

    @staticmethod
    def loss_from_ppm(ppm: int) -> int:
        """The kernel's number for a loss in parts per million."""
        return (ppm * _LOSS_SCALE + 500_000) // 1_000_000

    def options(self) -> bytes:
        """Payload of TCA_OPTIONS: a fixed structure followed by attributes, not nested."""
        # latency, limit, loss, gap, duplicate, jitter; the times come as 64-bit attributes instead of 64 ns ticks.
        parts = [struct.pack("=6I", 0, self.limit_packets, self.loss, 0, 0, 0)]
        if self.rate_bytes_per_s:
            parts.append(
                attribute(6, struct.pack("=IiIi", min(self.rate_bytes_per_s, _MAX_U32), self.overhead_bytes, 0, 0))
            )
            if self.rate_bytes_per_s > _MAX_U32:
                parts.append(u64(8, self.rate_bytes_per_s))
        parts.append(attribute(10, struct.pack("=q", self.delay_ns)))
        if self.seed is not None:
            parts.append(u64(14, self.seed))
        return b"".join(parts)

    @classmethod
    def decode(cls, options: bytes) -> Netem:
        """Read what the kernel dumps."""
        latency_ticks, limit, loss, *_ = struct.unpack_from("=6I", options)
        found = attributes(options, 24)
        rate, overhead = struct.unpack_from("=Ii", found[6]) if 6 in found else (0, 0)
        if 8 in found:
            (rate,) = struct.unpack("=Q", found[8])
        delay = struct.unpack("=q", found[10])[0] if 10 in found else latency_ticks * TICK_NS
        seed = struct.unpack("=Q", found[14])[0] if loss and 14 in found else None
        return cls(rate, delay, limit, loss, overhead, seed)


@dataclass(frozen=True)
class TokenBucket:
    """A rate limit that lets a packet go as soon as its tokens are there.

    Attributes:
        rate_bytes_per_s: Rate of the tokens.
        overhead_bytes: Added to each packet's length.
        burst_bytes: Size of the bucket, and of the largest packet; None when read back, for the kernel only says it as
            a time.
        line: No bucket: a packet leaves when it has been on the line for as long as it takes, and then the next one is
            chosen. The virtual-time kernel can do that (its patch 0008). Others ignore it, and let a packet go at once
            after an idle moment; they say nothing when it is read back, which is None.
    """

    kind: ClassVar[str] = "tbf"

    rate_bytes_per_s: int
    overhead_bytes: int
    burst_bytes: int | None
    line: bool | None = False

    def options(self) -> bytes:
        """Payload of TCA_OPTIONS."""
        ethernet = 1  # TC_LINKLAYER_ETHERNET: lengths are taken as they are, no rate table
        rate = struct.pack("=BBHhHI", 0, ethernet, self.overhead_bytes, 0, 0, min(self.rate_bytes_per_s, _MAX_U32))
        no_peak = struct.pack("=BBHhHI", 0, ethernet, 0, 0, 0, 0)
        parts = [attribute(1, rate + no_peak + struct.pack("=III", 0, 0, 0))]
        if self.rate_bytes_per_s > _MAX_U32:
            parts.append(u64(4, self.rate_bytes_per_s))
        if self.burst_bytes is not None:
            parts.append(u32(6, self.burst_bytes))
        if self.line:
            parts.append(attribute(9, b""))
        return b"".join(parts)

    @classmethod
    def decode(cls, options: bytes) -> TokenBucket:
        """Read what the kernel dumps."""
        found = attributes(options)
        _log, _layer, overhead, _align, _mpu, rate = struct.unpack_from("=BBHhHI", found[1])
        if 4 in found:
            (rate,) = struct.unpack("=Q", found[4])
        return cls(rate, overhead, None, True if 9 in found else None)


@dataclass(frozen=True)
class Mark:
    """RED, set up so that it only marks: ECN-capable packets that find at least ``threshold_bytes`` waiting.

    The average that RED computes is made the present backlog (weight 1), both thresholds are equal, and packets that
    are not ECN-capable pass unharmed.
    """

    kind: ClassVar[str] = "red"

    threshold_bytes: int

    _FLAGS: ClassVar[int] = 1 | 8
    """TC_RED_ECN, TC_RED_NODROP."""

    def options(self) -> bytes:
        """Payload of TCA_OPTIONS. The limit of 0 leaves the queue itself to a child."""
        parameters = struct.pack("=IIIBBBB", 0, self.threshold_bytes, self.threshold_bytes, 0, 0, 0, 0)
        # The table says how far the average decays while idle: by 31 bits, to nothing, at once.
        decay = bytes([31]) * 256
        flags = struct.pack("=II", self._FLAGS, self._FLAGS)
        return attribute(1, parameters) + attribute(2, decay) + u32(3, _MAX_U32) + attribute(4, flags)

    @classmethod
    def decode(cls, options: bytes) -> Mark:
        """Read what the kernel dumps."""
        _limit, least, most, weight, _plog, _scell, flags = struct.unpack("=IIIBBBB", attributes(options)[1])
        bits = struct.unpack_from("=I", attributes(options).get(4, b"\0\0\0\0"))[0] | flags
        if least != most or weight or bits & cls._FLAGS != cls._FLAGS:
            return cls(-1)
        return cls(least)


@dataclass(frozen=True)
class Fifo:
    """A first-in first-out queue of a number of packets."""

    kind: ClassVar[str] = "pfifo"

    limit_packets: int

    def options(self) -> bytes:
        """Payload of TCA_OPTIONS."""
        return struct.pack("=I", self.limit_packets)

    @classmethod
    def decode(cls, options: bytes) -> Fifo:
        """Read what the kernel dumps."""
        return cls(struct.unpack_from("=I", options)[0])


@dataclass(frozen=True)
class Shares:
    """ETS as a deficit round robin: classes take turns, each for its quantum of bytes, and skip those without packets.

    A packet's class is the number in its priority if that names this qdisc, as Open vSwitch's queues name the qdisc
    ``1:``; all other packets are in the last class.

    Attributes:
        quanta_bytes: Of each class.
    """

    kind: ClassVar[str] = "ets"

    quanta_bytes: tuple[int, ...]

    _PRIORITIES: ClassVar[int] = 16

    def options(self) -> bytes:
        """Payload of TCA_OPTIONS."""
        last = len(self.quanta_bytes) - 1
        quanta = b"".join(u32(4, quantum) for quantum in self.quanta_bytes)
        priorities = attribute(6, bytes([last])) * self._PRIORITIES
        return attribute(1, bytes([last + 1])) + attribute(3 | NESTED, quanta) + attribute(5 | NESTED, priorities)

    @classmethod
    def decode(cls, options: bytes) -> Shares:
        """Read what the kernel dumps; classes of which it says something else than asked come out without quanta."""
        found = attributes(options)
        quanta = tuple(struct.unpack_from("=I", one)[0] for _, one in attribute_list(found.get(3, b"")))
        priorities = {one[0] for _, one in attribute_list(found.get(5, b""))}
        strict = found.get(2, b"\0")[0]
        if strict or priorities != {len(quanta) - 1}:
            return cls(())
        return cls(quanta)


Qdisc = Union[Netem, TokenBucket, Mark, Fifo, Shares]  # noqa: UP007 - evaluated at run time, Python 3.10
KINDS: dict[str, type[Netem] | type[TokenBucket] | type[Mark] | type[Fifo] | type[Shares]] = {
    one.kind: one for one in (Netem, TokenBucket, Mark, Fifo, Shares)
}
"""By the kernel's names."""
