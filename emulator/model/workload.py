"""What a scenario asks its hosts to do, as plain data: the scenario package parses it, the workloads package runs it.

Every workload has a ``name`` (unique in its scenario; the ``workload`` of its records) and a ``kind``.
Node names refer to the scenario's topology. Times are in ns, sizes in bytes, rates in bit/s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from emulator.model.collective import CollectiveJob as CollectiveJob
from emulator.model.collective import CollectiveRun as CollectiveRun
from emulator.model.collective import Collectives as Collectives
from emulator.model.workload_base import Workload as Workload
from emulator.model.workload_base import grouped as grouped

FILLED_IN = {"filled_in": True}
"""Marks fields that no scenario gives: they are worked out from its topology before anything runs."""


@dataclass(frozen=True)
class Ping(Workload):
    """ICMP echoes, one after the other, by the system's ``ping``; the first is not counted (it resolves flows).

    Attributes:
        source, target: Hosts.
        count: Echoes that are counted.
        interval_ns: From one echo to the next.
        payload_bytes: ICMP payload.
    """

    kind: ClassVar[str] = "ping"
    source: str
    target: str
    count: int = 20
    interval_ns: int = 10_000_000
    payload_bytes: int = 56

    @property
    def length_ns(self) -> int | None:
        """Until the last echo."""
        return self.count * self.interval_ns


@dataclass(frozen=True)
class TcpBulk(Workload):
    """Bulk TCP by iperf3: one or more flows at the same time.

    Attributes:
        sources: Sending hosts.
        targets: Receiving hosts; flow i goes from ``sources[i % len]`` to ``targets[i % len]``.
        flows: Number of flows.
        size_bytes: Payload of each flow (or 0: see ``duration_ns``).
        duration_ns: Time for which the flows send (or 0: see ``size_bytes``).
        congestion: Linux congestion control: ``cubic``, ``bbr``, ``dctcp``, ``reno``.
        ecn: Negotiate ECN.
        stagger_ns: Flow i starts ``i * stagger_ns`` after the first.
        warm_up_ns: Time at the start that does not count (iperf3 ``--omit`` or own intervals).
    """

    kind: ClassVar[str] = "tcp"
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    flows: int = 1
    size_bytes: int = 0
    duration_ns: int = 0
    congestion: str = "cubic"
    ecn: bool = False
    stagger_ns: int = 0
    warm_up_ns: int = 0

    @property
    def length_ns(self) -> int | None:
        """Until flows that send for a time are ended."""
        return (self.flows - 1) * self.stagger_ns + self.duration_ns if self.duration_ns else None


@dataclass(frozen=True)
class Poisson(Workload):
    """UDP packets of one size with exponential gaps into the link towards ``target``.

    Attributes:
        source, target: Hosts.
        load: Share of the slowest link's capacity on the path, above 0 and below 1.
        frame_bytes: Ethernet frame length without preamble, check sequence and gap.
        packets: How many are sent.
    """

    kind: ClassVar[str] = "poisson"
    source: str
    target: str
    load: float
    frame_bytes: int = 1500
    packets: int = 1_000_000


@dataclass(frozen=True)
class SmallPackets(Workload):
    """Small messages at full offered load; the useful share of the line that arrives.

    Attributes:
        source, target: Hosts.
        message_bytes: Payload of one message (one packet).
        duration_ns: Time for which messages are offered.
        offered_bps: Offered load in bit/s on the line; 0: the line rate.
    """

    kind: ClassVar[str] = "small_packets"
    source: str
    target: str
    message_bytes: int = 512
    duration_ns: int = 20_000_000
    offered_bps: int = 0

    @property
    def length_ns(self) -> int | None:
        """Until the last message."""
        return self.duration_ns


@dataclass(frozen=True)
class Probe(Workload):
    """Numbered UDP packets at a constant rate, one way, for what is lost, late, doubled or out of order (RFC 7680).

    Attributes:
        pairs: Sender and receiver of each flow.
        all_to_all: Instead: roles or hosts; every one of them sends to every other. Replaced by pairs before it runs.
        interval_ns: From one packet of a flow to the next; flows are evenly spread over it.
        payload_bytes: UDP payload, number included.
        duration_ns: Time for which packets are sent.
    """

    kind: ClassVar[str] = "probe"
    pairs: tuple[tuple[str, str], ...] = ()
    all_to_all: tuple[str, ...] = ()
    interval_ns: int = 10_000
    payload_bytes: int = 64
    duration_ns: int = 20_000_000

    @property
    def length_ns(self) -> int | None:
        """Until the last packet."""
        return self.duration_ns


@dataclass(frozen=True)
class NvmeIo(Workload):
    """fio against a volume on a storage node over NVMe/TCP (the kernel's initiator and target, null_blk media).

    Attributes:
        initiators: Client hosts, each with a volume of its own.
        target: Storage node.
        pattern: ``randread``, ``read``, ``write`` or ``randwrite``.
        block_bytes: Size of one I/O.
        queue_depths: fio runs once per depth.
        ios: I/Os per run and client (or 0: see ``size_bytes``).
        size_bytes: Bytes per run and client (or 0: see ``ios``).
        think_ns: Pause between batches, for a stated compute time.
    """

    kind: ClassVar[str] = "nvme"
    initiators: tuple[str, ...]
    target: str
    pattern: str = "randread"
    block_bytes: int = 4096
    queue_depths: tuple[int, ...] = (1,)
    ios: int = 1000
    size_bytes: int = 0
    think_ns: int = 0


@dataclass(frozen=True)
class Checkpoint(Workload):
    """Every client writes its share of a checkpoint at once over NVMe/TCP and syncs; duration is that of the slowest.

    Attributes:
        initiators: Client hosts.
        target: Storage node.
        size_bytes: Bytes written in all (really written, through packets).
        full_size_bytes: Size that the duration is scaled to in a `modelled` record; 0: none.
        block_bytes: Size of one write.
        queue_depth: Writes in flight per client.
    """

    kind: ClassVar[str] = "checkpoint"
    initiators: tuple[str, ...]
    target: str
    size_bytes: int
    full_size_bytes: int = 0
    block_bytes: int = 1 << 20
    queue_depth: int = 16


@dataclass(frozen=True)
class Bisection(Workload):
    """Cards on one side of a supernode's narrowest cut send to the other, all at once, as much as they can.

    Attributes:
        partners: How many cards of the other half each card sends to; 0: all.
        both_ways: Both sides send at the same time.
        duration_ns: Time for which they send.
        warm_up_ns: Time at the start that does not count.
        congestion: Linux congestion control.
        pairs: Who sends to whom, one way; filled in before it runs, as is all that follows.
        least_bps: Bandwidth between the halves with the least, one way, in bit/s on the line: not below this.
        most_bps: And not above this; the same where it is known exactly.
    """

    kind: ClassVar[str] = "bisection"
    partners: int = 1
    both_ways: bool = False
    duration_ns: int = 400_000
    warm_up_ns: int = 200_000
    congestion: str = "reno"
    pairs: tuple[tuple[str, str], ...] = field(default=(), metadata=FILLED_IN)
    least_bps: int = field(default=0, metadata=FILLED_IN)
    most_bps: int = field(default=0, metadata=FILLED_IN)

    @property
    def flows(self) -> tuple[tuple[str, str], ...]:
        """Sender and receiver of every flow: all pairs one way, then, if they do, all the other way."""
        return (*self.pairs, *((target, source) for source, target in self.pairs if self.both_ways))

    @property
    def length_ns(self) -> int | None:
        """Until the flows end."""
        return self.duration_ns


WORKLOADS: dict[str, type[Workload]] = {
    cls.kind: cls
    for cls in (
        Ping,
        TcpBulk,
        Poisson,
        SmallPackets,
        Probe,
        NvmeIo,
        Checkpoint,
        CollectiveRun,
        CollectiveJob,
        Bisection,
    )
}
