"""Canonical bytes depend on the records alone, and everything that is written reads back."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import ScenarioError
from emulator.model.distribution import Distribution
from emulator.results import Kind, Measured, Record, Series, canonical_json, parse_records, records_text
from emulator.results.canonical import identity
from emulator.results.side import (
    distributions_from_json,
    distributions_to_json,
    series_from_json,
    series_to_json,
)

TEXT = st.text(max_size=12)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
RECORDS = st.lists(
    st.builds(Record, TEXT, TEXT, TEXT, TEXT, NUMBERS, TEXT, st.sampled_from(Kind), TEXT),
    max_size=12,
    unique_by=identity,
)


@given(RECORDS, st.randoms(use_true_random=False))
def test_bytes_do_not_depend_on_order(records: list[Record], shuffler: random.Random) -> None:
    """Records in any order give the same bytes, and reading gives the same records."""
    text = records_text(records)
    shuffled = list(records)
    shuffler.shuffle(shuffled)
    assert records_text(shuffled) == text
    back = parse_records(text, "f")
    assert sorted(back, key=identity) == sorted(records, key=identity) == back
    assert records_text(back) == text
    assert json.loads(text) == [record.as_json() for record in back]


@given(
    st.recursive(
        st.none() | st.booleans() | NUMBERS | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)
    )
)
def test_canonical_json_reads_back(value: object) -> None:
    """Any JSON value survives, whatever order its keys were put in."""
    assert json.loads(canonical_json(value)) == value
    assert canonical_json(json.loads(canonical_json(value))) == canonical_json(value)


@given(
    st.text() | RECORDS.map(records_text).flatmap(lambda text: st.integers(0, len(text)).map(lambda end: text[:end]))
)
def test_damaged_files_give_one_line(text: str) -> None:
    """Text that is cut off or never was JSON gives records or a ScenarioError, nothing else."""
    refusal: ScenarioError | None = None
    try:
        parse_records(text, "f")
    except ScenarioError as error:
        refusal = error
    if refusal is not None:
        assert refusal.file == "f"
        assert "\n" not in str(refusal)


@given(st.dictionaries(TEXT, st.lists(st.tuples(*[st.integers(0, 2**63)] * 3), max_size=8), max_size=3))
def test_series_survive(data: dict[str, list[tuple[int, int, int]]]) -> None:
    """Series with ascending times come back equal."""
    series = {
        name: Series(
            tuple(sorted(row[0] for row in rows)), tuple(row[1] for row in rows), tuple(row[2] for row in rows)
        )
        for name, rows in data.items()
    }
    assert series_from_json(json.loads(canonical_json(series_to_json(series))), "f") == series


@given(
    st.dictionaries(TEXT, st.dictionaries(TEXT, st.lists(st.integers(0, 10**12), min_size=1, max_size=9), max_size=3))
)
def test_distributions_survive(data: dict[str, dict[str, list[int]]]) -> None:
    """Distributions come back equal, and their CCDF starts at one and falls."""
    distributions = {
        workload: {metric: Measured("ns", Distribution.of(sample)) for metric, sample in metrics.items()}
        for workload, metrics in data.items()
    }
    assert (
        distributions_from_json(json.loads(canonical_json(distributions_to_json(distributions))), "f") == distributions
    )
    for metrics in distributions.values():
        for measured in metrics.values():
            shares = [share for _, share in measured.ccdf()]
            assert shares[0] == 1.0
            assert all(later < earlier for earlier, later in pairwise(shares))


@pytest.mark.parametrize("script", ["folder", "schema"])
def test_bytes_do_not_depend_on_the_hash_seed(script: str, tmp_path: Path, repository: Path) -> None:
    """Two processes with different PYTHONHASHSEED write the same results, report and schema."""
    outputs = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        argv = {
            "folder": [sys.executable, "-c", _WRITE_FOLDER, str(folder)],
            "schema": [sys.executable, "-m", "emulator.scenario.json_schema"],
        }[script]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(repository)}
        done = subprocess.run(argv, env=environment, cwd=repository, capture_output=True, check=True)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        outputs.append([done.stdout, *((path.relative_to(folder), path.read_bytes()) for path in files)])
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > (1 if script == "folder" else 0)


_WRITE_FOLDER = """
import sys
from itertools import pairwise
from pathlib import Path
from emulator.report import write_report
from emulator.results import read_results
from tests.support.synthetic_results import write_demo
folder = Path(sys.argv[1])
write_demo(folder)
write_report(read_results(folder))
"""
