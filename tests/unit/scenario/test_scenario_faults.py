"""Faults, probes and workloads that start together, in scenario files: what is read, and what is refused with what."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import EmulatorError, ScenarioError
from emulator.experiment.prepare import prepare
from emulator.model.fault import Action, Fault
from emulator.model.workload import Probe, grouped
from emulator.scenario import Control, cell_from_json, cell_to_json, loads

TEXT = """\
scenario: f
question: What does a fault cost?
topology: {kind: icgw, gpus: 2, storage: 1, compute: 1}
workloads:
  - {name: bulk, kind: tcp, sources: g1, targets: s1, duration: 30 ms}
  - {name: probes, kind: probe, alongside: bulk, all_to_all: [gpu, s1], duration: 30 ms}
faults:
  - {at: 20 ms, flap: {link: la3-spa2, times: 2, every: 3 ms}}
  - {at: 5 ms, cut: la1-spa1}
  - {at: 10 ms, restore: spa1-la1}
  - {at: 11 ms, stop: spa1}
  - {at: 15 ms, start: spa1}
  - {at: 15 ms, silence: g1-la1}
"""


def cell_of(text: str, folder: Path):
    file = folder / "f.yaml"
    file.write_text(text, encoding="utf-8")
    _, [prepared] = prepare(file)
    return prepared.cell


def test_faults_are_read_in_the_order_in_which_they_happen(tmp_path: Path) -> None:
    """A flap becomes cuts and restores; entries come in any order; the workloads' common start counts."""
    cell = cell_of(TEXT, tmp_path)
    expected = [
        (5, "cut", "la1-spa1", 1),
        (10, "restore", "spa1-la1", 2),
        (11, "stop", "spa1", 3),
        (15, "start", "spa1", 4),
        (15, "silence", "g1-la1", 5),
        (20, "cut", "la3-spa2", 0),
        (21.5, "restore", "la3-spa2", 0),
        (23, "cut", "la3-spa2", 0),
        (24.5, "restore", "la3-spa2", 0),
    ]
    assert list(cell.faults) == [
        Fault(int(at * 10**6), Action(what), target, "bulk", entry) for at, what, target, entry in expected
    ]


def test_roles_stand_for_their_hosts(tmp_path: Path) -> None:
    """``all_to_all`` of a role and a host: each of them to each other, once."""
    probe = cell_of(TEXT, tmp_path).workloads[1]
    assert isinstance(probe, Probe)
    assert probe.pairs == (("g1", "g2"), ("g1", "s1"), ("g2", "g1"), ("g2", "s1"), ("s1", "g1"), ("s1", "g2"))
    twice = cell_of(TEXT.replace("[gpu, s1]", "[g1, gpu, storage, s1]"), tmp_path).workloads[1]
    assert set(twice.pairs) == set(probe.pairs)


def test_cells_travel_with_faults_and_pairs(tmp_path: Path) -> None:
    """A cell with faults, pairs and settings reads back equal from its JSON."""
    cell = cell_of(TEXT + "controller: {spread: flows}\n", tmp_path)
    assert cell.control.spread == "flows"
    assert cell_from_json(cell_to_json(cell)) == cell


def test_cards_fail_and_managers_take_their_time(tmp_path: Path) -> None:
    """In a torus a card is stopped and started, and the time until there are routes around it travels with the cell."""
    text = """\
scenario: s
question: q
topology: {kind: torus3d, x: 3, y: 3, z: 1}
controller: {detection: 5 ms}
workloads:
  - {name: halves, kind: bisection, duration: 30 ms}
faults:
  - {at: 1 ms, stop: c1_1_0}
  - {at: 9 ms, start: c1_1_0}
"""
    cell = cell_of(text, tmp_path)
    assert cell.control.detection_ns == 5_000_000
    assert [fault.title for fault in cell.faults] == ["stop c1_1_0", "start c1_1_0"]
    assert cell_from_json(cell_to_json(cell)) == cell


