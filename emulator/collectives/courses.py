"""Ways link by link, in the order in which they are crossed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from emulator.collectives.ways import WayTable
from emulator.model.fabric import Link

Hop = tuple[tuple[tuple[int, float], ...], float]
"""Links and directions as numbers (see `WayTable`) with the share of traffic on each, and their delay in ns."""


@dataclass(frozen=True)
class Course:
    """From one node to another.

    Attributes:
        hops: In the order in which they are crossed; several links of a hop are equal ways.
        payload_bytes: Most payload of a frame.
        around_bytes: What a frame has around it on the line.
    """

    hops: tuple[Hop, ...]
    payload_bytes: int
    around_bytes: int


def courses_of(ways: WayTable, sources: Sequence[str], links: Sequence[Link]) -> list[Course]:
    """The ways of pairs, link by link.

    Args:
        ways: Of the pairs.
        sources: Where each begins.
        links: Of the fabric.
    """
    passages, shares = ways.passages.tolist(), ways.shares.tolist()
    bounds = [*ways.begins.tolist(), len(passages)]
    payload, around = ways.payload_bytes.tolist(), ways.around_bytes.tolist()
    return [
        Course(_hops(source, passages[begin:end], shares[begin:end], links), payload[pair], around[pair])
        for pair, (source, (begin, end)) in enumerate(zip(sources, pairwise(bounds), strict=True))
    ]


def _hops(source: str, passages: list[int], shares: list[float], links: Sequence[Link]) -> tuple[Hop, ...]:
    hops: dict[int, list[tuple[int, float]]] = {}
    far = {source: 0}
    # Links come in the order in which traffic meets them, so that it is known how far the near end of each is.
    for number, share in zip(passages, shares, strict=True):
        link = links[number // 2]
        near, beyond = (link.b, link.a) if number % 2 else (link.a, link.b)
        far.setdefault(beyond, far[near] + 1)
        hops.setdefault(far[near], []).append((number, share))
    delays_ns = [float(max(links[number // 2].spec.delay_ns for number, _ in hop)) for hop in hops.values()]
    return tuple((tuple(hop), delay_ns) for hop, delay_ns in zip(hops.values(), delays_ns, strict=True))
