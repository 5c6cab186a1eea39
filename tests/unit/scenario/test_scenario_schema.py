"""The published schema, the scenario files of the project, and what must be kept in step with other parts."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import jsonschema
import pytest
import yaml

from emulator.model.workload import WORKLOADS
from emulator.scenario import check_against, load, resolve
from emulator.scenario.json_schema import scenario_schema, schema_text
from emulator.scenario.topology import TOPOLOGIES
from emulator.scenario.workload import WORKLOAD_SECTIONS
from topologies import FABRICS

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
FILES = sorted(SCENARIOS.rglob("*.yaml"))


def test_published_schema_is_up_to_date() -> None:
    """scenarios/schema.json is what the models say; `python -m emulator.scenario.json_schema` writes it."""
    assert (SCENARIOS / "schema.json").read_text(encoding="utf-8") == schema_text()


def test_schema_is_a_schema_with_descriptions() -> None:
    """It is valid, and every key that a file can have is described, so that editors help."""
    schema = scenario_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for part in (schema, *schema["$defs"].values()):
        assert part["description"]
        for key, value in part["properties"].items():
            assert value.get("description") or key == "kind", key


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario_files(file: Path) -> None:
    """Every scenario of the project is valid by schema and by loader, and fits the topology that it asks for."""
    jsonschema.validate(yaml.safe_load(file.read_text(encoding="utf-8")), scenario_schema())
    scenario = load(file)
    assert scenario.name == file.stem
    for cell in resolve(scenario):
        check_against(FABRICS[cell.kind](**cell.parameters), cell)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario_files_are_listed(file: Path) -> None:
    """scenarios/README.md has the question of every scenario."""
    readme = (SCENARIOS / "README.md").read_text(encoding="utf-8")
    assert str(file.relative_to(SCENARIOS)) in readme
    assert load(file).question in readme


@pytest.mark.parametrize("damage", [{"scenario": "A b"}, {"topology": {"kind": "chain", "hosp": 1}}, {"workloads": []}])
def test_schema_refuses_what_the_loader_refuses(damage: dict[str, object]) -> None:
    """Editors underline what the program would refuse."""
    data = yaml.safe_load((SCENARIOS / "smoke.yaml").read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, **damage}, scenario_schema())


def test_topology_parameters_are_in_step_with_the_functions() -> None:
    """Each kind of topology takes exactly the keyword arguments that its function has."""
    assert set(TOPOLOGIES) == set(FABRICS)
    for kind, section in TOPOLOGIES.items():
        ours = set(section.model_fields) - {"kind", "queue", "super_packets"}
        ours |= {"queue_packets", "queue_bdp", "true_packets"}
        assert ours == set(inspect.signature(FABRICS[kind]).parameters), kind


def test_workload_fields_are_in_step_with_the_dataclasses() -> None:
    """Each kind of workload has a key for every field of its dataclass that is not filled in, and the same defaults."""
    assert set(WORKLOAD_SECTIONS) == set(WORKLOADS)
    for kind, section in WORKLOAD_SECTIONS.items():
        every = dataclasses.fields(WORKLOADS[kind])
        fields = {field.name: field for field in every if not field.metadata.get("filled_in")}
        assert set(section.model_fields) - {"kind"} == set(fields)
        for name, field in section.model_fields.items():
            if name == "kind":
                continue
            if fields[name].default is dataclasses.MISSING:
                assert field.is_required(), name
            else:
                assert field.default == fields[name].default, name
