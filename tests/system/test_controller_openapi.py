"""The OpenAPI description is held against what a running server does, by a program that others wrote."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from tests.support.rest_server import rest_server

_SUPPORT = Path(__file__).resolve().parents[1] / "support"
_TOKEN = "correct-horse-battery-staple"
_TIMEOUT_S = 600


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    """All of its checks, on all resources and methods, with tokens: no server error, no answer that the description
    does not have, wrong bodies and parameters refused, right ones taken, undeclared methods 405, no way around tokens.
    """
    tokens = tmp_path / "tokens.json"
    digest = hashlib.sha256(_TOKEN.encode()).hexdigest()
    tokens.write_text(json.dumps([{"name": "tester", "role": "write", "sha256": digest}]))
    tokens.chmod(0o600)
    log = tmp_path / "server.log"
    with rest_server(log, "--store", "--tokens", str(tokens)) as (port, process):
        argv = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(_SUPPORT / "schemathesis.toml")]
        argv += ["run", f"http://127.0.0.1:{port}/v1/openapi.json", "--header", f"Authorization: Bearer {_TOKEN}"]
        argv += ["--checks", "all", "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "5"]
        argv += ["--seed", "1", "--continue-on-failure", "--no-color", "--generation-database", "none"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd=tmp_path)
        (tmp_path / "report").write_text(done.stdout)
        assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
        assert "Selected: 163/163" in done.stdout
        assert "Tested: 163" in done.stdout
        assert process.poll() is None
    assert "Traceback" not in log.read_text()
    assert "ERROR" not in log.read_text()
