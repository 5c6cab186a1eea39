"""What groups hold, in small fabrics that can be followed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from controller.flows import Bucket, Group, GroupKind
from controller.paths import MAX_PLANES, Paths, Spread, compute
from controller.paths.choice import Choice
from controller.paths.graph import graph_of
from controller.paths.groups import weighted
from controller.paths.nexthops import next_hops
from controller.paths.trees import Weights, plane_edges
from controller.paths.updates import phases
from emulator.errors import ControllerError
from emulator.model.fabric import Fabric, FabricBuilder
from tests.support.controller_fabrics import LONG, SPEC, leaf_spine, random_regular

GBIT = 10**9


def switches(*links: tuple[str, str], hosts: str) -> Fabric:
    """Switches of one letter, each with a host of its name if it is among *hosts*; hosts are linked last."""
    builder = FabricBuilder("small")
    for name in sorted({name for link in links for name in link}):
        builder.add_switch(name)
    for a, b in links:
        builder.add_link(a, b, SPEC)
    for number, name in enumerate(hosts):
        builder.add_host(f"h{name}", f"10.0.0.{number + 1}/8")
        builder.add_link(f"h{name}", name, SPEC)
    return builder.build()


def group(paths: Paths, switch: str, target: str, plane: int = 0) -> Group:
    number = paths.group_of(switch, target, plane)
    return next(group for group in paths.groups_of(switch) if group.number == number)


def peers(paths: Paths, switch: str, target: str, plane: int = 0) -> list[str]:
    """The switches behind a group's ports, in order."""
    return [paths.peers[switch, bucket.port] for bucket in group(paths, switch, target, plane).buckets]


def test_equal_ports_take_turns_after_the_planes_own() -> None:
    """Of three spines each plane has one first, and each is followed by another one."""
    paths = compute(leaf_spine(spines=3, leaves=2))
    assert paths.planes == 3
    orders = [peers(paths, "l0", "l1", plane) for plane in range(3)]
    assert sorted(orders) == [["s0", "s1", "s2"], ["s1", "s2", "s0"], ["s2", "s0", "s1"]]


def test_planes_that_do_not_differ_share_a_group() -> None:
    """A spine has one way to each leaf, whatever the plane, and needs one group."""
    paths = compute(leaf_spine(spines=3, leaves=2))
    assert {paths.group_of("s0", "l1", plane) for plane in range(3)} == {paths.group_of("s0", "l1", 0)}
    assert len(paths.groups_of("s0")) == 2
    assert len(paths.groups_of("l0")) == 3


def test_of_two_equally_far_switches_one_is_the_others_alternate() -> None:
    """In a triangle the link between the two that are one link away is used in one direction only: no loop."""
    paths = compute(switches(("a", "b"), ("a", "c"), ("b", "c"), hosts="a"))
    assert (peers(paths, "b", "a"), peers(paths, "c", "a")) == (["a"], ["a", "b"])


def test_slower_ways_of_as_many_links_are_alternates() -> None:
    """A longer link is no equal path and is taken when the others fail."""
    builder = FabricBuilder("diamond")
    for name in "abcd":
        builder.add_switch(name)
    for a, b, spec in (("a", "b", LONG), ("b", "d", SPEC), ("a", "c", SPEC), ("c", "d", SPEC)):
        builder.add_link(a, b, spec)
    builder.add_host("h", "10.0.0.1/8")
    builder.add_link("h", "d", SPEC)
    paths = compute(builder.build())
    assert (paths.next_ports("a", "d"), peers(paths, "a", "d")) == ((2,), ["c", "b"])
    flows = compute(paths.fabric, Spread.FLOWS)
    assert group(flows, "a", "d").buckets == (Bucket(2, 1),)


def test_a_target_out_of_reach_has_empty_groups() -> None:
    """Rules still point to them; they drop. Other targets are not concerned."""
    fabric = switches(("a", "b"), ("b", "c"), hosts="ac")
    cut = fabric.links[1].name
    paths = compute(fabric, Spread.HOSTS, {cut})
    assert group(paths, "a", "c").buckets == group(paths, "b", "c").buckets == ()
    assert peers(paths, "b", "a") == ["a"]
    assert paths.towards("a", "c", 0) is not None
    assert not paths.reaches("ha", "hc")
    assert paths.plane_ports("a", "c") is None


@pytest.mark.parametrize("spread", Spread)
def test_only_switches_with_hosts_are_targets(spread: Spread) -> None:
    """Numbers count the fabric's switches, so hosts that come later change none."""
    few, more = (switches(("a", "b"), ("b", "c"), hosts=hosts) for hosts in ("c", "ac"))
    assert [made.number for made in compute(few, spread).groups_of("b")] == [1 + 2 * MAX_PLANES]
    assert [made.number for made in compute(more, spread).groups_of("b")] == [1, 1 + 2 * MAX_PLANES]
    with pytest.raises(ControllerError, match="no hosts are attached to 'b'"):
        compute(few, spread).next_ports("a", "b")


