"""The OpenAPI description is held against the real controller process with switches, by a program that others wrote.

`test_controller_openapi` does it at length with a made-up backend; here what answers is what runs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import topologies
from controller.client import wait_ready
from tests.support.controller_process import running_controller
from tests.support.dummy_ovs import dummy_ovs, missing

_CONFIG = Path(__file__).resolve().parents[1] / "support" / "schemathesis.toml"
_TIMEOUT_S = 300
_WAIT_NS = 60 * 10**9


@pytest.mark.skipif(bool(missing()), reason="Open vSwitch is not installed")
def test_schemathesis_finds_nothing_in_what_runs(tmp_path: Path) -> None:
    """All that can be read, and all that changes tenants' resources: every answer is one that the description has."""
    fabric = topologies.icgw(gpus=2, compute=1, storage=1)
    (tmp_path / "ovs").mkdir()
    with (
        running_controller(tmp_path, fabric, "gateway", (), "--store", ":memory:", "--lldp-interval", "0") as running,
        dummy_ovs(tmp_path / "ovs") as ovs,
    ):
        ovs.build(fabric, f"tcp:{running.openflow}")
        wait_ready(f"http://{running.rest}", len(fabric.switches), _WAIT_NS)
        for number, chosen in enumerate((("--include-method", "GET"), ("--include-tag", "tenants"))):
            argv = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(_CONFIG)]
            argv += ["run", f"http://{running.rest}/v1/openapi.json", *chosen, "--seed", "1"]
            argv += ["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"]
            argv[-1] += ",response_headers_conformance,response_schema_conformance,negative_data_rejection"
            argv += ["--phases", "fuzzing", "--max-examples", "1", "--continue-on-failure", "--no-color"]
            argv += ["--generation-database", "none"]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd=tmp_path)
            (tmp_path / f"report-{number}").write_text(done.stdout)
            assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
        assert running.process.poll() is None
        log = running.log.read_text()
    assert "Traceback" not in log
    assert " ERROR" not in log
