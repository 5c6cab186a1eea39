"""Which hosts take part in a collective, what grid they make, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.collectives.grid import grid_of
from emulator.errors import ScenarioError
from emulator.experiment.prepare import prepare_all
from emulator.model.workload import CollectiveRun
from emulator.scenario import loads
from emulator.scenario.ranks import ranks_of
from topologies import FABRICS

SCENARIO = """
scenario: ranks
question: Who takes part?
topology: {topology}
workloads:
  - {{name: run, kind: collective, {keys}}}
"""


EVERYBODY = ", ".join(node.name for node in FABRICS["torus3d"](3, 2, 2).ends)


def workload(keys: str = "iterations: 1", topology: str = "{kind: torus3d, x: 3, y: 2, z: 2}") -> CollectiveRun:
    [cell] = prepare_all(loads(SCENARIO.format(topology=topology, keys=keys), "f.yaml"))
    [found] = cell.cell.workloads
    assert isinstance(found, CollectiveRun)
    return found


@pytest.mark.parametrize(
    ("topology", "shape", "first", "last"),
    [
        ("{kind: torus3d, x: 3, y: 2, z: 2}", "3x2x2", "c0_0_0", "c2_1_1"),
        ("{kind: torus3d, x: 4, y: 4, z: 1}", "4x4x1", "c0_0_0", "c3_3_0"),
        ("{kind: dual_plane, nodes: 4, rails: 2}", "4x2", "c0_0", "c3_1"),
        ("{kind: tree, fanouts: 3x4}", "3x4", "c0_0", "c2_3"),
        ("{kind: single, hosts: 12}", "12", "h1", "h12"),
        ("{kind: icgw, gpus: 3}", "3", "g1", "g3"),
    ],
)
def test_cards_are_ranks_in_the_order_of_their_places(topology: str, shape: str, first: str, last: str) -> None:
    """Left out, all cards take part, or all hosts where there are none, and names tell the grid."""
    found = workload(topology=topology)
    assert (found.shape, found.ranks[0], found.ranks[-1]) == (shape, first, last)


@pytest.mark.parametrize(
    ("names", "shape"),
    [
        (("c0_0", "c0_1", "c1_0", "c1_1"), "2x2"),
        (("c5_0", "c5_3", "c9_0", "c9_3"), "2x2"),
        (("c0_0", "c1_0", "c0_1", "c1_1"), "4"),
        (("c0_0", "c0_1", "c1_0"), "3"),
        (("c0_0", "c1"), "2"),
        (("h1", "c1_1"), "2"),
    ],
)
def test_grid(names: tuple[str, ...], shape: str) -> None:
    """Places that are missing, in another order, or no places at all make no grid."""
    assert grid_of(names) == shape


def test_words_for_several_hosts() -> None:
    """Roles and hosts, each host once."""
    fabric = FABRICS["icgw"](gpus=2)
    assert ranks_of(fabric, ("s1", "gpu", "g1")) == ("s1", "g1", "g2")
    with pytest.raises(LookupError, match="neither a role nor a host 'l1'"):
        ranks_of(fabric, ("l1",))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("ranks: [c0_0_0]", r"f.yaml:6: workloads\[0\].ranks: only c0_0_0: there is nobody to send to"),
        ("ranks: [c0_0_0, x]", r"f.yaml:6: workloads\[0\].ranks: there is neither a role nor a host 'x'"),
        ("shape: 4x4", r"f.yaml:6: workloads\[0\].shape: 4x4 are 16 ranks, and 12 hosts take part"),
        ("algorithm: nix", r"f.yaml:6: workloads\[0\]: 'nix' does no all_reduce: auto, ring"),
        ("begin: 10 B", r"f.yaml:6: workloads\[0\].begin: 10 B are not whole numbers of 4 B each"),
        ("begin: 2 KiB, end: 1 KiB", r"f.yaml:6: workloads\[0\]: 'end' is below 'begin'"),
        ("cards: [{ranks: [x], message: 1 us}]", r"f.yaml:6: workloads\[0\].cards\[0\]: 'x' is none of the ranks"),
        ("algorithm: leaves-ring, collective: reduce", r"f.yaml:6: workloads\[0\]: 'leaves-ring' does no reduce: auto"),
        ("factor: 1", r"f.yaml:6: workloads\[0\].factor: must be at least 2"),
        ("buffer: 32 KiB", r"f.yaml:6: workloads\[0\].buffer: must be at least 64 KiB"),
        ("buffer: 2 GiB", r"f.yaml:6: workloads\[0\].buffer: must be at most 1 GiB"),
        ("iterations: 1000001", r"f.yaml:6: workloads\[0\].iterations: must be at most 1 million"),
        ("warm_up: 1000001", r"f.yaml:6: workloads\[0\].warm_up: must be at most 1 million"),
        (
            "collective: reduce_scatter, algorithm: halving",
            r"f.yaml:6: workloads\[0\].ranks: recursive halving needs a power of two, not 12 ranks",
        ),
    ],
)
def test_refusals(keys: str, message: str) -> None:
    """One line that names file, line and key."""
    with pytest.raises(ScenarioError, match=message):
        workload(keys)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("[{after: 3}]", r"workloads\[0\].changes\[0\]: give 'join', 'leave' or both"),
        (
            "[{after: 9, leave: c0_0_0}]",
            r"workloads\[0\]: changes come one after the other, before the 9 rounds are over",
        ),
        ("[{after: 2, leave: c0_0_0}, {after: 2, leave: c1_0_0}]", r"changes come one after the other"),
        (f"[{{after: 2, join: [{EVERYBODY}]}}]", r"workloads\[0\].changes: nobody is there from the beginning"),
        ("[{after: 2, leave: x}]", r"workloads\[0\].changes\[0\]: 'x' is none of the ranks"),
        ("[{after: 2, leave: c0_0_0}, {after: 3, leave: c0_0_0}]", r"changes\[1\]: 'c0_0_0' leaves and is not there"),
        ("[{after: 2, leave: c0_0_0}, {after: 3, join: c1_1_1}, {after: 4, join: c1_1_1}]", "is there already"),
    ],
)
def test_changes_that_cannot_be(changes: str, message: str) -> None:
    """Who leaves is there, who joins is not, and everything happens in order."""
    text = SCENARIO.format(topology="{kind: torus3d, x: 3, y: 2, z: 2}", keys=f"rounds: 9, changes: {changes}")
    with pytest.raises(ScenarioError, match=message):
        prepare_all(loads(text.replace("kind: collective,", "kind: collective_job,"), "f.yaml"))


def test_cards_of_another_kind() -> None:
    """What a card does not say is the workload's."""
    found = workload("message: 2 us, chunk: 1 MiB, cards: [{ranks: [c0_0_0], reduce_rate: 1 GB/s}]")
    assert found.cards == ((("c0_0_0",), 8 * 10**9, 2000, 1 << 20),)


