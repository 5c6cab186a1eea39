"""Cost models from files: what they mean, that they travel with the cell, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import ScenarioError
from emulator.model.profile import PROFILES, StationModel
from emulator.scenario.codec import cell_from_json, cell_to_json
from emulator.scenario.load import load
from emulator.scenario.profile_file import load_profile
from emulator.scenario.resolve import resolve

FILE = Path(__file__).parents[2] / "data" / "profiles" / "measured.yaml"
SCENARIO = """\
scenario: quick
question: What does the measured gateway cost?
topology: {kind: icgw}
designs: [gateway, conventional]
profiles: [documents, costs.yaml]
workloads:
  - {name: rtt, kind: ping, source: compute, target: storage, count: 3, interval: 1 ms}
"""


def in_folder(folder: Path, profile: str, scenario: str = SCENARIO) -> Path:
    """A scenario that names a profile file, next to it."""
    (folder / "costs.yaml").write_text(profile, encoding="utf-8")
    path = folder / "quick.yaml"
    path.write_text(scenario, encoding="utf-8")
    return path


def test_medians_become_stations() -> None:
    """Each kind of node gets its mode's medians; what is not given is not limited; the source says where it is from."""
    profile = load_profile(FILE)
    assert (profile.name, profile.media) == ("calibrated", PROFILES["documents"].media)
    source = "measured.yaml: offload, gateway, flows offloaded to XDP (cpu: an AMD EPYC virtual machine, "
    assert profile.gateway == StationModel(
        7_000, 3_700_000, 50_000_000_000, 4096, source + "kernel: Linux 6.18, rounds: 3)"
    )
    assert (profile.router.latency_ns, profile.router.packet_rate, profile.router.bit_rate_bps) == (
        12_000,
        1_450_000,
        None,
    )
    assert (profile.compute.latency_ns, profile.compute.packet_rate) == (41_000, None)


def test_a_scenario_names_a_file(tmp_path: Path) -> None:
    """The file is found from the scenario's folder, cells carry its costs wherever they run."""
    scenario = load(in_folder(tmp_path, FILE.read_text(encoding="utf-8")))
    cells = resolve(scenario)
    assert [(cell.design, cell.profile) for cell in cells] == [
        ("gateway", "documents"),
        ("gateway", "calibrated"),
        ("conventional", "documents"),
        ("conventional", "calibrated"),
    ]
    measured = cells[1]
    assert measured.costs.gateway.latency_ns == 7_000
    assert cell_from_json(cell_to_json(measured)) == measured


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("gateway: offload,", "gateway: ofload,", r"costs\.yaml:21: stations\.gateway: there is no mode 'ofload'"),
        ("low: 6 us", "low: 8 us", r"costs\.yaml:8: modes\.offload\.latency: 'low', 'median' and 'high' are not"),
        ("latency: 12 us", "latency: 12", r"costs\.yaml:15: modes\.ip_forwarding\.latency"),
        ("latency: 12 us", "latenz: 12 us", r"costs\.yaml:1[35]: modes\.ip_forwarding\.laten"),
        ("packet_cost_ns: 200.5", "packet_cost_ns: -1", r"costs\.yaml:11: modes\.offload\.packet_cost_ns"),
        ("profile: calibrated", "profile: documents", r"costs\.yaml:2: profile: there is a profile 'documents'"),
        ("profile: calibrated", "profile: Über", r"costs\.yaml:2: profile: "),
        ("packet_rate: 1450000", "packet_rate: 0", r"costs\.yaml:16: modes\.ip_forwarding\.packet_rate"),
        ("queue: 4096", "queue: 0", r"costs\.yaml:21: stations\.queue"),
        ("title: measured on one machine over veth pairs\n", "", r"costs\.yaml.*title"),
    ],
)
def test_wrong_files_are_refused_with_the_place(tmp_path: Path, old: str, new: str, where: str) -> None:
    """One line says which file, which line and which key is wrong."""
    text = FILE.read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(ScenarioError, match=where):
        resolve(load(in_folder(tmp_path, text.replace(old, new))))


def test_a_missing_file_and_a_name_given_twice(tmp_path: Path) -> None:
    """A file that is not there is named at the scenario's line; two files of one name are not two profiles."""
    path = in_folder(tmp_path, FILE.read_text(encoding="utf-8"), SCENARIO.replace("costs.yaml", "other.yaml"))
    with pytest.raises(ScenarioError, match=r"profiles\[1\]: .*other\.yaml"):
        resolve(load(path))
    (tmp_path / "again.yaml").write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
    path.write_text(SCENARIO.replace("documents, ", "again.yaml, "), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"quick\.yaml:5: profiles\[1\]: the profile 'calibrated' is given twice"):
        resolve(load(path))
