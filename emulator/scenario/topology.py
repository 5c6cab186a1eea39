"""The parameters that each kind of topology takes in a scenario.

What is not given in the file is not passed on, so the defaults are those of the topology's own function; a test
holds the parameters here against the functions' signatures.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field

from emulator.scenario.fields import (
    Count,
    Flag,
    Index,
    Packets,
    Part,
    Queue,
    Rate,
    Ratios,
    Share,
    Size,
    Sizes,
    Time,
)


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


class SwitchedLinks(LinkParameters):
    """The same where switches follow rules, and so can tell storage traffic from other traffic."""

    storage_share: Part = _optional(
        "storage_share",
        "Part of each line for storage traffic when compute traffic wants it too; each then has a queue of its own "
        "where a switch sends. Left out: one queue for both.",
    )


class Chain(SwitchedLinks):
    """Two hosts, h0 and h1, with switches in a row between them."""

    kind: Literal["chain"]
    hops: Count = _optional("hops", "Links between the two hosts; there is a switch less.")


class Dumbbell(SwitchedLinks):
    """Pairs of hosts on two switches that share one bottleneck link."""

    kind: Literal["dumbbell"]
    pairs: Count = _optional("pairs", "Hosts on either side.")
    edge_rate_bps: Rate = _optional("edge_rate", "Line rate between a host and its switch.")
    aqm: Literal["drop-tail", "ecn-threshold"] = _optional("aqm", "How the bottleneck's queue drops or marks.")
    ecn_threshold_packets: Packets = _optional(
        "ecn_threshold", "Mark packets that find more than this many waiting (only with ecn-threshold)."
    )


class Icgw(SwitchedLinks):
    """Leaf-spine with GPU nodes, general compute nodes, gateways and storage nodes in two zones."""

    kind: Literal["icgw"]
    gpus: Count = _optional("gpus", "GPU nodes.")
    compute: Count = _optional("compute", "General compute nodes.")
    gateways: Count = _optional("gateways", "Gateway nodes.")
    storage: Count = _optional("storage", "Storage nodes.")
    spines: Count = _optional("spines", "Spine switches in each zone.")
    zone_delay_ns: Time = _optional("zone_delay", "Propagation delay between the zones, one way.")


class Single(SwitchedLinks):
    """Hosts on one switch."""

    kind: Literal["single"]
    hosts: Count = _optional("hosts", "Hosts on the switch.")
    slow_hosts: Index = _optional("slow_hosts", "So many of the last hosts have links of another rate.")
    slow_rate_bps: Rate = _optional("slow_rate", "That rate.")


_SWITCHING = (
    "Whether switches are namespaces that route, or bridges of Open vSwitch with a controller: for up to a few hundred "
    "cards."
)
_SPREADING = "How routed switches use equal paths: by a hash of each flow, or each for destinations of its own."
Switching = Literal["routed", "openflow"]
Spreading = Literal["ecmp", "static"]


class Torus3d(LinkParameters):
    """Cards wired to each other in a torus, straight or twisted; every card forwards for the others."""

    kind: Literal["torus3d"]
    x: Count = _optional("x", "Cards in the first dimension.")
    y: Count = _optional("y", "Cards in the second dimension.")
    z: Count = _optional("z", "Cards in the third dimension.")
    twist: Index = _optional("twist", "How far links that close a short dimension are shifted along each long one.")
    routing: Literal["dimension-order", "adaptive"] = _optional(
        "routing", "One dimension after the other, or any of the shortest ways, chosen by a flow's hash."
    )


class Tree(LinkParameters):
    """Cards below levels of switches that are joined by trunks of equal links."""

    kind: Literal["tree"]
    fanouts: Sizes = _optional("fanouts", "Switches, and finally cards, below each switch, from the root down.")
    oversubscription: Ratios = _optional(
        "oversubscription", "Links down over links up, for each level of switches below the root, from the cards up."
    )
    switching: Switching = _optional("switching", _SWITCHING)
    routing: Spreading = _optional("routing", _SPREADING)


class FatTree(LinkParameters):
    """The fat tree of equal switches: k cubed over 4 cards."""

    kind: Literal["fat_tree"]
    k: Count = _optional("k", "Ports of a switch, even.")
    switching: Switching = _optional("switching", _SWITCHING)
    routing: Spreading = _optional("routing", _SPREADING)


class DualPlane(LinkParameters):
    """Two independent planes of leaf and spine switches; each card has a port in both, cards of a rail share leaves."""

    kind: Literal["dual_plane"]
    nodes: Count = _optional("nodes", "Nodes, each with one card on every rail.")
    rails: Count = _optional("rails", "Rails; each has a leaf in each plane.")
    spines: Count = _optional("spines", "Spines of each plane; as many as nodes unless given.")
    routing: Spreading = _optional("routing", _SPREADING)


class Dragonfly(LinkParameters):
    """Groups of routers, wired to each other within the group and across all groups."""

    kind: Literal["dragonfly"]
    a: Count = _optional("a", "Routers in a group.")
    p: Count = _optional("p", "Cards on a router.")
    h: Count = _optional("h", "Links of a router to other groups.")
    switching: Switching = _optional("switching", _SWITCHING)


class Cascade(LinkParameters):
    """Supernodes, each a torus or a tree, joined by a layer of another network such as InfiniBand."""

    kind: Literal["cascade"]
    supernodes: Count = _optional("supernodes", "How many.")
    inside: Literal["torus", "tree"] = _optional("inside", "What each is.")
    shape: Sizes = _optional("shape", "Sizes of the torus, or fan-outs of the tree from the root down.")
    uplinks: Count = _optional("uplinks", "Links of each supernode to the layer; one for each line unless given.")
    uplink_rate_bps: Rate = _optional("uplink_rate", "Line rate of these, up to 1.6 Tbit/s.")
    uplink_delay_ns: Time = _optional("uplink_delay", "Their propagation delay, one way.")


Topology = Annotated[
    Union[Cascade, Chain, Dragonfly, DualPlane, Dumbbell, FatTree, Icgw, Single, Torus3d, Tree],  # noqa: UP007 - 3.10
    Field(discriminator="kind"),
]

TOPOLOGIES: dict[str, type[LinkParameters]] = {
    "cascade": Cascade,
    "chain": Chain,
    "dragonfly": Dragonfly,
    "dual_plane": DualPlane,
    "dumbbell": Dumbbell,
    "fat_tree": FatTree,
    "icgw": Icgw,
    "single": Single,
    "torus3d": Torus3d,
    "tree": Tree,
}
