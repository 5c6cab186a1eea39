"""Supernodes side by side, joined by a layer of another network, for example InfiniBand.

Inside, every supernode is a torus or a tree. Its *uplinks* leave at cards spread evenly over a torus, or at the root of
a tree; uplink number i of every supernode goes to switch ``i<i>``, so that every switch joins all supernodes and the
layer has no path longer than one switch. A torus card sends what leaves the supernode to the uplink card of its block,
the cards around it that come after it in the order of coordinates; it enters the other supernode at the same place.

Card ``c<supernode>_<x>_<y>_<z>`` has an address whose fields, the supernode first, are as short as the sizes allow.
"""

from __future__ import annotations

from math import prod

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric, Node, Role
from emulator.model.routing import Route, Routing
from topologies import cards, checks
from topologies.lattice import Lattice, Place
from topologies.minimal import EVERYWHERE, MinimalTables, groups_by_address, minimal_routing
from topologies.prefixes import Layout, routes
from topologies.torus import DIMENSION_ORDER, TorusTables, add_links
from topologies.tree import add_tree, card_name, trunks

TORUS, TREE = INSIDE = ("torus", "tree")
DEFAULT_UPLINK_RATE_BPS = 400_000_000_000
"""InfiniBand NDR."""
DEFAULT_UPLINK_DELAY_NS = 500


def cascade(
    supernodes: int = 2,
    inside: str = TORUS,
    shape: str = "4x4x4",
    uplinks: int | None = None,
    uplink_rate_bps: int = DEFAULT_UPLINK_RATE_BPS,
    uplink_delay_ns: int = DEFAULT_UPLINK_DELAY_NS,
    rate_bps: int = cards.DEFAULT_RATE_BPS,
    delay_ns: int = cards.DEFAULT_DELAY_NS,
    mtu_bytes: int = checks.DEFAULT_MTU_BYTES,
    queue_packets: int | None = None,
    queue_bdp: float = 1.0,
    bdp_rtt_ns: int = checks.DEFAULT_BDP_RTT_NS,
    loss_ppm: int = 0,
    true_packets: bool = True,
) -> Fabric:
    """Build supernodes and the layer that joins them.

    Args:
        supernodes: How many, 2 to 64.
        inside: What each is: a ``torus``, or a ``tree`` without oversubscription.
        shape: Sizes of the torus in each dimension, or fan-outs of the tree from the root down, such as ``8x8x8``.
        uplinks: Links of each supernode to the layer, 1 to 512; in a torus they must divide it into equal blocks of
            whole lines or parts of a line. None: one for each line of cards along the last dimension.
        uplink_rate_bps: Line rate of these in bit/s.
        uplink_delay_ns: Their propagation delay in ns, one way, with what adapters and switches there add.
        rate_bps: Line rate of each link inside in bit/s.
        delay_ns: Propagation delay of each link inside in ns, one way.
        mtu_bytes: Largest IP packet.
        queue_packets: Packets that may wait for a line; None: see *queue_bdp*.
        queue_bdp: The same in bandwidth-delay products of *bdp_rtt_ns*.
        bdp_rtt_ns: Round-trip time that one bandwidth-delay product refers to, in ns.
        loss_ppm: Random loss on each link in parts per million.
        true_packets: Whether no packet on a line is larger than the MTU.

    Raises:
        TopologyError: A parameter out of range, a supernode of one card, or uplinks that do not divide a torus evenly.
    """
    checks.count("supernodes", supernodes, least=2, most=64)
    cards.choice("inside", inside, INSIDE)
    sizes = cards.shape("shape", shape)
    if prod(sizes) < 2:
        raise TopologyError(f"{shape} is a single card, and no supernode: at least 2", key="shape")
    cards.total("shape", supernodes * prod(sizes))
    uplinks = checks.count("uplinks", prod(sizes[:-1]) if uplinks is None else uplinks, least=1, most=512)
    properties = {
        "mtu_bytes": mtu_bytes,
        "queue_packets": queue_packets,
        "queue_bdp": queue_bdp,
        "bdp_rtt_ns": bdp_rtt_ns,
        "loss_ppm": loss_ppm,
        "true_packets": true_packets,
    }
    near = checks.link_spec(rate_bps=rate_bps, delay_ns=delay_ns, **properties)
    checks.count("uplink_delay_ns", uplink_delay_ns, least=0, most=10**10)
    far = checks.link_spec(rate_bps=uplink_rate_bps, delay_ns=uplink_delay_ns, **properties)
    builder = cards.CardBuilder(
        "cascade",
        Layout.fit((supernodes, *sizes)),
        supernodes=supernodes,
        inside=inside,
        shape=shape,
        uplinks=uplinks,
        uplink_rate_bps=uplink_rate_bps,
        uplink_delay_ns=uplink_delay_ns,
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        mtu_bytes=mtu_bytes,
    )
    for number in range(uplinks):
        builder.add_crossing(f"i{number}", tier=-len(sizes) if inside == TREE else 0)
    for supernode in range(supernodes):
        if inside == TREE:
            leaving = [add_tree(builder, sizes, trunks(sizes, "1"), near, (supernode,))] * uplinks
        else:
            lattice = Lattice(sizes)
            for place in lattice.places():
                builder.add_card(card_name((supernode, *place)), (supernode, *place), zone=f"s{supernode}")
            add_links(builder, lattice, near, (supernode,))
            leaving = [card_name((supernode, *place)) for place in exits(sizes, uplinks)]
        for number, name in enumerate(leaving):
            builder.add_link(name, f"i{number}", far)
    return builder.build()


