"""Whom hosts ask to find out whether a network does what it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.errors import NodeError
from emulator.model.fabric import Fabric
from emulator.network.host import EmulatedHost
from emulator.network.probe import unreachable
from emulator.rng import stream

SAMPLE = 8
"""How many others each end of a routed fabric asks besides the one that is named for it."""


def star(names: Sequence[str]) -> list[tuple[str, str]]:
    """Every host and the first one."""
    first, *others = names
    return [(other, first) for other in others]


def sample(fabric: Fabric, far: Mapping[str, str]) -> list[tuple[str, str]]:
    """Every end and the one named for it, and some more at random, the same ones every time.

    Args:
        fabric: Has the ends.
        far: The one named for each; may be empty.
    """
    random = stream(0, "verify", fabric.name)
    names = [node.name for node in fabric.ends]
    pairs = []
    for name in names:
        drawn = random.sample(names, min(SAMPLE + 2, len(names)))
        named = [far[name]] if name in far else []
        pairs += [(name, one) for one in [*named, *[one for one in drawn if one not in (name, *named)][:SAMPLE]]]
    return pairs


def verify(hosts: Mapping[str, EmulatedHost], pairs: Sequence[tuple[str, str]], timeout_s: float) -> None:
    """Make sure that hosts reach each other.

    Args:
        hosts: All of them by name.
        pairs: Who asks whom.
        timeout_s: How long at most, by this kernel's clock.

    Raises:
        NodeError: Two hosts do not; names them.
    """
    lost = unreachable([(hosts[source], hosts[target]) for source, target in pairs], timeout_s)
    if lost:
        source, target = lost[0]
        more = f" (and {len(lost) - 1} more do not)" if len(lost) > 1 else ""
        raise NodeError(f"{source.name} does not reach {target.name} within {timeout_s:g} s{more}")
