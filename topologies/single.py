"""Hosts on one switch: for scale tests."""

from __future__ import annotations

from dataclasses import replace

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric, FabricBuilder, LinkSpec
from topologies import checks


def single(
    hosts: int = 256,
    rate_bps: int = checks.DEFAULT_RATE_BPS,
    delay_ns: int = checks.DEFAULT_DELAY_NS,
    mtu_bytes: int = checks.DEFAULT_MTU_BYTES,
    queue_packets: int | None = None,
    queue_bdp: float = 1.0,
    bdp_rtt_ns: int = checks.DEFAULT_BDP_RTT_NS,
    loss_ppm: int = 0,
    true_packets: bool = True,
    storage_share: float | None = None,
    slow_hosts: int = 0,
    slow_rate_bps: int | None = None,
) -> Fabric:
    """Build hosts ``h1…`` on switch ``s1``.

    Args:
        hosts: How many, 1 to 4096.
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
        slow_hosts: So many of the last hosts have links of another rate.
        slow_rate_bps: That rate in bit/s.

    Raises:
        TopologyError: A parameter out of range.
    """
    checks.count("hosts", hosts, least=1, most=4096)
    checks.count("slow_hosts", slow_hosts, least=0, most=hosts)
    if bool(slow_hosts) != (slow_rate_bps is not None):
        raise TopologyError("slow hosts and their rate are given together", key="slow_hosts")
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
    slow = spec if slow_rate_bps is None else _with_rate(spec, slow_rate_bps)
    given = {"slow_hosts": slow_hosts, "slow_rate_bps": slow_rate_bps} if slow_hosts else {}
    builder = FabricBuilder("single", hosts=hosts, rate_bps=rate_bps, delay_ns=delay_ns, mtu_bytes=mtu_bytes, **given)
    builder.add_switch("s1")
    for n in range(1, hosts + 1):
        # 250 hosts to a byte, so that no address ends in 0 or 255.
        third, fourth = divmod(n - 1, 250)
        builder.add_host(f"h{n}", f"10.0.{third}.{fourth + 1}/8")
        builder.add_link(f"h{n}", "s1", slow if n > hosts - slow_hosts else spec)
    return builder.build()


def _with_rate(spec: LinkSpec, rate_bps: int) -> LinkSpec:
    try:
        return replace(spec, rate_bps=rate_bps)
    except TopologyError as error:
        raise TopologyError(error.reason, key="slow_rate_bps") from None
