"""Reading results folders: what was written comes back, and damage is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import ScenarioError
from emulator.model.distribution import Distribution
from emulator.results import (
    CellInfo,
    ClassCounters,
    Counters,
    Manifest,
    Measured,
    PortCounters,
    Results,
    Revision,
    Series,
    counters_to_json,
    distributions_to_json,
    package_versions,
    program_versions,
    read_results,
    series_to_json,
    tree_revision,
)
from emulator.results.side import (
    counters_from_json,
    distributions_from_json,
    series_from_json,
    workload_distributions_from_json,
)
from tests.support.synthetic_results import write_demo

SERIES = {"h0-eth0": Series((0, 10, 20), (0, 5, 9), (0, 3, 1))}
DISTRIBUTIONS = {"rtt": {"rtt": Measured("ns", Distribution.of([5, 7, 5]))}}
PORT = {"node": "a", "interface": "a-eth0", "tx_bytes": 1, "rx_bytes": 2, "tx_packets": 3, "rx_packets": 4, "drops": 5}
CLASS = {"name": "storage", "tx_bytes": 1, "tx_packets": 1, "drops": 0}
COUNTERS = Counters((PortCounters("h0", "h0-eth0", 1, 2, 3, 4, 5),), 17)


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A folder with made-up results of both designs."""
    return write_demo(tmp_path / "r").path


def test_a_folder_comes_back(demo: Path) -> None:
    """Manifest, records, fabrics and side files are all there, cells in order."""
    results = read_results(demo)
    assert isinstance(results, Results)
    assert [cell.info.variant for cell in results.cells] == ["conventional/documents", "gateway/documents"]
    assert list(results.by_variant) == ["conventional/documents", "gateway/documents"]
    assert sum(map(len, results.by_variant.values())) == len(results.records) > 20
    for cell in results.cells:
        assert cell.fabric is not None
        assert cell.fabric.name == "icgw"
        assert cell.side.series
        assert cell.side.distributions["traversal"]["rtt"].unit == "ns"
    assert results.cells[0].side.counters is not None
    assert results.cells[0].side.counters.storage_bytes_through_compute == 400_000_000


def test_side_files_may_be_missing(demo: Path) -> None:
    """A run without sampling or captures is read all the same."""
    for path in demo.glob("cells/0/*.json"):
        path.unlink()
    cell = read_results(demo).cells[0]
    assert (cell.fabric, cell.side.counters, dict(cell.side.series), dict(cell.side.distributions)) == (
        None,
        None,
        {},
        {},
    )


def test_side_data_survive_json() -> None:
    """Series, distributions and counters come back equal."""
    assert series_from_json(json.loads(json.dumps(series_to_json(SERIES))), "f") == SERIES
    assert distributions_from_json(json.loads(json.dumps(distributions_to_json(DISTRIBUTIONS))), "f") == DISTRIBUTIONS
    assert counters_from_json(json.loads(json.dumps(counters_to_json(COUNTERS))), "f") == COUNTERS


def test_queues_of_storage_and_compute_come_back() -> None:
    """Ports with queues of their own for storage and compute say so; the others have no such key."""
    classes = (ClassCounters("storage", 10, 1, 0), ClassCounters("compute", 20, 2, 7))
    counters = Counters((*COUNTERS.ports, PortCounters("s1", "s1-eth1", 30, 0, 3, 0, 7, classes)), None)
    data = json.loads(json.dumps(counters_to_json(counters)))
    assert counters_from_json(data, "f") == counters
    assert [("classes" in port) for port in data["ports"]] == [False, True]


def test_every_form_of_a_distribution() -> None:
    """Plain values, values with counts and histograms mean the same."""
    for form in ({"values": [5, 7, 5]}, {"values": [7, 5], "counts": [1, 2]}, {"histogram": [[5, 1], [7, 1], [5, 1]]}):
        assert distributions_from_json({"rtt": {"rtt": {"unit": "ns", **form}}}, "f") == DISTRIBUTIONS
    one = {"workload": "rtt", "distributions": [{"metric": "rtt", "unit": "ns", "values": [5, 5, 7]}]}
    assert workload_distributions_from_json(one, "f") == DISTRIBUTIONS


def test_ccdf() -> None:
    """Every value is reached by the share of values that are at least as large."""
    assert DISTRIBUTIONS["rtt"]["rtt"].ccdf() == [(5, 1.0), (7, pytest.approx(1 / 3))]


