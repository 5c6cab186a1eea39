"""Two independent planes of leaf and spine switches, by rails: each card has one port in each plane.

Card ``c<node>_<rail>`` is the rail-th card of a node. All cards of a rail hang on one leaf of each plane, so cards with
the same place in different nodes are one switch apart. Nothing joins the planes but the cards, which do not forward: a
fault in one plane leaves the other whole.

A card has three addresses. 10.1.rail.node is the card by either plane: the sender spreads flows over both.
10.2.rail.node and 10.3.rail.node are the card by the first and by the second plane only, for programs that want to
choose. Rails and nodes are counted from one in addresses, from zero in names.
"""

from __future__ import annotations

from itertools import product

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric, Node
from emulator.model.routing import Route, Routing
from topologies import cards, checks
from topologies.minimal import Group, MinimalTables, minimal_routing
from topologies.prefixes import Layout, network

PLANES = 2
_EITHER = 0
"""Value of the first address field for a card by any plane; the planes' own follow."""


def dual_plane(
    nodes: int = 8,
    rails: int = 8,
    spines: int | None = None,
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
    """Build *nodes* times *rails* cards on two planes of routed switches.

    Args:
        nodes: Nodes, each with one card on every rail, 2 to 250.
        rails: Rails, 1 to 64; each has one leaf in each plane.
        spines: Spines of each plane, each with one link to every leaf of its plane, up to 250; fewer than nodes is an
            oversubscription between rails. None: as many as nodes.
        routing: How switches use the spines: ``ecmp`` or ``static``.
        rate_bps: Line rate of each link in bit/s.
        delay_ns: Propagation delay of each link in ns, one way.
        mtu_bytes: Largest IP packet.
        queue_packets: Packets that may wait for a line; None: see *queue_bdp*.
        queue_bdp: The same in bandwidth-delay products of *bdp_rtt_ns*.
        bdp_rtt_ns: Round-trip time that one bandwidth-delay product refers to, in ns.
        loss_ppm: Random loss on each link in parts per million.
        true_packets: Whether no packet on a line is larger than the MTU.

    Raises:
        TopologyError: A parameter out of range.
    """
    checks.count("nodes", nodes, least=2, most=250)
    checks.count("rails", rails, least=1, most=64)
    spines = checks.count("spines", nodes if spines is None else spines, least=1, most=250)
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
    builder = cards.CardBuilder(
        "dual_plane",
        _layout(nodes, rails),
        nodes=nodes,
        rails=rails,
        spines=spines,
        routing=cards.choice("routing", routing, cards.SPREADING),
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        mtu_bytes=mtu_bytes,
    )
    for plane in range(PLANES):
        for spine in range(spines):
            builder.add_crossing(f"s{plane}_{spine}", tier=0)
        for rail in range(rails):
            builder.add_crossing(f"l{plane}_{rail}", tier=1)
    for node, rail in product(range(nodes), range(rails)):
        builder.add_card(f"c{node}_{rail}", (_EITHER, rail, node))
    for plane, node, rail in product(range(PLANES), range(nodes), range(rails)):
        builder.add_link(f"c{node}_{rail}", f"l{plane}_{rail}", spec)
    for plane, rail, spine in product(range(PLANES), range(rails), range(spines)):
        builder.add_link(f"l{plane}_{rail}", f"s{plane}_{spine}", spec)
    return builder.build()


def _layout(nodes: int, rails: int) -> Layout:
    return Layout.fit((1 + PLANES, rails, nodes))


def dual_plane_routing(fabric: Fabric) -> Routing:
    """The routes of a `dual_plane` fabric.

    Raises:
        TopologyError: The fabric is none.
    """
    if fabric.name != "dual_plane":
        raise TopologyError(f"{fabric.name} is no dual_plane")
    nodes, rails = cards.number(fabric, "nodes"), cards.number(fabric, "rails")
    policy, layout = cards.word(fabric, "routing"), _layout(nodes, rails)
    host_bits = layout.widths[-1]
    groups = [
        Group(
            layout.key((way, rail, 0)) >> host_bits,
            tuple(f"l{plane}_{rail}" for plane in range(PLANES) if way in (_EITHER, 1 + plane)),
            {node + 1: f"c{node}_{rail}" for node in range(nodes)},
        )
        for way in range(1 + PLANES)
        for rail in range(rails)
    ]
    aliases = {
        f"c{node}_{rail}": tuple(layout.address((1 + plane, rail, node)) for plane in range(PLANES))
        for node, rail in product(range(nodes), range(rails))
    }
    width = layout.widths[0]
    from_card = [
        Route(network(_EITHER + 1, width), tuple(range(PLANES))),
        *(Route(network(1 + plane + 1, width), (plane,)) for plane in range(PLANES)),
    ]

    def card_routes(_node: Node) -> list[Route]:
        return from_card

    tables = MinimalTables(fabric, groups, host_bits, policy)
    return minimal_routing(fabric, tables, policy, card_routes, aliases)
