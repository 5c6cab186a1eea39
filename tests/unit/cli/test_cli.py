"""The icgw command: what users see of good and bad input, without starting a machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulator import cli
from emulator.errors import EngineError
from emulator.experiment import commands
from emulator.results import ResultsFolder

SCENARIO = """\
scenario: tiny
question: Does it work?
topology: {kind: chain, hops: 2, rate: 100 Gbit/s, delay: 1 us}
workloads:
  - {name: rtt, kind: ping, source: h0, target: h1}
"""


@pytest.fixture
def write(tmp_path: Path):
    """Writes a scenario with one text replaced and returns its path."""

    def _write(old: str = "", new: str = "") -> Path:
        assert old in SCENARIO
        path = tmp_path / "tiny.yaml"
        path.write_text(SCENARIO.replace(old, new) if old else SCENARIO, encoding="utf-8")
        return path

    return _write


def test_check_says_what_is_fine(write, capsys: pytest.CaptureFixture[str]) -> None:
    """A good file is named with the number of its cells, and the exit code is 0."""
    path = write()
    assert cli.main(["check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: tiny, 1 cell: fine\n"


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("hops: 2", "hopps: 2", 3, "hopps"),
        ("100 Gbit/s", "100 Gbit", 3, "unknown unit"),
        ("100 Gbit/s", "100", 3, "has no unit"),
        ("100 Gbit/s", "2 Tbit/s", 3, "topology.rate: a link rate of 2000000000000 bit/s is impossible"),
        ("hops: 2", "hops: 0", 3, "hops"),
        ("target: h1", "target: h7", 5, "there is no host 'h7'"),
        ("target: h1", "target: s1", 5, "is a switch"),
        ("target: h1", "target: h0", 5, "to itself"),
        ("kind: chain", "kind: moebius", 3, "moebius"),
        ("{name: rtt,", "{name: rtt, name: rtt,", 5, "duplicate key"),
        ("kind: ping", "kind: pong", 5, "pong"),
        ("scenario: tiny", "scenario: [tiny", None, "not valid YAML"),
    ],
)
def test_bad_scenarios_get_one_line(
    write, capsys: pytest.CaptureFixture[str], old: str, new: str, line: int | None, said: str
) -> None:
    """Each mistake is one line with file, line and key, and exit code 2; nothing is written."""
    path = write(old, new)
    assert cli.main(["check", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert said in printed.err
    assert printed.err.startswith(f"error: {path}:{line}: " if line else f"error: {path}:")
    assert list(path.parent.iterdir()) == [path]


def test_duplicate_workload_names(write, capsys: pytest.CaptureFixture[str]) -> None:
    """Two workloads of one name are refused."""
    path = write("target: h1}", "target: h1}\n  - {name: rtt, kind: ping, source: h1, target: h0}")
    assert cli.main(["check", str(path)]) == 2
    assert "rtt" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"\xff\xfe", b"- 1\n", b"a: &x 1\nb: *x\n"])
def test_files_that_are_no_scenarios(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    """Empty, binary and other files are one line, never a traceback."""
    path = tmp_path / "odd.yaml"
    path.write_bytes(content)
    assert cli.main(["check", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_check_goes_on_after_a_bad_file(write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All files are looked at; the exit code tells that one was bad."""
    good = write()
    assert cli.main(["check", str(tmp_path / "missing.yaml"), str(good)]) == 2
    printed = capsys.readouterr()
    assert "missing.yaml" in printed.err
    assert "fine" in printed.out