@pytest.mark.parametrize(
    ("read", "data", "words"),
    [
        (series_from_json, {}, "has no 'interfaces'"),
        (series_from_json, {"interfaces": []}, "a JSON object is expected"),
        (series_from_json, {"interfaces": {"a": {"t_ns": [1], "tx_bytes": [1]}}}, "has no 'backlog_packets'"),
        (series_from_json, {"interfaces": {"a": {"t_ns": [1], "tx_bytes": [1, 2], "backlog_packets": [1]}}}, "differ"),
        (series_from_json, {"interfaces": {"a": {"t_ns": [2, 1], "tx_bytes": [1, 2], "backlog_packets": [1, 1]}}},
         "interfaces.a.t_ns: does not ascend"),
        (series_from_json, {"interfaces": {"a": {"t_ns": [1.5], "tx_bytes": [1], "backlog_packets": [1]}}},
         "is not a list of whole numbers"),
        (distributions_from_json, {"w": {"m": {"values": [1]}}}, "w.m: has no 'unit'"),
        (distributions_from_json, {"w": {"m": {"unit": 5, "values": [1]}}}, "w.m.unit: 5 is not text"),
        (distributions_from_json, {"w": {"m": {"unit": "ns"}}}, "has no 'values'"),
        (distributions_from_json, {"w": {"m": {"unit": "ns", "values": []}}}, "w.m: is empty"),
        (distributions_from_json, {"w": {"m": {"unit": "ns", "values": [1], "counts": [1, 2]}}}, "differ in number"),
        (distributions_from_json, {"w": {"m": {"unit": "ns", "histogram": [[1]]}}}, "is not [value, count]"),
        (distributions_from_json, {"w": {"m": {"unit": "ns", "histogram": [[1, 0]]}}}, "is not part of a distribution"),
        (counters_from_json, {"ports": [{"node": "a"}]}, "ports[0]: a port has the keys"),
        (counters_from_json, {"ports": [], "storage_bytes_through_compute": "x"}, "is not a whole number"),
        (counters_from_json, {"ports": [{**PORT, "classes": [{"name": "x"}]}]}, "ports[0].classes[0]: a class has the"),
        (counters_from_json, {"ports": [{**PORT, "classes": "x"}]}, "ports[0].classes: a JSON list is expected"),
        (counters_from_json, {"ports": [{**PORT, "classes": [CLASS | {"drops": 1.5}]}]}, "counters whole numbers"),
        (counters_from_json, {"ports": [{**PORT, "classes": [CLASS | {"name": 5}]}]}, "names are text"),
        (counters_from_json, {"ports": 5}, "ports: a JSON list is expected"),
    ],
)  # fmt: skip
def test_damaged_side_files(read: Callable[[Any, str], object], data: object, words: str) -> None:
    """Damage in a side file is named with file and key."""
    with pytest.raises(ScenarioError) as caught:
        read(data, "f")
    assert words in str(caught.value)
    assert caught.value.file == "f"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 99}, "format: is of format 99, this program reads format 1"),
        ({"cells": [{}]}, "does not describe a run"),
        ({"cells": 5}, "does not describe a run"),
        ({"question": 5}, "question: is not text"),
        ({"kernel": []}, "kernel: is not a JSON object"),
        ({"revision": {"comit": "x"}}, "does not describe a run"),
        ({"profiles": {"p": {"title": "x"}}}, "profiles.p: has no 'gateway'"),
        ({"expectations": [{"reason": "x"}]}, "expectations[0]: has no variant, reason or passed"),
    ],
)
def test_damaged_manifests(demo: Path, change: dict[str, object], words: str) -> None:
    """A manifest that is not one is refused with its key."""
    path = demo / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ScenarioError) as caught:
        read_results(demo)
    assert words in str(caught.value)
    assert caught.value.file == str(path)


def test_a_manifest_without_a_key(demo: Path) -> None:
    """A missing key is named."""
    path = demo / "manifest.json"
    data = json.loads(path.read_text())
    del data["tools"]
    path.write_text(json.dumps(data))
    with pytest.raises(ScenarioError, match="has no 'tools'"):
        read_results(demo)


def test_damaged_folders(demo: Path, tmp_path: Path) -> None:
    """A folder that is none, and files that cannot be read, are named."""
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ScenarioError, match=r"is not a results folder: there is no manifest\.json"):
            read_results(path)
    (demo / "cells/0/fabric.json").write_text('{"name": 5}')
    with pytest.raises(ScenarioError, match=r"fabric\.json: .*not a fabric description"):
        read_results(demo)
    (demo / "cells/0/fabric.json").write_text("[]")
    with pytest.raises(ScenarioError, match="a JSON object is expected"):
        read_results(demo)
    (demo / "results.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ScenarioError, match=r"results\.json: is not UTF-8 text"):
        read_results(demo)
    (demo / "results.json").unlink()
    with pytest.raises(ScenarioError, match=r"results\.json: cannot be read"):
        read_results(demo)


def test_manifest_round_trip() -> None:
    """What a manifest says comes back, digest included."""
    manifest = Manifest(
        scenario="s", question="q?", scenario_file="s.yaml", scenario_text="a: 1\n", seed=5, engine="virtual",
        cells=(CellInfo("base", "gateway", "documents", "chain", workloads=[{"name": "x"}]),),
        revision=Revision("abc", dirty=True), warnings=("careful",), command=("icgw", "run"),
    )  # fmt: skip
    data = json.loads(json.dumps(manifest.as_json()))
    assert Manifest.from_json(data, "f") == manifest
    assert data["scenario_sha256"] == hashlib.sha256(b"a: 1\n").hexdigest()


def test_revisions_and_versions(tmp_path: Path, repository: Path) -> None:
    """The tree's revision is a commit; without a git tree, and for programs that are missing, nothing is made up."""
    assert tree_revision(tmp_path) == Revision(None, dirty=False)
    commit = tree_revision(repository).commit
    assert commit is None or len(commit) == 40
    assert "python" in package_versions(["no-such-package-at-all"])
    assert "no-such-package-at-all" not in package_versions(["no-such-package-at-all"])
    assert program_versions({"none": ["icgw-no-such-program"], "fails": ["false"], "echo": ["echo", " 1.2 \nx"]}) == {
        "echo": "1.2"
    }
