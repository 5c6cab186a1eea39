"""Two hosts with switches in a row between them: for line rate and latency over a number of hops."""

from __future__ import annotations

from itertools import pairwise

from emulator.model.fabric import Fabric, FabricBuilder
from topologies import checks


def chain(
    hops: int = 3,
    rate_bps: int = checks.DEFAULT_RATE_BPS,
    delay_ns: int = checks.DEFAULT_DELAY_NS,
    mtu_bytes: int = checks.DEFAULT_MTU_BYTES,
    queue_packets: int | None = None,
    queue_bdp: float = 1.0,
    bdp_rtt_ns: int = checks.DEFAULT_BDP_RTT_NS,
    loss_ppm: int = 0,
    true_packets: bool = True,
    storage_share: float | None = None,
) -> Fabric:
    """Build ``h0 - s1 - … - h1`` with *hops* equal links; one hop joins the hosts directly.

    Args:
        hops: Links between the two hosts, 1 to 64.
        rate_bps: Line rate of each link in bit/s.
        delay_ns: Propagation delay of each link in ns, one way.
        mtu_bytes: Largest IP packet.
        queue_packets: Packets that may wait for a line; None: see *queue_bdp*.
        queue_bdp: The same in bandwidth-delay products of *bdp_rtt_ns*.
        bdp_rtt_ns: Round-trip time that one bandwidth-delay product refers to, in ns.
        loss_ppm: Random loss on each link in parts per million.
        true_packets: Whether no packet on a line is larger than the MTU.
        storage_share: Part of each line for storage traffic when compute traffic wants it too; each then has a queue of
            its own. None: one queue for both.

    Raises:
        TopologyError: A parameter out of range.
    """
    checks.count("hops", hops, least=1, most=64)
    spec = checks.link_spec(
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        mtu_bytes=mtu_bytes,
        queue_packets=queue_packets,
        queue_bdp=queue_bdp,
        bdp_rtt_ns=bdp_rtt_ns,
        loss_ppm=loss_ppm,
        true_packets=true_packets,
        storage_share=storage_share,
    )
    builder = FabricBuilder("chain", hops=hops, rate_bps=rate_bps, delay_ns=delay_ns, mtu_bytes=mtu_bytes)
    builder.add_host("h0", "10.0.0.1/8")
    builder.add_host("h1", "10.0.0.2/8")
    switches = [f"s{n}" for n in range(1, hops)]
    for name in switches:
        builder.add_switch(name)
    row = ["h0", *switches, "h1"]
    for left, right in pairwise(row):
        builder.add_link(left, right, spec)
    return builder.build()
