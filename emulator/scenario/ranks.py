"""Which hosts take part in a collective, in which order, and what grid they make."""

from __future__ import annotations

import re
from itertools import product
from math import prod

from emulator.collectives import Collective, build
from emulator.collectives.payload import DATA_TYPES
from emulator.errors import ScenarioError
from emulator.model.fabric import Fabric, Role
from emulator.model.workload import CollectiveRun
from emulator.scenario.problems import hint

_COORDINATES = re.compile(r"c\d+(_\d+)*")


def ranks_of(fabric: Fabric, words: tuple[str, ...]) -> tuple[str, ...]:
    """Hosts by rank.

    Args:
        fabric: Whose.
        words: Roles and hosts; none: all GPU nodes and cards, or all hosts where there are none.

    Raises:
        LookupError: A word is neither a role nor a host of the fabric.
    """
    if not words:
        chosen = fabric.with_role(Role.GPU) or fabric.ends
        return tuple(node.name for node in chosen)
    roles = {role.value: fabric.with_role(role) for role in Role if role not in (Role.SWITCH, Role.FORWARDER)}
    names: dict[str, None] = {}
    for word in words:
        if word in fabric.by_name and fabric.by_name[word] in fabric.ends:
            names[word] = None
        elif roles.get(word):
            names.update(dict.fromkeys(node.name for node in roles[word]))
        else:
            known = [*(name for name, nodes in roles.items() if nodes), *(host.name for host in fabric.ends)]
            raise LookupError(f"there is neither a role nor a host {word!r} in the topology{hint(word, known)}")
    return tuple(names)


def grid_of(names: tuple[str, ...]) -> str:
    """The grid that hosts make whose names are coordinates, as those of cards are, such as ``8x8x4``.

    They make one if no place in it is free and the last coordinate changes fastest; else it has one dimension.
    """
    if all(map(_COORDINATES.fullmatch, names)):
        places = [tuple(map(int, name[1:].split("_"))) for name in names]
        if len({len(place) for place in places}) == 1:
            axes = [sorted(set(axis)) for axis in zip(*places, strict=True)]
            if prod(map(len, axes)) == len(places) and list(product(*axes)) == places:
                return "x".join(str(len(axis)) for axis in axes)
    return str(len(names))


def check_sizes(workload: CollectiveRun) -> None:
    """Check that a collective can be done by its ranks, at all of its sizes.

    Raises:
        ScenarioError: It cannot; names the key.
    """
    item_bytes = DATA_TYPES[workload.datatype].dtype.itemsize
    for size in workload.sizes_bytes:
        if size % item_bytes:
            raise ScenarioError(f"{size} B are not whole numbers of {item_bytes} B each", key="begin")
    if workload.algorithm != "auto":
        build(Collective(workload.collective), workload.algorithm, workload.grid)
