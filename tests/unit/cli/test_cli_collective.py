"""`icgw collective` refuses what cannot be before anything is started: one line, exit code 2."""

from __future__ import annotations

import json

import pytest

from emulator import cli

TORUS = ["--topo", "torus3d,x=2,y=2,z=2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topo", "nope"], "topology: there is no kind 'nope'"),
        (["--topo", "torus3d,x"], "--topo: 'x' is no parameter: write it like x=4"),
        (["--topo", "torus3d,x=2,y=2, x =3"], "--topo: 'x' is given twice"),
        (["--topo", "torus3d,kind=tree"], "--topo: 'kind' is given twice"),
        (["--topo", "torus3d,q=2"], "topology.q: unknown key"),
        (["--topo", "torus3d,x=2,rate=fast"], "topology.rate: "),
        ([*TORUS, "-b", "3"], "workloads[0].begin: 3 B are not whole numbers of 4 B each"),
        ([*TORUS, "-b", "3x"], "size: '3x'"),
        ([*TORUS, "-b", "2K", "-e", "1K"], "'end' is below 'begin'"),
        ([*TORUS, "-a", "nix"], "'nix' does no all_reduce: auto, ring"),
        ([*TORUS, "-o", "prod"], "workloads[0].operation: "),
        ([*TORUS, "--ranks", "c0_0_0"], "only c0_0_0: there is nobody to send to"),
        ([*TORUS, "--shape", "3x3"], "3x3 are 9 ranks, and 8 hosts take part"),
        (["--scenario", "/does/not/exist.yaml"], "/does/not/exist.yaml"),
    ],
)
def test_refusals(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The line names the key that the same value would have in a scenario."""
    assert cli.main(["collective", "all_reduce", *arguments, "-q", "--json"]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert json.loads(captured.out)["exit_code"] == 2


def test_a_topology_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """Either of the two ways to name one."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["collective"])
    assert caught.value.code == 2
    assert "--topo" in capsys.readouterr().err