def exits(sizes: Place, uplinks: int) -> list[Place]:
    """Cards of a torus that have an uplink: the first of each block.

    Raises:
        TopologyError: Blocks would not be parts of a line, or whole lines, planes and so on.
    """
    total = prod(sizes)
    block = total // uplinks if total % uplinks == 0 else 0
    rest = block
    for size in reversed(sizes):
        if rest and rest < size and size % rest == 0:
            rest = 1
        elif rest and rest % size == 0:
            rest //= size
    if rest != 1:
        raise TopologyError(
            f"{uplinks} do not divide {'x'.join(map(str, sizes))} cards into even blocks", key="uplinks"
        )
    return [_place(sizes, number * block) for number in range(uplinks)]


def _place(sizes: Place, index: int) -> Place:
    place = []
    for size in reversed(sizes):
        index, value = divmod(index, size)
        place.append(value)
    return tuple(reversed(place))


def cascade_routing(fabric: Fabric) -> Routing:
    """The routes of a `cascade` fabric.

    Raises:
        TopologyError: The fabric is none.
    """
    if fabric.name != "cascade":
        raise TopologyError(f"{fabric.name} is no cascade")
    supernodes, uplinks = cards.number(fabric, "supernodes"), cards.number(fabric, "uplinks")
    sizes = cards.shape("shape", cards.word(fabric, "shape"))
    layout = Layout.fit((supernodes, *sizes))
    if cards.word(fabric, "inside") == TREE:
        host_bits = layout.widths[-1]
        tables = MinimalTables(fabric, groups_by_address(fabric, host_bits), host_bits, cards.ECMP)
        return minimal_routing(fabric, tables, cards.ECMP)
    lattice = Lattice(sizes)
    torus = TorusTables(lattice, layout, DIMENSION_ORDER)
    block = lattice.cards // uplinks
    # Links to a switch of the layer were added in the order of supernodes, and so are its ports.
    from_layer = routes({number + 1: (number,) for number in range(supernodes)}, layout.widths[0])

    def table(node: Node) -> list[Route]:
        if node.role is Role.FORWARDER or node.ip is None:
            return from_layer
        place = layout.values(node.ip.ip)
        here = place[1:]
        leaving = _place(sizes, lattice.index(here) // block * block)
        # The uplink is the port after those of the torus.
        out = (len(lattice.directions),) if here == leaving else torus.ports(here, leaving)
        return [Route(EVERYWHERE, out), *torus.table(place)]

    return Routing(fabric, DIMENSION_ORDER, table)
