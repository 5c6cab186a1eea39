"""The reference fabric: leaf-spine with GPU, compute, gateway and storage nodes in two zones.

::

    zone a                               zone b
      spa1 ═══════ zone link ═══════════ spb1
       │  ╲ spa2 ═══ zone link ═══ spb2 ╱ │        every leaf to every spine of its zone
      la1   la2   la3                    lb1
      g1…   c1…   s1 s3 …                s2 s4 …
            gw1…
            r1

Storage nodes alternate between the zones, so s1 is in zone a and s2, if there is one, in zone b. Zone b exists only if
a storage node is in it. The VPC router r1 and the gateways sit with the compute nodes on la2. All addresses are
``10.<zone>.<role>.<number>/8``: one subnet, as within one VPC.
"""

from __future__ import annotations

from emulator.model.fabric import Fabric, FabricBuilder, Role
from topologies import checks

DEFAULT_ZONE_DELAY_NS = 250_000
"""About 50 km of fibre at 5 us/km."""

_ROLE_NUMBER = {Role.GPU: 1, Role.COMPUTE: 2, Role.GATEWAY: 3, Role.STORAGE: 4, Role.ROUTER: 5}
_ZONE_NUMBER = {"a": 1, "b": 2}
_MOST = 250


def icgw(
    gpus: int = 4,
    compute: int = 2,
    gateways: int = 1,
    storage: int = 2,
    spines: int = 2,
    rate_bps: int = checks.DEFAULT_RATE_BPS,
    delay_ns: int = checks.DEFAULT_DELAY_NS,
    zone_delay_ns: int = DEFAULT_ZONE_DELAY_NS,
    mtu_bytes: int = checks.DEFAULT_MTU_BYTES,
    queue_packets: int | None = None,
    queue_bdp: float = 1.0,
    bdp_rtt_ns: int = checks.DEFAULT_BDP_RTT_NS,
    loss_ppm: int = 0,
    true_packets: bool = True,
    storage_share: float | None = None,
) -> Fabric:
    """Build the reference fabric; both designs run on the same one.

    Args:
        gpus: GPU nodes g1…, 1 to 250.
        compute: General compute nodes c1…, 1 to 250.
        gateways: Gateway nodes gw1…, 1 to 250.
        storage: Storage nodes s1…, 1 to 250.
        spines: Spine switches in each zone, 1 to 16.
        rate_bps: Line rate of each link in bit/s.
        delay_ns: Propagation delay of a link within a zone in ns, one way.
        zone_delay_ns: Propagation delay of a link between the zones in ns, one way.
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
    counts = {"gpus": gpus, "compute": compute, "gateways": gateways, "storage": storage}
    for key, value in counts.items():
        checks.count(key, value, least=1, most=_MOST)
    checks.count("spines", spines, least=1, most=16)
    properties = {
        "rate_bps": rate_bps,
        "mtu_bytes": mtu_bytes,
        "queue_packets": queue_packets,
        "queue_bdp": queue_bdp,
        "bdp_rtt_ns": bdp_rtt_ns,
        "loss_ppm": loss_ppm,
        "true_packets": true_packets,
        "storage_share": storage_share,
    }
    near = checks.link_spec(delay_ns=delay_ns, **properties)
    checks.count("zone_delay_ns", zone_delay_ns, least=0, most=10 * 10**9)
    far = checks.link_spec(delay_ns=zone_delay_ns, **properties)

    builder = FabricBuilder(
        "icgw", **counts, spines=spines, rate_bps=rate_bps, delay_ns=delay_ns, zone_delay_ns=zone_delay_ns,
        mtu_bytes=mtu_bytes,
    )  # fmt: skip
    leaves = {"a": ["la1", "la2", "la3"], "b": ["lb1"] if storage >= 2 else []}
    zones = [zone for zone, names in leaves.items() if names]
    for zone in zones:
        for n in range(1, spines + 1):
            builder.add_switch(f"sp{zone}{n}", zone=zone, tier=0)
        for leaf in leaves[zone]:
            builder.add_switch(leaf, zone=zone, tier=1)

    hosts: list[tuple[str, Role, str, str, int]] = [
        *((f"g{n}", Role.GPU, "a", "la1", n) for n in range(1, gpus + 1)),
        *((f"c{n}", Role.COMPUTE, "a", "la2", n) for n in range(1, compute + 1)),
        *((f"gw{n}", Role.GATEWAY, "a", "la2", n) for n in range(1, gateways + 1)),
        ("r1", Role.ROUTER, "a", "la2", 1),
        *(
            (f"s{n}", Role.STORAGE, "a", "la3", n) if n % 2 else (f"s{n}", Role.STORAGE, "b", "lb1", n)
            for n in range(1, storage + 1)
        ),
    ]
    for name, role, zone, leaf, number in hosts:
        address = f"10.{_ZONE_NUMBER[zone]}.{_ROLE_NUMBER[role]}.{number}/8"
        builder.add_host(name, address, role=role, zone=zone)
        builder.add_link(name, leaf, near)
    for zone in zones:
        for leaf in leaves[zone]:
            for n in range(1, spines + 1):
                builder.add_link(leaf, f"sp{zone}{n}", near)
    if len(zones) == 2:
        for n in range(1, spines + 1):
            builder.add_link(f"spa{n}", f"spb{n}", far)
    return builder.build()
