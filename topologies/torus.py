"""A torus of cards wired to each other: no switches, every card forwards for the others.

Card ``c<x>_<y>_<z>`` has the address 10.x.y.z with every coordinate counted from one. Its ports are, in this order, up
and down in x, y and z; a dimension of two cards has one link, one of a single card none.

Routes are a dozen prefixes a card with dimension-order routing in a straight torus: each dimension needs the few
prefixes that tell one half of the ring from the other. Adaptive routing gives every flow one of all shortest ways by
its hash, and a twisted torus has no coordinates that can be corrected one by one; both need more prefixes, up to one
for each card.

About deadlock: tori of lossless links deadlock when packets wait for each other in a circle, which is why their routers
have virtual channels or a dateline (Dally and Seitz, 1987), twisted tori more than others. Links here drop when a queue
is full, they never make a neighbour wait; so no circle of waiting can form, whatever the routes. What can go wrong
instead is loss under load, and packets that circle if routes are wrong; shortest ways get closer with every hop.
"""

from __future__ import annotations

from functools import lru_cache

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric, LinkSpec, Node
from emulator.model.routing import Route, Routing
from topologies import cards, checks
from topologies.lattice import Direction, Lattice, Place
from topologies.prefixes import BITS, Layout, compress, network, routes

DIMENSION_ORDER, ADAPTIVE = ROUTINGS = ("dimension-order", "adaptive")
_MOST = 64


def torus3d(
    x: int = 4,
    y: int = 4,
    z: int = 4,
    twist: int = 0,
    routing: str = DIMENSION_ORDER,
    rate_bps: int = cards.DEFAULT_RATE_BPS,
    delay_ns: int = cards.DEFAULT_DELAY_NS,
    mtu_bytes: int = checks.DEFAULT_MTU_BYTES,
    queue_packets: int | None = None,
    queue_bdp: float = 1.0,
    bdp_rtt_ns: int = checks.DEFAULT_BDP_RTT_NS,
    loss_ppm: int = 0,
    true_packets: bool = True,
) -> Fabric:
    """Build a torus of *x* times *y* times *z* cards; flat tori have a dimension of 1.

    Args:
        x: Cards in the first dimension, 1 to 64.
        y: Cards in the second dimension, 1 to 64.
        z: Cards in the third dimension, 1 to 64.
        twist: How far links that close a short dimension are shifted along each long one; 0: a straight torus.
            Twisted ones have exactly two different sizes; with a twist of k, k times k times 2k is that of TPU v4.
        routing: By ``dimension-order``, or ``adaptive``: by any of the shortest ways, chosen by a flow's hash.
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
    shape = tuple(checks.count(key, size, least=1, most=_MOST) for key, size in (("x", x), ("y", y), ("z", z)))
    checks.count("twist", twist, least=0, most=_MOST)
    lattice = Lattice(shape, twist)
    cards.total("x", lattice.cards)
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
        "torus3d",
        Layout.fit(shape),
        x=x,
        y=y,
        z=z,
        twist=twist,
        routing=cards.choice("routing", routing, ROUTINGS),
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        mtu_bytes=mtu_bytes,
    )
    for place in lattice.places():
        builder.add_card(card_name(place), place)
    add_links(builder, lattice, spec)
    return builder.build()


def card_name(place: Place) -> str:
    """Name of a card, from its coordinates, the supernode's number first if there are several."""
    return "c" + "_".join(map(str, place))


def add_links(builder: cards.CardBuilder, lattice: Lattice, spec: LinkSpec, within: Place = ()) -> None:
    """Wire the cards of a torus to each other.

    Args:
        builder: Has the cards.
        lattice: Their places.
        spec: Of every link.
        within: Coordinates that come before those of the torus in the cards' names.
    """
    port = {direction: number for number, direction in enumerate(lattice.directions)}
    for place in lattice.places():
        for direction in lattice.directions:
            if direction.sign < 0:
                continue
            there = lattice.neighbour(place, direction)
            back = Direction(direction.dimension, -1)
            if back not in port:  # one link between the two
                back = direction
                if there < place:
                    continue
            builder.add_link(
                card_name(within + place), card_name(within + there), spec, ports=(port[direction], port[back])
            )


def torus3d_routing(fabric: Fabric) -> Routing:
    """The routes of a `torus3d` fabric.

    Raises:
        TopologyError: The fabric is none.
    """
    if fabric.name != "torus3d":
        raise TopologyError(f"{fabric.name} is no torus3d")
    shape = tuple(cards.number(fabric, key) for key in "xyz")
    lattice, layout = Lattice(shape, cards.number(fabric, "twist")), Layout.fit(shape)
    policy = cards.word(fabric, "routing")
    tables = TorusTables(lattice, layout, policy)

    def table(node: Node) -> list[Route]:
        if node.ip is None:
            raise TopologyError(f"{node.name} has no address")
        return tables.table(layout.values(node.ip.ip))

    return Routing(fabric, policy, table)


class TorusTables:
    """Routing tables of the cards of a torus.

    Args:
        lattice: The torus.
        layout: Of addresses; the torus's coordinates are the last fields.
        policy: ``dimension-order`` or ``adaptive``.
    """

    def __init__(self, lattice: Lattice, layout: Layout, policy: str) -> None:
        self._lattice = lattice
        self._layout = layout
        self._policy = policy
        self._port = {direction: number for number, direction in enumerate(lattice.directions)}
        self._ring = lru_cache(maxsize=None)(self._ring_covers)

    def table(self, place: Place) -> list[Route]:
        """Routes of a card to all others of its torus.

        Args:
            place: Its coordinates, with those of the supernode first if the layout has them.
        """
        if self._policy == DIMENSION_ORDER and not self._lattice.twist:
            return self._by_dimension(place)
        within = len(place) - len(self._lattice.shape)
        here = place[within:]
        return routes(
            {
                self._layout.key(place[:within] + there): self.ports(here, there)
                for there in self._lattice.places()
                if there != here
            }
        )

    def ports(self, here: Place, there: Place) -> tuple[int, ...]:
        """Ports by which a card sends packets for another one on."""
        if self._policy == ADAPTIVE:
            return tuple(self._port[way] for way in self._lattice.ways(here, there))
        return (self._port[self._lattice.next(here, there)],)

    def _by_dimension(self, place: Place) -> list[Route]:
        """Routes that correct one coordinate after the other; the card's own coordinate leads to the next one."""
        within = len(place) - len(self._lattice.shape)
        table: list[Route] = []
        for dimension, here in enumerate(place[within:]):
            fields = within + dimension
            before = self._layout.bits_of(fields)
            common = self._layout.key(place) >> (BITS - before)
            for key, length, port in self._ring(dimension, here, self._layout.widths[fields]):
                table.append(Route(network(common << length | key, before + length), (port,)))
        return table

    def _ring_covers(self, dimension: int, here: int, width: int) -> list[tuple[int, int, int]]:
        """First bits, their number and port, for the coordinates of one dimension except the card's own."""
        own = -1
        place = [0] * len(self._lattice.shape)
        place[dimension] = here
        actions: dict[int, int] = {}
        for value in range(self._lattice.shape[dimension]):
            there = list(place)
            there[dimension] = value
            if value != here:
                actions[value + 1] = self._port[self._lattice.next(tuple(place), tuple(there))]
        if actions:
            actions[here + 1] = own  # last, so that it is no default
        return [(cover.key, cover.length, cover.action) for cover in compress(actions, width) if cover.action != own]
