"""A tree of switches with cards as its leaves, and trunks of equal links between the levels.

A switch's trunk upwards has as many links as its links downwards, divided by the level's oversubscription. With ratios
of 1 this is Leiserson's fat tree; with a ratio that leaves one link it is a plain tree.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric, LinkSpec
from emulator.model.routing import Routing
from topologies import cards, checks
from topologies.minimal import MinimalTables, groups_by_address, minimal_routing
from topologies.prefixes import Layout


def tree(
    fanouts: str = "4x4x4",
    oversubscription: str = "1",
    switching: str = cards.ROUTED,
    routing: str = cards.ECMP,
    rate_bps: int = cards.DEFAULT_RATE_BPS,
    delay_ns: int = cards.DEFAULT_DELAY_NS,
    mtu_bytes: int = checks.DEFAULT_MTU_BYTES,
    queue_packets: int | None = None,
    queue_bdp: float = 1.0,
    bdp_rtt_ns: int = checks.DEFAULT_BDP_RTT_NS,
    loss_ppm: int = 0,
    true_packets: bool = True,
) -> Fabric:
    """Build a tree: with fan-outs 8x8x4, a root with 8 switches, each with 8 switches, each with 4 cards.

    Args:
        fanouts: Switches, and finally cards, below each switch, from the root down.
        oversubscription: Links down over links up, for each level of switches below the root, from the cards up, such
            as ``1x4`` or ``1x32/7``; levels that are not given have 1.
        switching: Whether switches are ``routed`` or ``openflow``.
        routing: How routed switches use the links of a trunk: ``ecmp`` or ``static``.
        rate_bps: Line rate of each link in bit/s.
        delay_ns: Propagation delay of each link in ns, one way.
        mtu_bytes: Largest IP packet.
        queue_packets: Packets that may wait for a line; None: see *queue_bdp*.
        queue_bdp: The same in bandwidth-delay products of *bdp_rtt_ns*.
        bdp_rtt_ns: Round-trip time that one bandwidth-delay product refers to, in ns.
        loss_ppm: Random loss on each link in parts per million.
        true_packets: Whether no packet on a line is larger than the MTU.

    Raises:
        TopologyError: A parameter out of range, or a ratio that leaves a part of a link.
    """
    levels = cards.shape("fanouts", fanouts)
    cards.total("fanouts", prod(levels))
    spec = checks.link_spec(
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        mtu_bytes=mtu_bytes,
        queue_packets=queue_packets,
        queue_bdp=queue_bdp,
        bdp_rtt_ns=bdp_rtt_ns,
        loss_ppm=loss_ppm,
        true_packets=true_packets,
    )
    layout = Layout.fit(levels)
    builder = cards.CardBuilder(
        "tree",
        layout,
        fanouts=fanouts,
        oversubscription=oversubscription,
        switching=cards.choice("switching", switching, cards.SWITCHING),
        routing=cards.choice("routing", routing, cards.SPREADING),
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        mtu_bytes=mtu_bytes,
    )
    add_tree(builder, levels, trunks(levels, oversubscription), spec)
    return builder.build()


def trunks(fanouts: tuple[int, ...], oversubscription: str) -> tuple[int, ...]:
    """Links between each level and the next, from the root down; the last are the cards'.

    Raises:
        TopologyError: A ratio leaves a part of a link.
    """
    links = [1]
    for fanout, ratio in zip(
        reversed(fanouts[1:]), cards.ratios("oversubscription", oversubscription, len(fanouts) - 1), strict=True
    ):
        up = Fraction(fanout * links[-1]) / ratio
        if up.denominator != 1:
            raise TopologyError(
                f"{fanout * links[-1]} links down at {ratio}:1 make {up} links up, not a whole number",
                key="oversubscription",
            )
        links.append(int(up))
    return tuple(reversed(links))


def add_tree(
    builder: cards.CardBuilder,
    fanouts: tuple[int, ...],
    links: tuple[int, ...],
    spec: LinkSpec,
    within: tuple[int, ...] = (),
) -> str:
    """Add a tree's switches, cards and links, and return the root's name.

    Args:
        builder: Where to.
        fanouts: From the root down.
        links: Links of each trunk, from the root down.
        spec: Of every link.
        within: Fields that come before the tree's in names and addresses.
    """
    zone = f"s{within[0]}" if within else "a"
    for level in range(len(fanouts)):
        for path in product(*map(range, fanouts[:level])):
            builder.add_crossing(switch_name(within, path), tier=level - len(fanouts) + 2, zone=zone)
    for place in product(*map(range, fanouts)):
        builder.add_card(card_name(within + place), within + place, zone=zone)
    for level, count in enumerate(links, start=1):
        for path in product(*map(range, fanouts[:level])):
            below = card_name(within + path) if level == len(fanouts) else switch_name(within, path)
            for _ in range(count):
                builder.add_link(below, switch_name(within, path[:-1]), spec)
    return switch_name(within, ())


def card_name(place: tuple[int, ...]) -> str:
    """Name of a card by its place."""
    return "c" + "_".join(map(str, place))


def switch_name(within: tuple[int, ...], path: tuple[int, ...]) -> str:
    """Name of a switch: ``t``, and the way from the root to it."""
    return "t" + "_".join(map(str, (*within, *path)))


def tree_routing(fabric: Fabric) -> Routing:
    """The routes of a `tree` fabric with routed switches.

    Raises:
        TopologyError: The fabric is none.
    """
    if fabric.name != "tree" or fabric.switches:
        raise TopologyError(f"{fabric.name} is no tree of routed switches")
    policy = cards.word(fabric, "routing")
    host_bits = Layout.fit(cards.shape("fanouts", cards.word(fabric, "fanouts"))).widths[-1]
    tables = MinimalTables(fabric, groups_by_address(fabric, host_bits), host_bits, policy)
    return minimal_routing(fabric, tables, policy)
