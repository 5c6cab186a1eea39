"""Links as plain data: rate, delay, queue and whatever else a packet meets on the way from one port to another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from emulator.errors import TopologyError

ETHERNET_OVERHEAD_BYTES = 24
"""Preamble and start delimiter (8), frame check sequence (4), inter-packet gap (12): IEEE 802.3 clauses 3, 4.4.2."""

ETHERNET_HEADER_BYTES = 14
MAX_RATE_BPS = 1_600_000_000_000
"""Fastest link: 1.6 Tbit/s, as in IEEE P802.3dj."""

MIN_STORAGE_SHARE = 0.01
"""Least part of a line for either class, see `LinkSpec.storage_share`: below, the other one would hold it for long."""


class Aqm(str, Enum):
    """How a link's queue drops or marks."""

    DROP_TAIL = "drop-tail"
    ECN_THRESHOLD = "ecn-threshold"


@dataclass(frozen=True)
class LinkSpec:
    """The properties of one link, the same in both directions.

    Attributes:
        rate_bps: Line rate in bit/s, 1 to 1.6e12.
        delay_ns: Propagation delay in ns, one way.
        mtu_bytes: Largest IP packet.
        queue_packets: Packets that may wait for the line, not counting those on it. None: see ``queue_bdp``.
        queue_bdp: The same in bandwidth-delay products of ``bdp_rtt_ns`` (only if ``queue_packets`` is None).
        bdp_rtt_ns: Round-trip time that one bandwidth-delay product refers to.
        loss_ppm: Random loss in parts per million.
        overhead_bytes: Bytes on the line for each frame besides the Ethernet header and payload.
        true_packets: Segmentation offloads are off, every packet on the line has at most ``mtu_bytes``. With
            super-packets (False) up to 64 KiB travel as one, each hop stores and forwards them whole: only for bulk.
        aqm: Drop-tail, or mark ECN-capable packets above a queue threshold.
        ecn_threshold_packets: Mark above this many waiting packets (only with `Aqm.ECN_THRESHOLD`).
        storage_share: Where storage and compute traffic want the line at once, the part of it, by bytes, that storage
            gets; each has a queue of its own in the directions that leave from switches. None: one queue for all.
    """

    rate_bps: int
    delay_ns: int
    mtu_bytes: int = 9000
    queue_packets: int | None = None
    queue_bdp: float = 1.0
    bdp_rtt_ns: int = 100_000
    loss_ppm: int = 0
    overhead_bytes: int = ETHERNET_OVERHEAD_BYTES
    true_packets: bool = True
    aqm: Aqm = Aqm.DROP_TAIL
    ecn_threshold_packets: int = 65
    storage_share: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.rate_bps <= MAX_RATE_BPS:
            raise TopologyError(
                f"a link rate of {self.rate_bps} bit/s is impossible: 1 bit/s to 1.6 Tbit/s", key="rate"
            )
        if not 0 <= self.delay_ns <= 10 * 10**9:
            raise TopologyError(f"a link delay of {self.delay_ns} ns is impossible: 0 to 10 s", key="delay")
        if not 576 <= self.mtu_bytes <= 65_535:
            raise TopologyError(f"an MTU of {self.mtu_bytes} bytes is impossible: 576 to 65535", key="mtu")
        if self.queue_packets is not None and not 1 <= self.queue_packets <= 10_000_000:
            raise TopologyError(f"a queue of {self.queue_packets} packets is impossible: 1 to 10000000", key="queue")
        if not 0 < self.queue_bdp <= 10_000:
            raise TopologyError(f"a queue of {self.queue_bdp} BDP is impossible: above 0, up to 10000", key="queue")
        if not 0 <= self.loss_ppm <= 1_000_000:
            raise TopologyError(f"a loss of {self.loss_ppm} ppm is impossible: 0 to 1000000", key="loss")
        # Written so that it refuses NaN too.
        if self.storage_share is not None and not MIN_STORAGE_SHARE <= self.storage_share <= 1 - MIN_STORAGE_SHARE:
            raise TopologyError(
                f"a storage share of {self.storage_share} is impossible: {MIN_STORAGE_SHARE} to "
                f"{1 - MIN_STORAGE_SHARE} of the line",
                key="storage_share",
            )

    @property
    def waiting_packets(self) -> int:
        """Packets that may wait for the line: as stated, or from bandwidth-delay products of full-size frames."""
        if self.queue_packets is not None:
            return self.queue_packets
        frame_bits = 8 * (self.mtu_bytes + ETHERNET_HEADER_BYTES + self.overhead_bytes)
        return max(2, round(self.queue_bdp * self.rate_bps * self.bdp_rtt_ns / 1e9 / frame_bits))

    def serialization_ns(self, frame_bytes: int) -> int:
        """Time to put a frame on the line, in whole ns rounded down as the kernel does.

        Args:
            frame_bytes: Length with Ethernet header, without preamble, check sequence and gap.
        """
        return (frame_bytes + self.overhead_bytes) * 8 * 10**9 // self.rate_bps

    def line_time_ns(self, frame_bytes: int) -> float:
        """The same without rounding: what a frame takes on average while the line is busy."""
        return (frame_bytes + self.overhead_bytes) * 8e9 / self.rate_bps


@dataclass(frozen=True)
class Link:
    """A full-duplex link between two ports.

    Attributes:
        a, b: Node names.
        a_port, b_port: Port numbers on them.
        spec: Its properties.
    """

    a: str
    b: str
    a_port: int
    b_port: int
    spec: LinkSpec

    @property
    def a_interface(self) -> str:
        """Interface name at end *a*."""
        return f"{self.a}-eth{self.a_port}"

    @property
    def b_interface(self) -> str:
        """Interface name at end *b*."""
        return f"{self.b}-eth{self.b_port}"

    @property
    def name(self) -> str:
        """``a--b``, with ports where two nodes share several links is left to the caller."""
        return f"{self.a_interface}--{self.b_interface}"
