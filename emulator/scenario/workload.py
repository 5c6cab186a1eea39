"""The workloads of a scenario as they stand in the file; each becomes a dataclass of `emulator.model.workload`."""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import Field, model_validator

from emulator.model import workload as model
from emulator.scenario.bisection import BisectionSection
from emulator.scenario.collective import CollectiveJobSection, CollectiveSection
from emulator.scenario.fields import Count, Depths, Flag, Load, Names, Pairs, Rate, Size, Text, Time, at_least, refuse
from emulator.scenario.workload_base import (
    Congestion,
    Message,
    WorkloadSection,
    choice_field,
    size_field,
    time_field,
    with_unit,
)
from emulator.units import format_rate

Block = Annotated[Size, at_least(512, "512 B")]
Interval = Annotated[Time, at_least(1_000_000, "1 ms, the least that ping can wait")]
Duration = Annotated[Time, at_least(1_000, "1 us")]
Frame = Annotated[Size, at_least(60, "60 B, the least that Ethernet carries")]


class PingSection(WorkloadSection):
    """ICMP echoes, one after the other, by the system's ping."""

    noun = model.Ping
    kind: Literal["ping"]
    source: Text = Field(description="Host that asks.")
    target: Text = Field(description="Host that answers.")
    count: Count = Field(default=model.Ping.count, description="Echoes that are counted.")
    interval_ns: Interval = time_field("interval", model.Ping.interval_ns, "From one echo to the next.")
    payload_bytes: Size = size_field("payload", model.Ping.payload_bytes, "ICMP payload.")


class TcpSection(WorkloadSection):
    """Bulk TCP by iperf3: one or more flows at the same time, for a time or an amount."""

    noun = model.TcpBulk
    kind: Literal["tcp"]
    sources: Names = Field(description="Sending hosts; flow i starts at the i-th, over and over.")
    targets: Names = Field(description="Receiving hosts; flow i ends at the i-th, over and over.")
    flows: Count = Field(default=model.TcpBulk.flows, description="Flows at the same time.")
    size_bytes: Size = size_field(
        "size", model.TcpBulk.size_bytes, "Payload of each flow; give either this or `duration`."
    )
    duration_ns: Time = time_field("duration", model.TcpBulk.duration_ns, "Time for which the flows send.")
    congestion: Congestion = choice_field(model.TcpBulk.congestion, "Linux congestion control.")
    ecn: Flag = Field(default=model.TcpBulk.ecn, description="Negotiate ECN.")
    stagger_ns: Time = time_field("stagger", model.TcpBulk.stagger_ns, "Flow i starts i times this after the first.")
    warm_up_ns: Time = time_field("warm_up", model.TcpBulk.warm_up_ns, "Time at the start that does not count.")

    @model_validator(mode="after")
    def _amount(self) -> TcpSection:
        if bool(self.size_bytes) == bool(self.duration_ns):
            raise refuse("give either 'size' or 'duration'")
        if self.duration_ns and self.warm_up_ns >= self.duration_ns:
            raise refuse("'warm_up' is not shorter than 'duration'")
        return self


class PoissonSection(WorkloadSection):
    """UDP packets of one size with exponential gaps."""

    noun = model.Poisson
    kind: Literal["poisson"]
    source: Text = Field(description="Sending host.")
    target: Text = Field(description="Receiving host.")
    load: Annotated[Load, Field(gt=0, lt=1)] = Field(
        description="Share of the slowest link's capacity, above 0 and below 1."
    )
    frame_bytes: Frame = size_field("frame", model.Poisson.frame_bytes, "Ethernet frame length without check sequence.")
    packets: Count = Field(default=model.Poisson.packets, description="How many are sent.")


class SmallPacketsSection(WorkloadSection):
    """Small messages at full offered load; what matters is the useful share that arrives."""

    noun = model.SmallPackets
    kind: Literal["small_packets"]
    source: Text = Field(description="Sending host.")
    target: Text = Field(description="Receiving host.")
    message_bytes: Message = size_field(
        "message", model.SmallPackets.message_bytes, "Payload of one message, one packet."
    )
    duration_ns: Duration = time_field(
        "duration", model.SmallPackets.duration_ns, "Time for which messages are offered."
    )
    offered_bps: Rate = with_unit(
        "offered", model.SmallPackets.offered_bps, format_rate, "Offered load on the line; 0 bit/s: the line rate."
    )


