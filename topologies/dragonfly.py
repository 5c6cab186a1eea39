"""The dragonfly (Kim, Dally, Scott and Abts, ISCA 2008): groups of routers, all wired together, and all groups too.

Router ``r<group>_<router>`` has *p* cards, a link to each of the other routers of its group, and *h* links to other
groups. With a·h + 1 groups there is one link between any two groups; which router has it follows the palm-tree
arrangement (Camarero, Vallejo and Beivide, Topological Characterization of Hamming and Dragonfly Networks, 2014): the
links of a group, counted over its routers, lead to the groups before it, one by one.

Routes are minimal: to the router that has the link to the other group, across, and on to the card's router. A path over
two global links may have fewer hops, but costs the scarce kind of link twice and is not taken.
"""

from __future__ import annotations

from itertools import combinations, product

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric, Link
from emulator.model.routing import Routing
from topologies import cards, checks
from topologies.minimal import MinimalTables, groups_by_address, minimal_routing
from topologies.prefixes import Layout

_GLOBAL_COST = 3
"""In local hops: two global links are always worse than one with local hops at both ends."""


def dragonfly(
    a: int = 4,
    p: int = 2,
    h: int = 2,
    switching: str = cards.ROUTED,
    rate_bps: int = cards.DEFAULT_RATE_BPS,
    delay_ns: int = cards.DEFAULT_DELAY_NS,
    mtu_bytes: int = checks.DEFAULT_MTU_BYTES,
    queue_packets: int | None = None,
    queue_bdp: float = 1.0,
    bdp_rtt_ns: int = checks.DEFAULT_BDP_RTT_NS,
    loss_ppm: int = 0,
    true_packets: bool = True,
) -> Fabric:
    """Build a dragonfly of a·h + 1 groups; it is balanced with a = 2p = 2h.

    Args:
        a: Routers in a group, 1 to 64.
        p: Cards on a router, 1 to 64.
        h: Links of a router to other groups, 1 to 64.
        switching: Whether routers are ``routed`` or ``openflow`` switches.
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
    for key, value in (("a", a), ("p", p), ("h", h)):
        checks.count(key, value, least=1, most=64)
    groups = a * h + 1
    cards.total("a", groups * a * p)
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
        "dragonfly",
        Layout.fit((groups, a, p)),
        a=a,
        p=p,
        h=h,
        switching=cards.choice("switching", switching, cards.SWITCHING),
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        mtu_bytes=mtu_bytes,
    )
    for group, router in product(range(groups), range(a)):
        builder.add_crossing(f"r{group}_{router}", tier=1)
    for group, router, card in product(range(groups), range(a), range(p)):
        name = f"c{group}_{router}_{card}"
        builder.add_card(name, (group, router, card))
        builder.add_link(name, f"r{group}_{router}", spec)
    for group in range(groups):
        for one, other in combinations(range(a), 2):
            builder.add_link(f"r{group}_{one}", f"r{group}_{other}", spec)
    for group, number in product(range(groups), range(a * h)):
        other, other_number = palm_tree(group, number, groups)
        if group < other:
            builder.add_link(f"r{group}_{number // h}", f"r{other}_{other_number // h}", spec)
    return builder.build()


def palm_tree(group: int, number: int, groups: int) -> tuple[int, int]:
    """Where a group's global link leads: the other group, and the link's number there."""
    return (group - 1 - number) % groups, groups - 2 - number


def dragonfly_routing(fabric: Fabric) -> Routing:
    """The routes of a `dragonfly` fabric with routed switches.

    Raises:
        TopologyError: The fabric is none.
    """
    if fabric.name != "dragonfly" or fabric.switches:
        raise TopologyError(f"{fabric.name} is no dragonfly of routed switches")
    a, p, h = (cards.number(fabric, key) for key in "aph")
    layout = Layout.fit((a * h + 1, a, p))
    group_bits = sum(layout.widths[1:])
    groups = groups_by_address(fabric, layout.widths[-1])
    group_of = {group.edges[0]: group.key >> (group_bits - layout.widths[-1]) for group in groups}

    def cost(link: Link) -> int:
        return 1 if group_of[link.a] == group_of[link.b] else _GLOBAL_COST

    tables = MinimalTables(fabric, groups, layout.widths[-1], cards.ECMP, cost)
    return minimal_routing(fabric, tables, "minimal")
