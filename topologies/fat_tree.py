"""The k-ary fat tree (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008): equal switches of k ports, full bisection.

::

    k0 … k3            (k/2)² core switches; aggregation switch i of every pod is wired to core switches i·k/2 …
    a0_0 a0_1   …      k pods of k/2 aggregation switches
    e0_0 e0_1   …      and k/2 edge switches
    c0_0_0 …           with k/2 cards each
"""

from __future__ import annotations

from itertools import product

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric, Node
from emulator.model.routing import Routing
from topologies import cards, checks
from topologies.minimal import MinimalTables, groups_by_address, minimal_routing
from topologies.prefixes import Layout

_AGGREGATION_TIER = 0


def fat_tree(
    k: int = 4,
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
    """Build a fat tree of switches with *k* ports: k cubed over 4 cards.

    Args:
        k: Ports of a switch, even, 2 to 48.
        switching: Whether switches are ``routed`` or ``openflow``.
        routing: How routed switches use equal paths: ``ecmp`` or ``static``.
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
    checks.count("k", k, least=2, most=48)
    if k % 2:
        raise TopologyError(f"{k} is odd", key="k")
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
    half = k // 2
    builder = cards.CardBuilder(
        "fat_tree",
        Layout.fit((k, half, half)),
        k=k,
        switching=cards.choice("switching", switching, cards.SWITCHING),
        routing=cards.choice("routing", routing, cards.SPREADING),
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        mtu_bytes=mtu_bytes,
    )
    for core in range(half * half):
        builder.add_crossing(f"k{core}", tier=-1)
    for pod, row in product(range(k), range(half)):
        builder.add_crossing(f"a{pod}_{row}", tier=_AGGREGATION_TIER)
    for pod, row in product(range(k), range(half)):
        builder.add_crossing(f"e{pod}_{row}", tier=1)
    for pod, row, place in product(range(k), range(half), range(half)):
        name = f"c{pod}_{row}_{place}"
        builder.add_card(name, (pod, row, place))
        builder.add_link(name, f"e{pod}_{row}", spec)
    for pod, row, above in product(range(k), range(half), range(half)):
        builder.add_link(f"e{pod}_{row}", f"a{pod}_{above}", spec)
    for pod, row, above in product(range(k), range(half), range(half)):
        builder.add_link(f"a{pod}_{row}", f"k{row * half + above}", spec)
    return builder.build()


def fat_tree_routing(fabric: Fabric) -> Routing:
    """The routes of a `fat_tree` fabric with routed switches.

    Raises:
        TopologyError: The fabric is none.
    """
    if fabric.name != "fat_tree" or fabric.switches:
        raise TopologyError(f"{fabric.name} is no fat tree of routed switches")
    policy = cards.word(fabric, "routing")
    half = cards.number(fabric, "k") // 2
    host_bits = Layout.fit((2 * half, half, half)).widths[-1]

    def divisor(node: Node) -> int:
        # Edge switches have told destinations apart by their last digit already.
        return half if node.tier == _AGGREGATION_TIER else 1

    tables = MinimalTables(fabric, groups_by_address(fabric, host_bits), host_bits, policy, divisor=divisor)
    return minimal_routing(fabric, tables, policy)
