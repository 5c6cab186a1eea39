"""What the supernode topologies share: defaults, shapes in words, cards and the switches between them.

Switches are forwarders by default: namespaces that route by prefixes, with nothing running in them. One costs what a
card costs, needs no daemon and no controller, forwards at the first packet, and spreads flows over equal paths, as
routed data-centre fabrics do. Open vSwitch (``switching=openflow``) costs a bridge, a controller connection and flows
for every pair of ends, but a controller can then steer; it is for up to a few hundred cards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from ipaddress import IPv4Address

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric, FabricBuilder, Role
from topologies import checks
from topologies.prefixes import Layout

DEFAULT_RATE_BPS = 1_280_000_000_000
"""160 GB/s in each direction."""
DEFAULT_DELAY_NS = 800
MOST_CARDS = 32_768

ROUTED, OPENFLOW = SWITCHING = ("routed", "openflow")
ECMP, STATIC = SPREADING = ("ecmp", "static")
"""How routed switches use equal paths: by a hash of the flow, or by destination, each its own (D-mod-k)."""

_FIRST_FORWARDER = int(IPv4Address("172.16.0.1"))


def choice(key: str, value: str, options: Sequence[str]) -> str:
    """Check a word.

    Raises:
        TopologyError: It is none of the options; names the parameter *key*.
    """
    if value not in options:
        raise TopologyError(f"{value!r} is none of {', '.join(options)}", key=key)
    return value


def shape(key: str, text: str, *, most: int = 512) -> tuple[int, ...]:
    """Read sizes such as ``8x8x4``.

    Raises:
        TopologyError: Not sizes joined by x, or one out of range; names the parameter *key*.
    """
    if not isinstance(text, str) or not re.fullmatch(r"\d{1,6}(x\d{1,6}){0,5}", text):
        raise TopologyError(f"{text!r} is no shape: write it like 8x8x4", key=key)
    return tuple(checks.count(key, int(size), least=1, most=most) for size in text.split("x"))


def ratios(key: str, text: str, levels: int) -> tuple[Fraction, ...]:
    """Read ratios such as ``1x4`` or ``1x32/7``, one for each level; those not given are 1.

    Raises:
        TopologyError: Not ratios joined by x, one below 1, or too many; names the parameter *key*.
    """
    text = str(text)
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6}|/[1-9]\d{0,5})?(x\d{1,6}(\.\d{1,6}|/[1-9]\d{0,5})?){0,5}", text):
        raise TopologyError(f"{text!r} is no list of ratios: write it like 1x4", key=key)
    given = tuple(map(Fraction, text.split("x")))
    if min(given) < 1:
        raise TopologyError(f"a ratio of {min(given)} is below 1", key=key)
    if len(given) > levels and any(ratio != 1 for ratio in given[levels:]):
        raise TopologyError(f"{text} has {len(given)} ratios, and there are {levels} levels with uplinks", key=key)
    return (*given, *[Fraction(1)] * levels)[:levels]


def total(key: str, cards: int) -> int:
    """Check the number of cards.

    Raises:
        TopologyError: Less than two, or more than are supported; names the parameter *key*.
    """
    if not 2 <= cards <= MOST_CARDS:
        raise TopologyError(f"{cards} cards are out of range: 2 to {MOST_CARDS}", key=key)
    return cards


class CardBuilder(FabricBuilder):
    """A `FabricBuilder` for cards with addresses by place, and switches that are either routed or OpenFlow.

    Args:
        name: Of the topology.
        layout: Of the cards' addresses.
        parameters: What the topology is made from; ``switching`` is what its switches are, routed if not given.
    """

    def __init__(self, name: str, layout: Layout, **parameters: object) -> None:
        super().__init__(name, **parameters)
        self._layout = layout
        self._routed = parameters.get("switching", ROUTED) == ROUTED
        self._forwarders = 0

    def add_card(self, name: str, place: Sequence[int], *, zone: str = "a") -> None:
        """Add a card, its address alone in its subnet unless switches make all cards neighbours."""
        length = 32 if self._routed else 8
        self.add_host(name, f"{self._layout.address(place)}/{length}", role=Role.GPU, zone=zone)

    def add_crossing(self, name: str, *, tier: int, zone: str = "a") -> None:
        """Add a switch of the kind asked for."""
        if not self._routed:
            self.add_switch(name, zone=zone, tier=tier)
            return
        address = IPv4Address(_FIRST_FORWARDER + self._forwarders)
        self._forwarders += 1
        self.add_host(name, f"{address}/32", role=Role.FORWARDER, zone=zone, tier=tier)


def place_of(name: str) -> tuple[int, ...]:
    """The coordinates in a card's name."""
    return tuple(map(int, name[1:].split("_")))


def antipodes(fabric: Fabric) -> dict[str, str]:
    """For every card the one that is half of each dimension away; in a torus no card is farther."""
    places = {place_of(node.name): node.name for node in fabric.ends}
    sizes = [max(values) + 1 for values in zip(*places, strict=True)]
    return {
        name: places[tuple((value + size // 2) % size for value, size in zip(place, sizes, strict=True))]
        for place, name in places.items()
    }


def number(fabric: Fabric, key: str) -> int:
    """A whole-number parameter that a fabric was made from, also after a journey through JSON."""
    return int(str(fabric.parameters[key]))


def word(fabric: Fabric, key: str) -> str:
    """A parameter in words that a fabric was made from."""
    return str(fabric.parameters[key])