def test_flows_are_spread_in_proportion_to_rates() -> None:
    """Two links of equal latency and different rates share 5 to 2."""
    slow = replace(SPEC, rate_bps=40 * GBIT)
    frame_bytes = SPEC.mtu_bytes + 14
    later = slow.serialization_ns(frame_bytes) - SPEC.serialization_ns(frame_bytes)
    builder = FabricBuilder("two")
    builder.add_switch("a")
    builder.add_switch("b")
    builder.add_link("a", "b", replace(SPEC, delay_ns=SPEC.delay_ns + later))
    builder.add_link("a", "b", slow)
    builder.add_host("h", "10.0.0.1/8")
    builder.add_link("h", "b", SPEC)
    made = group(compute(builder.build(), "flows"), "a", "b")
    assert (made.kind, made.buckets) == (GroupKind.SELECT, (Bucket(1, 5), Bucket(2, 2)))


@pytest.mark.parametrize(
    ("rates", "weights"),
    [
        ({}, []),
        ({1: 1}, [1]),
        ({1: 1_600 * GBIT, 2: 1_600 * GBIT}, [1, 1]),
        ({1: 400 * GBIT, 2: 100 * GBIT, 3: 25 * GBIT}, [16, 4, 1]),
        ({1: 1_600 * GBIT, 2: 1}, [64, 1]),
        ({1: 99_999_999_977, 2: 99_999_999_947}, [64, 64]),
    ],
)
def test_weights_are_small_and_never_zero(rates: dict[int, int], weights: list[int]) -> None:
    """Exact where small numbers allow it; a slow link gets little rather than nothing."""
    assert [bucket.weight for bucket in weighted(rates)] == weights


def test_unknown_names_are_refused() -> None:
    """With the name, and the fabric that does not have it."""
    fabric = switches(("a", "b"), hosts="ab")
    with pytest.raises(ControllerError, match="no link 'x--y' in the fabric 'small'"):
        compute(fabric, Spread.HOSTS, {"x--y"})
    with pytest.raises(ControllerError, match="no switch 'x'"):
        compute(fabric).distance("x", "b")


def test_hashes_are_summed_in_full() -> None:
    """The lower halves of two hashes carry into the upper ones: 2^32 - 1 twice is more than 2^32 once."""
    fabric = switches(("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), hosts="d")
    graph = graph_of(fabric)
    found = next_hops(graph, np.array([graph.index["d"]]))
    low = np.where(graph.link <= 1, 0xFFFFFFFF, 0)[:, None]
    high = np.where(graph.link == 2, 1, 0)[:, None]
    weights = Weights(np.zeros_like(low), high, low)
    chosen = plane_edges(graph, found, weights, 1)[0, graph.index["a"], 0]
    assert graph.switches[graph.target[chosen]] == "c"


def test_updates_need_paths_of_one_kind() -> None:
    """Other fabrics and other ways to spread have other rules, so changing groups would not do."""
    one, other = switches(("a", "b"), hosts="ab"), switches(("a", "b"), ("b", "c"), hosts="ab")
    with pytest.raises(ControllerError, match="'small' cannot be changed"):
        phases(compute(one), compute(other))
    with pytest.raises(ControllerError, match="spread differently"):
        phases(compute(one), compute(one, Spread.FLOWS))
    assert phases(compute(one), compute(one)) == ()


def test_updates_take_few_phases() -> None:
    """One link of a leaf and spine fabric: the spine first, then all leaves at once."""
    paths = compute(leaf_spine(spines=4, leaves=6))
    cut = next(link.name for link in paths.fabric.links if {link.a, link.b} == {"s1", "l3"})
    found = phases(paths, paths.without({cut}))
    assert len(found) <= 4
    assert phases(paths.without({cut}), paths)[-1]


@pytest.mark.parametrize("spread", Spread)
def test_a_failure_looks_at_few_groups(spread: Spread) -> None:
    """Counted, not timed: what a failed link costs follows from what it changes, not from how large the fabric is.

    Verify: of the groups that are made anew, at least every fourth one differs; they are a small part of all; and only
    targets that the link led to are computed again.
    """
    whole = compute(random_regular(switches=150, degree=8, hosts=150), spread)
    have = {(group.dpid, group.number): group for group in whole.groups()}
    for link in whole.layout.graph.links[::60]:
        broken = whole.without({link.name})
        looked_at = list(Choice(broken).groups_that_differ(Choice(whole)))
        differ = sum(have[group.dpid, group.number] != group for group in looked_at)
        assert 0 < differ <= len(looked_at) <= 4 * differ
        assert len(looked_at) <= len(have) / 10
        both = np.flatnonzero(whole.layout.graph.link == whole.layout.graph.links.index(link))
        led_to = np.flatnonzero(whole.next_hops.onward[:, both].any(axis=1))
        assert broken.changed_rows.tolist() == led_to.tolist()
        assert len(led_to) < len(whole.targets)
