"""What links carry between the halves of a supernode, whole and with faults, against closed forms and counts."""

from __future__ import annotations

import pytest

from emulator.model.fabric import Fabric
from emulator.model.fault import Action, Fault, broken_links
from emulator.model.max_flow import max_flow_bps
from topologies import cascade, dragonfly, fat_tree, torus3d, tree
from topologies.analysis import figures
from topologies.halves import halves

FABRICS = [
    torus3d(4, 4, 4),
    torus3d(3, 2, 1),
    torus3d(4, 4, 8, twist=4),
    tree("4x4", oversubscription="2"),
    fat_tree(4),
    dragonfly(2, 1, 1),
    cascade(supernodes=2, shape="2x2x2", uplinks=2),
]


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: f"{fabric.name} {len(fabric.ends)}")
def test_whole_fabrics_carry_what_the_formulas_say(fabric: Fabric) -> None:
    """Between the halves that cost least to part, max-flow is the bandwidth that the closed form states for them."""
    assert max_flow_bps(fabric, *halves(fabric)) == figures(fabric).bisection.at_most_bps


def test_broken_links_are_missing() -> None:
    """Of 8 links across a torus of 4x4 each broken one is missing; others do not matter; a tree loses a branch."""
    torus = torus3d(4, 4, 1)
    one, other = halves(torus)
    rate = torus.links[0].spec.rate_bps
    across = [number for number, link in enumerate(torus.links) if (link.a in one) != (link.b in one)]
    within = [number for number in range(len(torus.links)) if number not in across]
    assert len(across) == 8
    for count in range(9):
        assert max_flow_bps(torus, one, other, across[:count]) == (8 - count) * rate
    assert max_flow_bps(torus, one, other, within) == 8 * rate
    branches = tree("2x4", oversubscription="4")
    assert max_flow_bps(branches, *halves(branches), broken={0}) == 0


def test_links_that_faults_leave_broken() -> None:
    """Cut and restored, stopped and started, overlapping: what is broken in the end."""
    torus = torus3d(3, 3, 1)
    links = [link.name for link in torus.links_of("c1_1_0")]
    index = {link.name: number for number, link in enumerate(torus.links)}
    faults = [
        Fault(0, Action.CUT, links[0]),
        Fault(1, Action.STOP, "c1_1_0"),
        Fault(2, Action.SILENCE, links[1]),
        Fault(3, Action.START, "c1_1_0"),
        Fault(4, Action.RESTORE, links[0]),
    ]
    expected = [{links[0]}, set(links), set(links), set(links[:2]), {links[1]}]
    for count, names in enumerate(expected, start=1):
        assert broken_links(torus, faults[:count]) == {index[name] for name in names}
