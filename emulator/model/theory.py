"""Closed forms that measurements are held against. Pure functions; times in ns, rates in bit/s, sizes in bytes."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.model.fabric import ETHERNET_HEADER_BYTES, LinkSpec

IPV4_HEADER_BYTES = 20
ICMP_HEADER_BYTES = 8
TCP_HEADER_BYTES = 20
TCP_TIMESTAMP_BYTES = 12
"""The timestamps option with its padding (RFC 7323), on by default in Linux."""


def one_way_ns(path: Sequence[LinkSpec], frame_bytes: int) -> int:
    """Unloaded one-way time of a frame over store-and-forward links: serialization plus propagation on each."""
    return sum(spec.delay_ns + spec.serialization_ns(frame_bytes) for spec in path)


def ping_rtt_ns(path: Sequence[LinkSpec], payload_bytes: int = 56) -> int:
    """Unloaded round-trip time of an ICMP echo with the given payload."""
    frame = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES + ICMP_HEADER_BYTES + payload_bytes
    return 2 * one_way_ns(path, frame)


def tcp_goodput_bps(spec: LinkSpec) -> float:
    """Payload rate of a TCP flow that fills a link with full-size segments: what the headers leave of the line rate."""
    payload = spec.mtu_bytes - IPV4_HEADER_BYTES - TCP_HEADER_BYTES - TCP_TIMESTAMP_BYTES
    return spec.rate_bps * payload / (spec.mtu_bytes + ETHERNET_HEADER_BYTES + spec.overhead_bytes)


def md1_mean_wait_ns(load: float, service_ns: float) -> float:
    """Mean wait in queue of an M/D/1 system: ``rho * s / (2 (1 - rho))`` (Pollaczek-Khinchine with zero variance)."""
    if not 0 <= load < 1:
        raise ValueError(f"a load of {load} has no steady state")
    return load * service_ns / (2 * (1 - load))


def jain_index(shares: Sequence[float]) -> float:
    """Jain's fairness index: 1 when all shares are equal, 1/n when one has everything (Jain, Chiu, Hawe 1984)."""
    if not shares or not any(shares):
        raise ValueError("fairness of nothing is undefined")
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
