"""Holds what the kernel's map of flows has against what the daemon's table says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gateway.offload.figures import Audit
from gateway.offload.records import KEY, Records, conversation

_SHOWN = 8


@dataclass(frozen=True)
class Differences:
    """Flows about which map and table do not agree, by their keys' bytes.

    Attributes:
        missing: Of the table, and not in the map.
        foreign: In the map, and not of the table.
        different: In both, with something else to be done.
    """

    missing: list[bytes]
    foreign: list[bytes]
    different: list[bytes]

    def audit(self, flows: int, *, repaired: bool) -> Audit:
        """The same for people: counts, and some of each by name.

        Args:
            flows: How many the table has.
            repaired: Whether the map was put right.
        """
        examples = [
            f"{what}: {conversation(np.frombuffer(name, dtype=KEY)[0])}"
            for what, some in (("missing", self.missing), ("foreign", self.foreign), ("different", self.different))
            for name in some[:_SHOWN]
        ]
        return Audit(flows, len(self.missing), len(self.foreign), len(self.different), repaired, examples)


def compare(
    found_keys: Records,
    found_flows: Records,
    slots: Mapping[bytes, int],
    keys: Records,
    flows: Records,
    used: npt.NDArray[np.bool_],
) -> Differences:
    """Compare the map with the table.

    Args:
        found_keys: The flows that the map has.
        found_flows: What it does with each.
        slots: The table's flows and their slots.
        keys: The flows that the map should have, by slot.
        flows: What it should do with each, by slot.
        used: Which slots have a flow.
    """
    places = found_flows["slot"].astype(np.int64)
    places[places >= len(used)] = 0
    right = used[places] & _same(found_keys, keys[places]) & _same(found_flows, flows[places])
    agreeing = np.zeros(len(used), dtype=bool)
    agreeing[places[right]] = True
    # The rest is looked at one by one: there is hardly ever any.
    found = {key.tobytes() for key in found_keys[~right]}
    lacking = [keys[slot].tobytes() for slot in np.flatnonzero(used & ~agreeing).tolist()]
    return Differences(
        missing=[name for name in lacking if name not in found],
        foreign=[name for name in found if name not in slots],
        different=[name for name in lacking if name in found],
    )


def _same(one: Records, other: Records) -> npt.NDArray[np.bool_]:
    """Which records are equal to the byte."""
    size = one.dtype.itemsize
    equal: npt.NDArray[np.bool_] = (
        np.ascontiguousarray(one).view(np.uint8).reshape(-1, size)
        == np.ascontiguousarray(other).view(np.uint8).reshape(-1, size)
    ).all(axis=1)
    return equal
