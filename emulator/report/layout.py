"""Where nodes go in a fabric's picture: tiers from top to bottom, hosts under their switch, zones side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emulator.model.fabric import Fabric, Node

HOST_GAP, HOST_HEIGHT, TIER_GAP = 90.0, 54.0, 124.0
LEAF_GAP, ZONE_GAP, MARGIN = 34.0, 70.0, 24.0
ZONE_TITLE = 26.0
MOST_LABELLED_HOSTS = 48
SMALL_GAP = 14.0


@dataclass(frozen=True)
class Zone:
    """The box of a zone: name, left edge, right edge."""

    name: str
    left: float
    right: float


@dataclass(frozen=True)
class Layout:
    """Positions in pixels.

    Attributes:
        width, height: Of the picture.
        places: Centre of each node.
        zones: Boxes around zones; empty if there is one zone only.
        labelled: Whether hosts are few enough to carry their names.
    """

    width: float
    height: float
    places: Mapping[str, tuple[float, float]]
    zones: Sequence[Zone]
    labelled: bool


def lay_out(fabric: Fabric) -> Layout:
    """Place all nodes of a fabric."""
    labelled = len(fabric.hosts) <= MOST_LABELLED_HOSTS
    gap = HOST_GAP if labelled else SMALL_GAP
    home = _homes(fabric)
    top_tier = min((node.tier for node in fabric.nodes), default=0)
    zones = list(dict.fromkeys(node.zone for node in fabric.nodes))
    boxed = len(zones) > 1
    top = MARGIN + (ZONE_TITLE if boxed else 0) + HOST_HEIGHT / 2
    places: dict[str, tuple[float, float]] = {}
    boxes: list[Zone] = []
    x = MARGIN
    for zone in zones:
        nodes = [node for node in fabric.nodes if node.zone == zone]
        left = x
        x = _place_zone(nodes, home, places, left + (MARGIN if boxed else 0), gap)
        right = x + (MARGIN if boxed else 0)
        _spread(nodes, places, left, right)
        boxes.append(Zone(zone, left, right))
        x = right + ZONE_GAP
    width = (boxes[-1].right if boxes else 0) + MARGIN
    places = {
        name: (column, top + (fabric.by_name[name].tier - top_tier) * TIER_GAP) for name, (column, _) in places.items()
    }
    height = max((row for _, row in places.values()), default=0) + HOST_HEIGHT / 2 + MARGIN + (MARGIN if boxed else 0)
    return Layout(width, height, places, boxes if boxed else (), labelled)


def _homes(fabric: Fabric) -> dict[str, str]:
    """The switch under which each host is drawn: the first that it is linked to."""
    homes: dict[str, str] = {}
    for link in fabric.links:
        for here, there in ((link.a, link.b), (link.b, link.a)):
            if not fabric.by_name[here].is_switch and fabric.by_name[there].is_switch:
                homes.setdefault(here, there)
    return homes


def _place_zone(
    nodes: Sequence[Node], home: Mapping[str, str], places: dict[str, tuple[float, float]], left: float, gap: float
) -> float:
    """Place hosts in groups under their switches, and those switches in the middle; return the right edge."""
    x = left
    owners = [node.name for node in nodes if node.is_switch and node.name in home.values()]
    lonely = [node.name for node in nodes if not node.is_switch and node.name not in home]
    tiers = {node.tier for node in nodes if node.name in owners}
    between = sum(node.is_switch and node.tier in tiers and node.name not in owners for node in nodes)
    leaf_gap = LEAF_GAP + between * HOST_GAP / max(1, len(owners) - 1)
    for owner in owners:
        group = [node.name for node in nodes if home.get(node.name) == owner]
        width = max(len(group), 1) * gap
        for position, name in enumerate(group):
            places[name] = (x + (position + 0.5) * gap, 0.0)
        places[owner] = (x + width / 2, 0.0)
        x += width + leaf_gap
    for name in lonely:
        places[name] = (x + gap / 2, 0.0)
        x += gap + leaf_gap
    widest = max(Counter(node.tier for node in nodes if node.is_switch).values(), default=1)
    return max(x - leaf_gap, left + widest * HOST_GAP)


def _spread(nodes: Sequence[Node], places: dict[str, tuple[float, float]], left: float, right: float) -> None:
    """Place switches without hosts evenly, tier by tier: between those with hosts, as in a chain, else all over."""
    rest = [node for node in nodes if node.name not in places]
    for tier in sorted({node.tier for node in rest}):
        row = [node.name for node in rest if node.tier == tier]
        taken = sorted(places[n.name][0] for n in nodes if n.is_switch and n.tier == tier and n.name in places)
        between = len(taken) > 1
        first, last = (taken[0], taken[-1]) if between else (left, right)
        for position, name in enumerate(row):
            share = (position + 1) / (len(row) + 1) if between else (position + 0.5) / len(row)
            places[name] = (first + (last - first) * share, 0.0)
