"""What links carry between the halves of a supernode with faults, against counts; whole ones are in `test_halves`."""

from __future__ import annotations

from emulator.model.fault import Action, Fault, broken_links
from emulator.model.max_flow import max_flow_bps
from topologies import torus3d, tree
from topologies.halves import halves


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