class ProbeSection(WorkloadSection):
    """Numbered UDP packets at a constant rate, one way: what is lost, late, doubled or out of order."""

    noun = model.Probe
    kind: Literal["probe"]
    pairs: Pairs = Field(default=(), description="Flows, each as [sender, receiver]; give either this or `all_to_all`.")
    all_to_all: Names = Field(
        default=(),
        description="Roles or hosts; every one of them sends to every other.",
        examples=[["gpu", "storage"], ["h0", "h1"]],
    )
    interval_ns: Annotated[Time, at_least(100, "100 ns")] = time_field(
        "interval", model.Probe.interval_ns, "From one packet of a flow to the next; flows are spread evenly over it."
    )
    payload_bytes: Annotated[Size, at_least(8, "8 B, which hold a packet's number")] = size_field(
        "payload", model.Probe.payload_bytes, "UDP payload of a packet."
    )
    duration_ns: Duration = time_field("duration", model.Probe.duration_ns, "Time for which packets are sent.")

    @model_validator(mode="after")
    def _flows(self) -> ProbeSection:
        if bool(self.pairs) == bool(self.all_to_all):
            raise refuse("give either 'pairs' or 'all_to_all'")
        if self.interval_ns > self.duration_ns:
            raise refuse("'interval' is longer than 'duration'")
        return self


class NvmeSection(WorkloadSection):
    """fio against a volume on a storage node over NVMe/TCP."""

    noun = model.NvmeIo
    kind: Literal["nvme"]
    initiators: Names = Field(description="Client hosts, each with a volume of its own.")
    target: Text = Field(description="Storage node.")
    pattern: Literal["randread", "read", "write", "randwrite"] = choice_field(
        model.NvmeIo.pattern, "Access pattern, as fio calls it."
    )
    block_bytes: Block = size_field("block", model.NvmeIo.block_bytes, "Size of one I/O.")
    queue_depths: Depths = Field(default=model.NvmeIo.queue_depths, description="fio runs once per depth.")
    ios: Count = Field(default=model.NvmeIo.ios, description="I/Os per run and client; give either this or `size`.")
    size_bytes: Size = size_field("size", model.NvmeIo.size_bytes, "Bytes per run and client.")
    think_ns: Time = time_field("think", model.NvmeIo.think_ns, "Pause between batches, for a stated compute time.")

    @model_validator(mode="after")
    def _amount(self) -> NvmeSection:
        if "ios" in self.model_fields_set and self.size_bytes:
            raise refuse("give either 'ios' or 'size'")
        return self

    def build(self) -> model.Workload:
        """As the base, but a given ``size`` replaces the default number of I/Os."""
        given = self.model_dump(exclude_unset=True, exclude={"kind"})
        if self.size_bytes:
            given["ios"] = 0
        return model.NvmeIo(**given)


class CheckpointSection(WorkloadSection):
    """Every client writes its share of a checkpoint at once over NVMe/TCP and syncs."""

    noun = model.Checkpoint
    kind: Literal["checkpoint"]
    initiators: Names = Field(description="Client hosts.")
    target: Text = Field(description="Storage node.")
    size_bytes: Message = Field(alias="size", description="Bytes written in all, really and through packets.")
    full_size_bytes: Size = size_field(
        "full_size", model.Checkpoint.full_size_bytes, "Size that the duration is scaled to in a modelled record."
    )
    block_bytes: Block = size_field("block", model.Checkpoint.block_bytes, "Size of one write.")
    queue_depth: Count = Field(default=model.Checkpoint.queue_depth, description="Writes in flight per client.")


WorkloadEntry = Annotated[
    Union[  # noqa: UP007
        PingSection,
        TcpSection,
        PoissonSection,
        SmallPacketsSection,
        ProbeSection,
        NvmeSection,
        CheckpointSection,
        CollectiveSection,
        CollectiveJobSection,
        BisectionSection,
    ],
    Field(discriminator="kind"),
]

WORKLOAD_SECTIONS: dict[str, type[WorkloadSection]] = {
    section.noun.kind: section
    for section in (
        PingSection,
        TcpSection,
        PoissonSection,
        SmallPacketsSection,
        ProbeSection,
        NvmeSection,
        CheckpointSection,
        CollectiveSection,
        CollectiveJobSection,
        BisectionSection,
    )
}
