"""From scenarios to cells: names, seeds, JSON, and the check against a fabric."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from emulator.errors import ScenarioError
from emulator.model.workload import WORKLOADS, Checkpoint, NvmeIo, Ping, Poisson, SmallPackets, TcpBulk, Workload
from emulator.scenario import (
    Cell,
    cell_from_json,
    cell_to_json,
    check_against,
    flows_of,
    loads,
    resolve,
)
from topologies import FABRICS

ICGW = """\
scenario: both
question: Which?
topology: {kind: icgw}
designs: [conventional, gateway]
workloads:
  - {name: rtt, kind: ping, source: g1, target: s1}
  - {name: io, kind: nvme, initiators: [g1, g2], target: s1}
capture: [g1-eth0]
"""


def only(text: str) -> Cell:
    (cell,) = resolve(loads(text, "f.yaml"))
    return cell


def test_names_of_variants(small: str) -> None:
    """A single cell is 'base'; designs and profiles are named if there are several, the matrix after them."""
    assert only(small).variant == "base"
    assert only(small.replace("expect", "designs: [gateway]\nexpect")).variant == "base"
    matrix = "matrix: {topology.hops: [1, 3]}\n"
    assert [cell.variant for cell in resolve(loads(small + matrix))] == ["hops=1", "hops=3"]
    assert [cell.variant for cell in resolve(loads(ICGW + "matrix: {topology.gpus: [2, 3]}\n"))] == [
        f"{design}/documents,gpus={gpus}" for gpus in (2, 3) for design in ("conventional", "gateway")
    ]


def test_seeds() -> None:
    """Designs face the same traffic; variants and other scenario seeds get other seeds."""
    cells = resolve(loads(ICGW + "matrix: {topology.gpus: [2, 3]}\n"))
    assert cells[0].seed == cells[1].seed
    assert cells[2].seed == cells[3].seed
    assert len({cell.seed for cell in cells}) == 2
    gateway = ICGW.replace("conventional, ", "")
    assert only(gateway).seed != only(f"{gateway}seed: 2\n").seed


def test_unknown_profile() -> None:
    """Profiles are looked up when cells are made, and a wrong one is named with its line."""
    with pytest.raises(ScenarioError, match=r"f\.yaml:9: profiles\[1\]: there is no profile 'nobody'"):
        resolve(loads(ICGW + "profiles: [documents, nobody]\n", "f.yaml"))


@pytest.mark.parametrize(
    "workload",
    [
        Ping("a", "h0", "h1"),
        TcpBulk("a", ("h0", "h1"), ("h2",), flows=3, duration_ns=5, ecn=True),
        Poisson("a", "h0", "h1", 0.25),
        SmallPackets("a", "h0", "h1"),
        NvmeIo("a", ("h0",), "h1", queue_depths=(1, 64)),
        Checkpoint("a", ("h0", "h1"), "h2", 1 << 30),
    ],
    ids=lambda workload: workload.kind,
)
def test_cells_survive_json(small: str, workload: Workload) -> None:
    """What travels into the machine is what was resolved, for every kind of workload."""
    assert workload.kind in WORKLOADS
    cell = replace(only(small + "sampling: {interval: 1 us}\n"), workloads=(workload,))
    back = cell_from_json(json.loads(json.dumps(cell_to_json(cell))))
    assert back == cell
    assert back.origin == cell.origin


@pytest.mark.parametrize(
    "damage", [{"workloads": [{"kind": "nope"}]}, {"limits": {"x": 1}}, {"origin": 5}, {"seed": ...}]
)
def test_damaged_cells_are_refused(small: str, damage: dict[str, object]) -> None:
    """A cell that is not one gives an error, not a half-made cell."""
    data = {**cell_to_json(only(small)), **damage}
    data = {key: value for key, value in data.items() if value is not ...}
    with pytest.raises(ScenarioError, match="not a cell description"):
        cell_from_json(data)


def test_flows() -> None:
    """Pairs are each named once, in the order in which they start."""
    assert flows_of(TcpBulk("a", ("x", "y"), ("z",), flows=5)) == (("x", "z"), ("y", "z"))
    assert flows_of(TcpBulk("a", ("x", "y"), ("z",), flows=1)) == (("x", "z"),)
    assert flows_of(Checkpoint("a", ("x", "x"), "z", 1)) == (("x", "z"),)
    assert flows_of(Ping("a", "x", "z")) == (("x", "z"),)


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "words"),
    [
        (
            "source: g1",
            "source: g9",
            6,
            "workloads[0].source",
            "there is no host 'g9' in the topology: known",
        ),
        ("target: s1}", "target: la1}", 6, "workloads[0].target", "'la1' is a switch"),
        ("target: s1}", "target: g1}", 6, "workloads[0]", "to itself"),
        ("[g1, g2]", "[g1, x2]", 7, "workloads[1].initiators[1]", "there is no host 'x2'"),
        ("g1-eth0", "g1-eth7", 8, "capture[0]", "there is no interface 'g1-eth7': did you mean 'g1-eth0'?"),
    ],
)
def test_check_against_a_fabric(old: str, new: str, line: int, key: str, words: str) -> None:
    """What only the built topology can tell is reported with the line of the scenario file."""
    cell = resolve(loads(ICGW.replace(old, new, 1), "f.yaml"))[0]
    with pytest.raises(ScenarioError) as caught:
        check_against(FABRICS["icgw"](), cell)
    assert words in str(caught.value)
    assert (caught.value.file, caught.value.line, caught.value.key) == ("f.yaml", line, key)


def test_designs_need_their_nodes() -> None:
    """The gateway design on a fabric without a gateway is refused before anything is built."""
    gateway = resolve(loads(ICGW, "f.yaml"))[1]
    check_against(FABRICS["icgw"](), gateway)
    with pytest.raises(ScenarioError, match=r"f\.yaml:4: designs: the design 'gateway' needs a gateway node"):
        check_against(FABRICS["single"](hosts=2), gateway)
