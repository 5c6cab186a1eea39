"""Which hosts take part in a collective, in which order."""

from __future__ import annotations

from emulator.collectives import Collective, build
from emulator.collectives.payload import DATA_TYPES
from emulator.errors import ScenarioError
from emulator.model.fabric import Fabric, Role
from emulator.model.workload import CollectiveJob, Collectives
from emulator.scenario.problems import hint


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


def check_sizes(workload: Collectives) -> None:
    """Check that a collective can be done by its ranks, at all of its sizes.

    Raises:
        ScenarioError: It cannot; names the key.
    """
    item_bytes = DATA_TYPES[workload.datatype].dtype.itemsize
    for size in workload.sizes_bytes:
        if size % item_bytes:
            raise ScenarioError(f"{size} B are not whole numbers of {item_bytes} B each", key="begin")
    if workload.algorithm != "auto" and not workload.algorithm.startswith("leaves-"):
        build(Collective(workload.collective), workload.algorithm, workload.grid)
    for number, (names, *_) in enumerate(workload.cards):
        for name in names:
            if name not in workload.ranks:
                raise ScenarioError(
                    f"{name!r} is none of the ranks{hint(name, workload.ranks)}", key=f"cards[{number}]"
                )
    if isinstance(workload, CollectiveJob):
        _check_changes(workload)


def _check_changes(workload: CollectiveJob) -> None:
    """Check that who leaves is there, and who joins is not."""
    later = {name for _, joins, _ in workload.changes for name in joins}
    there = {name for name in workload.ranks if name not in later}
    if not there:
        raise ScenarioError("nobody is there from the beginning", key="changes")
    for number, (_, joins, leaves) in enumerate(workload.changes):
        for name in (*joins, *leaves):
            if name not in workload.ranks:
                raise ScenarioError(
                    f"{name!r} is none of the ranks{hint(name, workload.ranks)}", key=f"changes[{number}]"
                )
        if twice := [name for name in joins if name in there]:
            raise ScenarioError(f"{twice[0]!r} joins and is there already", key=f"changes[{number}]")
        if absent := [name for name in leaves if name not in there]:
            raise ScenarioError(f"{absent[0]!r} leaves and is not there", key=f"changes[{number}]")
        there = (there | set(joins)) - set(leaves)
        if len(there) < 2:
            raise ScenarioError("nobody is left to talk to", key=f"changes[{number}]")
