"""The groups that fit what is usable now."""

from __future__ import annotations

from controller.flows import Group
from controller.paths.paths import Paths


def choose(plain: Paths, careful: Paths) -> tuple[Group, ...]:
    """The groups that leave out what is shunned, where that leads to the target, and else use it.

    A switch without a careful way sends to one that is nearer on the plain way, until one of them has a careful way,
    which only leads to others of that kind. So the mixture has no circle.

    Args:
        plain: Paths without what is down.
        careful: Paths without what is shunned as well.
    """
    if careful is plain:
        return plain.groups()
    return tuple(
        careful_group if careful_group.buckets else plain_group
        for careful_group, plain_group in zip(careful.groups(), plain.groups(), strict=True)
    )
