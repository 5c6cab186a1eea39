"""The parameters that each kind of topology takes in a scenario.

What is not given in the file is not passed on, so the defaults are those of the topology's own function; a test
holds the parameters here against the functions' signatures.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field

from emulator.scenario.fields import Count, Flag, Packets, Queue, Rate, Share, Size, Time


def _optional(alias: str, description: str) -> Any:
    return Field(default=None, alias=alias, description=description)


class Strict(BaseModel):
    """Base of every part of a scenario: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False)


class LinkParameters(Strict):
    """Properties of the topology's links; what is left out keeps the topology's default."""

    rate_bps: Rate = _optional("rate", "Line rate of a link, up to 1.6 Tbit/s.")
    delay_ns: Time = _optional("delay", "Propagation delay of a link, one way.")
    mtu_bytes: Size = _optional("mtu", "Largest IP packet.")
    queue: Queue = _optional("queue", "Packets that may wait for the line, or bandwidth-delay products of `bdp_rtt`.")
    bdp_rtt_ns: Time = _optional("bdp_rtt", "Round-trip time that one bandwidth-delay product refers to.")
    loss_ppm: Share = _optional("loss", "Random loss on each link.")
    super_packets: Flag = _optional(
        "super_packets",
        "Let up to 64 KiB travel as one packet: quicker to emulate, but every hop stores and forwards the whole of it, "
        "so only for bulk transfers whose latency nobody reads.",
    )

    def parameters(self) -> dict[str, int | float | str]:
        """What is given in the file, as keyword arguments of the topology's function."""
        given: dict[str, Any] = self.model_dump(exclude_unset=True, exclude={"kind"})
        given.update(given.pop("queue", {}))
        if "super_packets" in given:
            given["true_packets"] = not given.pop("super_packets")
        return given


class Chain(LinkParameters):
    """Two hosts, h0 and h1, with switches in a row between them."""

    kind: Literal["chain"]
    hops: Count = _optional("hops", "Links between the two hosts; there is a switch less.")


class Dumbbell(LinkParameters):
    """Pairs of hosts on two switches that share one bottleneck link."""

    kind: Literal["dumbbell"]
    pairs: Count = _optional("pairs", "Hosts on either side.")
    edge_rate_bps: Rate = _optional("edge_rate", "Line rate between a host and its switch.")
    aqm: Literal["drop-tail", "ecn-threshold"] = _optional("aqm", "How the bottleneck's queue drops or marks.")
    ecn_threshold_packets: Packets = _optional(
        "ecn_threshold", "Mark packets that find more than this many waiting (only with ecn-threshold)."
    )


class Icgw(LinkParameters):
    """Leaf-spine with GPU nodes, general compute nodes, gateways and storage nodes in two zones."""

    kind: Literal["icgw"]
    gpus: Count = _optional("gpus", "GPU nodes.")
    compute: Count = _optional("compute", "General compute nodes.")
    gateways: Count = _optional("gateways", "Gateway nodes.")
    storage: Count = _optional("storage", "Storage nodes.")
    spines: Count = _optional("spines", "Spine switches in each zone.")
    zone_delay_ns: Time = _optional("zone_delay", "Propagation delay between the zones, one way.")


class Single(LinkParameters):
    """Hosts on one switch."""

    kind: Literal["single"]
    hosts: Count = _optional("hosts", "Hosts on the switch.")


Topology = Annotated[Union[Chain, Dumbbell, Icgw, Single], Field(discriminator="kind")]  # noqa: UP007 - 3.10

TOPOLOGIES: dict[str, type[LinkParameters]] = {"chain": Chain, "dumbbell": Dumbbell, "icgw": Icgw, "single": Single}