def test_json_errors(write, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json an error is also an object on standard output, for programs."""
    path = write("hops: 2", "hops: two")
    assert cli.main(["plan", "--json", str(path)]) == 2
    data = json.loads(capsys.readouterr().out)
    assert data["exit_code"] == 2
    assert "hops" in data["error"]


def test_plan_as_json(write, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan has nodes, links and predictions before anything runs: two hops, 4036 ns for a ping and back."""
    assert cli.main(["plan", "--json", str(write())]) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert [node["name"] for node in plan["nodes"]] == ["h0", "h1", "s1"]
    assert len(plan["links"]) == 2
    assert plan["predictions"][0]["latency_ns"] == 4036


def test_unknown_variant(write, capsys: pytest.CaptureFixture[str]) -> None:
    """A variant that does not exist is answered with those that do."""
    assert cli.main(["plan", "--variant", "x", str(write())]) == 2
    assert capsys.readouterr().err == "error: --variant: there is no variant 'x': choose from base\n"


def test_out_that_is_not_a_results_folder(write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody's folder is never overwritten."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("precious", encoding="utf-8")
    assert cli.main(["run", str(write()), "--out", str(mine), "--quiet"]) == 2
    assert "not a results folder" in capsys.readouterr().err
    assert (mine / "thesis.tex").read_text(encoding="utf-8") == "precious"


def test_no_kernel(write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a kernel the run says how to get one, with exit code 3."""
    monkeypatch.setenv("ICGW_KERNEL", str(tmp_path / "none"))
    assert cli.main(["run", str(write()), "--out", str(tmp_path / "r"), "--quiet"]) == 3
    assert capsys.readouterr().err.startswith("error: missing virtual-time kernel: ")


def test_failures_keep_their_exit_code(write, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """An error of any layer ends as its line and its code; anything unforeseen as 70, still one line."""

    def fail(*_: object, **__: object) -> None:
        raise EngineError("the machine broke")

    monkeypatch.setenv("ICGW_KERNEL", "/bin/true")
    monkeypatch.setattr(commands, "run", fail)
    assert cli.main(["run", str(write()), "--quiet"]) == 4
    assert capsys.readouterr().err == "error: the machine broke\n"

    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("surprise")

    monkeypatch.setattr(commands, "run", crash)
    assert cli.main(["run", str(write()), "--quiet"]) == 70
    err = capsys.readouterr().err
    assert err.startswith("error: unexpected RuntimeError: surprise")
    assert err.count("\n") == 1


def test_interrupt(write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C is exit code 130 and one line."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("ICGW_KERNEL", "/bin/true")
    monkeypatch.setattr(commands, "run", interrupt)
    assert cli.main(["run", str(write()), "--quiet"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


_IMPATIENT = """\
import atexit, os, signal, sys
from emulator import cli
from emulator.experiment import commands

def press(*_, kill=os.kill, pid=os.getpid(), number=signal.SIGINT, **__):
    for _ in range(3):
        kill(pid, number)

class Leftover:
    def __del__(self, press=press):
        press()

fail = cli._fail
commands.{where} = lambda *_, **__: press()
cli._fail = lambda *words: (press(), fail(*words))[1]
atexit.register(press)
leftover = Leftover()
sys.argv = ["icgw", "check", "a.yaml"]
sys.exit(cli.main())
"""


@pytest.mark.parametrize(
    ("where", "code", "said"),
    [("check", 130, "error: interrupted\n"), ("print_json", 2, "error: a.yaml: cannot be read")],
)
def test_further_interrupts(tmp_path: Path, repository: Path, where: str, code: int, said: str) -> None:
    """Whenever more come (at the same moment, while the reason is said, when the interpreter runs what is registered
    for its end, and when it takes itself apart), the first one's line and exit code are all there is; and a command
    that came to its own end keeps its exit code.
    """
    script = _IMPATIENT.format(where=where)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
    assert done.returncode == code


def test_no_plots_where_none_are_drawn(repository: Path) -> None:
    """Commands that draw nothing do not wait for the library of plots, nor run what it registers for the end."""
    script = "import sys; from emulator.experiment import commands, run; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=repository, check=False).returncode == 0


def test_report_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without results is refused."""
    assert cli.main(["report", str(tmp_path)]) == 2
    assert "not a results folder" in capsys.readouterr().err


def test_a_reader_that_goes_away(write, repository: Path) -> None:
    """``icgw plan … | head`` ends quietly: no traceback when nobody reads on."""
    argv = [sys.executable, "-m", "emulator.cli", "plan", str(write())]
    read, write_end = os.pipe()
    os.close(read)
    done = subprocess.run(argv, cwd=repository, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert done.stderr == b""
    assert done.returncode == 0


def test_a_full_output(write, repository: Path) -> None:
    """Output that cannot be written is one line and exit code 3, not a traceback."""
    argv = [sys.executable, "-m", "emulator.cli", "plan", "--json", str(write())]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(argv, cwd=repository, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("No space left on device\n")


def test_a_locale_without_our_letters(write, repository: Path) -> None:
    """Where the terminal cannot show a letter it is replaced; nothing fails for it."""
    argv = [sys.executable, "-m", "emulator.cli", "plan", str(write())]
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(argv, cwd=repository, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_failed_check_into_a_closed_pipe(write, repository: Path) -> None:
    """A bad file is exit code 2 also when nobody reads what is printed about the good ones."""
    argv = [sys.executable, "-m", "emulator.cli", "check", "missing.yaml", str(write())]
    read, write_end = os.pipe()
    os.close(read)
    done = subprocess.run(argv, cwd=repository, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert done.returncode == 2


def test_earlier_results_survive_a_run_that_cannot_start(write, tmp_path: Path, monkeypatch, capsys) -> None:
    """Without a kernel, or into a folder in use, nothing of an earlier run is lost."""
    folder = tmp_path / "r"
    with ResultsFolder.create(folder) as results:
        results.write_records([])
        monkeypatch.setenv("ICGW_KERNEL", "/bin/true")
        assert cli.main(["run", str(write()), "--out", str(folder), "--quiet"]) == 3
        assert "another run is writing into" in capsys.readouterr().err
    monkeypatch.setenv("ICGW_KERNEL", str(tmp_path / "none"))
    assert cli.main(["run", str(write()), "--out", str(folder), "--quiet"]) == 3
    assert (folder / "results.json").is_file()


def test_help_and_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """Help lists the commands and exit codes; a wrong option is exit code 2."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("check", "plan", "run", "report", "host", "clean", "exit codes"))
    with pytest.raises(SystemExit) as ended:
        cli.main(["run"])
    assert ended.value.code == 2