def test_groups() -> None:
    """Workloads join the group of the one that they name, directly or not; the others wait."""
    one, two, three, four = (
        Probe("one"),
        Probe("two"),
        Probe("three", alongside="one"),
        Probe("four", alongside="three"),
    )
    assert grouped([one, two, three, four]) == [[one, three, four], [two]]
    assert grouped([]) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "reason"),
    [
        ("restore: spa1", "restore: spa2", 10, "faults[2].restore", "'spa2-la1' is neither cut nor silenced before 10"),
        ("start: spa1", "start: spa2", 12, "faults[4].start", "'spa2' is not stopped before 15 ms"),
        ("cut: la1-spa1", "cut: la1-sp1", 9, "faults[1].cut", "there is no link 'la1-sp1': did you mean 'la1-spa1'"),
        ("cut: la1-spa1", "cut: spa1", 9, "faults[1].cut", "there is no link 'spa1'"),
        ("link: la3-spa2", "link: la4", 8, "faults[0].flap.link", "there is no link 'la4'"),
        ("stop: spa1", "stop: g1", 11, "faults[3].stop", "'g1' is a host, only switches"),
        ("stop: spa1", "stop: spa7", 11, "faults[3].stop", "there is no switch 'spa7': did you mean 'spa"),
        (
            "stop: spa1}",
            "stop: spa1, cut: la1-spa1}",
            11,
            "faults[3]",
            "give one of cut, silence, restore, stop, start",
        ),
        ("restore: spa1-la1", "cut: spa1-la1", 10, "faults[2].cut", "is broken already at 10 ms: 'cut la1-spa1' came"),
        (
            "at: 15 ms, silence",
            "at: 30 ms, silence",
            13,
            "faults[5].at",
            "'silence g1-la1' comes at 30 ms, and the work",
        ),
        ("every: 3 ms", "every: 8 ms", 8, "faults[0].at", "'restore la3-spa2' comes at 32 ms"),
        ("every: 3 ms", "every: 1 ns", 8, "faults[0].flap.every", "must be at least 2 ns"),
        ("times: 2", "times: 501", 8, "faults[0].flap.times", "501 must be at most 500"),
        ("times: 2, every", "evry", 8, "faults[0].flap.evry", "unknown key: did you mean 'every'?"),
        ("at: 5 ms, cut", "during: rtt, at: 5 ms, cut", 9, "faults[1].during", "there is no workload 'rtt'"),
        ("at: 5 ms, cut", "at: 5, cut", 9, "faults[1].at", "5"),
        (
            "workloads:",
            "controller: {detection: 1 ms}\nworkloads:",
            4,
            "controller.detection",
            "is for supernodes that",
        ),
        ("alongside: bulk, ", "", 8, "faults[0]", "workloads run one after the other: say which one's start counts"),
        ("alongside: bulk", "alongside: bulky", 6, "workloads[1].alongside", "there is no earlier workload 'bulky'"),
        ("alongside: bulk", "alongside: probes", 6, "workloads[1].alongside", "'probes' does not come before it"),
        ("[gpu, s1]", "[gpux]", 6, "workloads[1].all_to_all[0]", "there is neither a role nor a host 'gpux'"),
        ("[gpu, s1]", "[la1, s1]", 6, "workloads[1].pairs", "'la1' is a switch"),
        ("[gpu, s1]", "[storage]", 6, "workloads[1].all_to_all", "only s1: there is nobody to send to"),
        ("all_to_all: [gpu, s1]", "pairs: [[g1]]", 6, "workloads[1].pairs", "['g1'] is not a pair"),
        ("all_to_all: [gpu, s1]", "pairs: []", 6, "workloads[1].pairs", "is empty"),
        ("all_to_all: [gpu, s1]", "pairs: [[g1, g1]]", 6, "workloads[1]", "from 'g1' to itself"),
        ("all_to_all: [gpu, s1], ", "", 6, "workloads[1]", "give either 'pairs' or 'all_to_all'"),
        ("kind: probe,", "kind: probe, interval: 40 ms,", 6, "workloads[1]", "'interval' is longer than 'duration'"),
        ("kind: probe,", "kind: probe, payload: 7 B,", 6, "workloads[1].payload", "must be at least 8 B"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, line: int, key: str, reason: str) -> None:
    """Slips are one line with file, line, key and what would be right."""
    assert old in TEXT
    with pytest.raises(ScenarioError) as caught:
        cell_of(TEXT.replace(old, new), tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/f.yaml:{line}: {key}")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_packets_with_departure_times_are_for_one_workload_at_a_time() -> None:
    """Two kinds that need the sending host's clock queue cannot run together."""
    text = TEXT.partition("faults:")[0] + (
        "  - {name: small, kind: small_packets, alongside: probes, source: g1, target: s1}\n"
    )
    with pytest.raises(ScenarioError, match="'probes' and 'small' both have packets with departure times"):
        loads(text)


def test_faults_can_be_varied() -> None:
    """A named choice of the matrix replaces all faults; what is wrong in one of them is found."""
    matrix = (
        "matrix: {fault: {cut: {faults: [{at: 1 ms, cut: a-b}]}, none: {faults: []}}, controller.spread: [flows]}\n"
    )
    cut, none = loads(TEXT + matrix).variants
    assert (cut.label, len(cut.faults), cut.control.spread) == ("fault=cut,spread=flows", 1, "flows")
    assert none.faults == ()
    with pytest.raises(ScenarioError, match="'cut a-b' comes at 1 s"):
        loads(TEXT + matrix.replace("1 ms", "1 s"))


def test_a_workload_without_a_known_end_has_no_last_moment() -> None:
    """Where a workload lasts until it is done, a fault may come whenever it likes."""
    text = TEXT.replace("targets: s1, duration: 30 ms", "targets: s1, size: 1 GB").replace("at: 5 ms", "at: 5 s")
    assert loads(text).variants[0].faults[-1].at_ns == 5 * 10**9


def test_parallel_links_need_their_full_name(tmp_path: Path) -> None:
    """Names are those of ends, either way round, or of interfaces; what is ambiguous is refused with the full names."""
    from emulator.model.fabric import FabricBuilder, LinkSpec
    from emulator.model.fault import link_named

    builder = FabricBuilder("two")
    builder.add_switch("s1")
    builder.add_switch("s2")
    spec = LinkSpec(10**9, 0)
    builder.add_link("s1", "s2", spec)
    builder.add_link("s1", "s2", spec)
    fabric = builder.build()
    assert link_named(fabric, "s1-eth2--s2-eth2") is fabric.links[1]
    with pytest.raises(EmulatorError, match="there are 2 links 's2-s1': name one of s1-eth1--s2-eth1, s1-eth2--s2"):
        link_named(fabric, "s2-s1")


def test_how_the_controller_is_run_travels_with_the_cell(tmp_path: Path) -> None:
    """All of it can be varied, and reaches the machine as it was written."""
    text = TEXT + "controller: {balance: 100 ms, lldp_interval: 0 s}\nmatrix: {controller.balance: [1 ms, 1 h]}\n"
    file = tmp_path / "f.yaml"
    file.write_text(text, encoding="utf-8")
    _, prepared = prepare(file)
    assert [one.cell.control for one in prepared] == [Control("hosts", 10**6, 0), Control("hosts", 3600 * 10**9, 0)]
    assert all(cell_from_json(cell_to_json(one.cell)) == one.cell for one in prepared)
    assert cell_of(TEXT, tmp_path).control == Control()


@pytest.mark.parametrize("value", ["999 us", "3601 s", "-1 s", "10", "true", "[1 s]", "1e400 s"])
def test_intervals_of_the_controller_have_bounds(value: str) -> None:
    """Refused with the line, whichever of the two it is."""
    for key in ("balance", "lldp_interval"):
        with pytest.raises(ScenarioError, match=f"controller.{key}"):
            loads(f"{TEXT}controller: {{{key}: {value}}}\n")
