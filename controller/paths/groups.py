"""What one group holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from math import gcd

from controller.flows import Bucket, Group, GroupKind

_MOST_WEIGHT = 64


def failover_group(
    dpid: int, number: int, main: int | None, equal: Sequence[int], alternates: Sequence[int], target: str, plane: int
) -> Group:
    """A group that takes the plane's port, else the next of the equally good ones, else an alternate.

    Each equal port is followed by another one, so what several ports carried does not all fall to the same port.

    Args:
        dpid: The switch.
        number: Group id.
        main: The plane's port; None: there is no path, and packets are dropped.
        equal: All equally good ports, in order, the plane's among them.
        alternates: Further ports that lead nearer, best first. They all satisfy RFC 5286's inequality 1 (the
            neighbour's own way does not lead back here), and with the switches' order besides, which keeps them free of
            loops even if several links fail at once. So of two switches that are equally far only one may use the
            other.
        target: Where it leads, for people.
        plane: On which plane, for people.
    """
    note = f"to {target} on plane {plane}"
    if main is None:
        return Group(dpid, number, GroupKind.FAST_FAILOVER, (), note)
    turn = equal.index(main)
    ports = [*equal[turn:], *equal[:turn], *alternates]
    return Group(dpid, number, GroupKind.FAST_FAILOVER, _buckets(tuple(ports)), note)


@cache
def _bucket(port: int) -> Bucket:
    return Bucket(port)


@lru_cache(maxsize=1 << 16)
def _buckets(ports: tuple[int, ...]) -> tuple[Bucket, ...]:
    """Most groups of a switch have the same few lists of ports: there are millions of groups in a large fabric."""
    return tuple(map(_bucket, ports))


def select_group(dpid: int, number: int, rates_bps: Mapping[int, int], target: str) -> Group:
    """A group that spreads by the switch's hash over all equally good ports, in proportion to their links' rates."""
    note = f"to {target} over all equal paths"
    return Group(dpid, number, GroupKind.SELECT, weighted(rates_bps), note)


def weighted(rates_bps: Mapping[int, int]) -> tuple[Bucket, ...]:
    """Buckets with small whole weights in proportion to rates, 1 to 64; above that ratio the proportion is rounded."""
    if not rates_bps:
        return ()
    unit, most = gcd(*rates_bps.values()), max(rates_bps.values())
    if most // unit <= _MOST_WEIGHT:
        return tuple(Bucket(port, rate // unit) for port, rate in rates_bps.items())
    return tuple(Bucket(port, max(1, round(rate * _MOST_WEIGHT / most))) for port, rate in rates_bps.items())