def test_sizes() -> None:
    """From the smallest on, as long as they are not above the largest; without that, one."""
    assert workload("begin: 1 KiB, end: 100 KiB, factor: 8").sizes_bytes == (1024, 8192, 65536)
    assert workload("begin: 3 KiB").sizes_bytes == (3072,)


def test_sizes_on_the_command_line(tmp_path: Path) -> None:
    """As nccl-tests take them, or with units; everything else is refused."""
    from emulator.experiment.collective import Request, scenario_of, size_text

    assert [size_text(text) for text in ("8", "1k", "128M", "2G", "4 KiB", "1 MB")] == [
        "8 B", "1024 B", "134217728 B", "2147483648 B", "4096 B", "1000000 B",
    ]  # fmt: skip
    with pytest.raises(ScenarioError, match="size: '3x'"):
        size_text("3x")
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.format(topology="{kind: single, hosts: 3, rate: 10 Gbit/s}", keys="iterations: 1"))
    for request in (
        Request(None, file, {"begin": "4 KiB"}, "2 GiB", "60 s"),
        Request("single,hosts=3,rate=10 Gbit/s", None, {"begin": "4 KiB"}, "2 GiB", "60 s"),
    ):
        [cell] = prepare_all(scenario_of(request))
        assert len(cell.fabric.ends) == 3
        assert cell.fabric.links[0].spec.rate_bps == 10 * 10**9
