"""Pairs of hosts that share one bottleneck link: for fairness, incast and congestion control."""

from __future__ import annotations

from emulator.model.fabric import MAX_RATE_BPS, Aqm, Fabric, FabricBuilder, LinkSpec
from topologies import checks

EDGE_TO_BOTTLENECK = 4
"""How much faster the edge links are by default, so that only the bottleneck queues."""


def dumbbell(
    pairs: int = 2,
    rate_bps: int = checks.DEFAULT_RATE_BPS,
    edge_rate_bps: int | None = None,
    delay_ns: int = checks.DEFAULT_DELAY_NS,
    mtu_bytes: int = checks.DEFAULT_MTU_BYTES,
    queue_packets: int | None = None,
    queue_bdp: float = 1.0,
    bdp_rtt_ns: int = checks.DEFAULT_BDP_RTT_NS,
    aqm: Aqm | str = Aqm.DROP_TAIL,
    ecn_threshold_packets: int = LinkSpec.ecn_threshold_packets,
    loss_ppm: int = 0,
    true_packets: bool = True,
    storage_share: float | None = None,
) -> Fabric:
    """Build hosts ``l1…`` on switch ``s1`` and ``r1…`` on ``s2``, with the bottleneck between the switches.

    The queue, loss and marking parameters are the bottleneck's; edge links have the default queue at their own rate.

    Args:
        pairs: Hosts on either side, 1 to 250.
        rate_bps: Line rate of the bottleneck in bit/s.
        edge_rate_bps: Line rate of the other links; None: four times the bottleneck's, at most 1.6 Tbit/s.
        delay_ns: Propagation delay of each link in ns, one way.
        mtu_bytes: Largest IP packet.
        queue_packets: Packets that may wait for the bottleneck; None: see *queue_bdp*.
        queue_bdp: The same in bandwidth-delay products of *bdp_rtt_ns*.
        bdp_rtt_ns: Round-trip time that one bandwidth-delay product refers to, in ns.
        aqm: Drop-tail, or mark ECN-capable packets above a threshold (``ecn-threshold``), as DCTCP wants it.
        ecn_threshold_packets: Mark packets that find more than this many waiting.
        loss_ppm: Random loss on the bottleneck in parts per million.
        true_packets: Whether no packet on a line is larger than the MTU.
        storage_share: Part of the bottleneck for storage traffic when compute traffic wants it too; each then has a
            queue of its own. None: one queue for both.

    Raises:
        TopologyError: A parameter out of range.
    """
    checks.count("pairs", pairs, least=1, most=250)
    bottleneck = checks.link_spec(
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        mtu_bytes=mtu_bytes,
        queue_packets=queue_packets,
        queue_bdp=queue_bdp,
        bdp_rtt_ns=bdp_rtt_ns,
        aqm=aqm,
        ecn_threshold_packets=ecn_threshold_packets,
        loss_ppm=loss_ppm,
        true_packets=true_packets,
        storage_share=storage_share,
    )
    if edge_rate_bps is None:
        edge_rate_bps = min(EDGE_TO_BOTTLENECK * rate_bps, MAX_RATE_BPS)
    edge = checks.link_spec(
        rate_bps=edge_rate_bps, delay_ns=delay_ns, mtu_bytes=mtu_bytes, bdp_rtt_ns=bdp_rtt_ns, true_packets=true_packets
    )
    builder = FabricBuilder(
        "dumbbell", pairs=pairs, rate_bps=rate_bps, edge_rate_bps=edge_rate_bps, delay_ns=delay_ns, mtu_bytes=mtu_bytes
    )
    builder.add_switch("s1")
    builder.add_switch("s2")
    builder.add_link("s1", "s2", bottleneck)
    for side, prefix, switch in ((0, "l", "s1"), (1, "r", "s2")):
        for n in range(1, pairs + 1):
            builder.add_host(f"{prefix}{n}", f"10.0.{side}.{n}/8")
            builder.add_link(f"{prefix}{n}", switch, edge)
    return builder.build()
