"""Jobs in private namespaces of the host's kernel: limits, isolation, and nothing left however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.engine import process
from emulator.engine.hostcheck import probe_root
from emulator.engine.job import Job, JobResult, Limits
from emulator.engine.native import NativeEngine
from emulator.errors import EngineError, LimitError, MissingCapability, WorkloadError
from tests.support.engine_jobs import Silent

NEEDS = ("root", "unshare", "ip")

pytestmark = pytest.mark.skipif(
    not probe_root().present or subprocess.run(["unshare", "--net", "true"], check=False).returncode != 0,
    reason="needs root and the right to make namespaces",
)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """Folder of runs; after each test there must be nothing left of any."""
    yield tmp_path / "runs"
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def run(script: str, out: Path, base: Path, limits: Limits | None = None) -> tuple[JobResult, str]:
    job = Job("n", ("/bin/sh", "-c", script), out, limits=limits or Limits(memory_bytes=256 << 20))
    [result] = NativeEngine(NEEDS, base).run([job], Silent())
    return result, result.log.read_text()


def test_a_job_has_a_host_of_its_own(out: Path, base: Path) -> None:
    """Interfaces, named namespaces, processes, host name and /run are private; the results folder is the host's."""
    host_name, mounts = os.uname().nodename, Path("/proc/self/mounts").read_text()
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, check=True).stdout
    script = """
ip netns add mine; ip link add va type veth peer name vb netns mine; hostname other
ip -o link | cut -d: -f2 | tr '\\n' ' '; ls /run/netns; ls /sys/class/net | grep -c '^lo$'; ps -e -o comm= | head -1
echo x > /run/file; echo $HOME $PWD; cat /proc/self/timerslack_ns; echo result > $ICGW_OUT/result; exit 5"""
    result, log = run(script, out, base)
    assert result.exit_code == 5
    assert log.splitlines() == [" lo  va@if2 mine", "1", "init", "/run/home /", "1"]
    assert sorted(entry.name for entry in out.iterdir()) == ["log.txt", "result"]
    assert subprocess.run(["ip", "-o", "link"], capture_output=True, check=True).stdout == links
    assert (os.uname().nodename, Path("/proc/self/mounts").read_text()) == (host_name, mounts)
    assert not Path("/run/netns/mine").exists()
    assert not Path("/run/file").exists()


def test_daemons_end_with_the_job(out: Path, base: Path) -> None:
    """Whatever a job starts, in whatever session, is gone when the result is there."""
    run("setsid sh -c 'echo here > $ICGW_OUT/daemon; exec sleep 1000.125' & sleep 0.2", out, base)
    assert (out / "daemon").exists()
    assert subprocess.run(["pgrep", "-f", "sleep 1000.125"], capture_output=True, check=False).stdout == b""


@pytest.mark.parametrize(
    ("limits", "script", "said"),
    [
        (Limits(virtual_ns=300_000_000, memory_bytes=256 << 20), "sleep 1000", "limit of 300 ms of time"),
        (Limits(wall_s=0.4, memory_bytes=256 << 20), "setsid sleep 1000", "limit of 0.4 s of real time"),
        (
            Limits(memory_bytes=100 << 20),
            "python3 -c 'import time; x = b\"x\" * (300 << 20); time.sleep(1000)'",
            "limit of 100 MiB of memory",
        ),
    ],
)
def test_limits(limits: Limits, script: str, said: str, out: Path, base: Path) -> None:
    """Time by either clock and memory end the job with one line."""
    with pytest.raises(LimitError, match=f"job 'n': reached its {said}"):
        run(script, out, base, limits)


def test_what_a_job_reports_is_raised(out: Path, base: Path) -> None:
    """error.json and a non-zero status become the exception."""
    report = '{"exit_code": 7, "kind": "WorkloadError", "message": "disk on fire"}'
    with pytest.raises(WorkloadError, match=r"^disk on fire$"):
        run(f"echo '{report}' > $ICGW_OUT/error.json; exit 7", out, base)


def test_the_memory_of_a_job_is_measured(out: Path, base: Path) -> None:
    """All processes of the job together, while they run."""
    script = "for i in 1 2; do python3 -c 'import time; x = b\"x\" * (40 << 20); time.sleep(1)' & done; wait"
    result, _ = run(script, out, base)
    assert 80 << 20 < result.peak_memory_bytes < 160 << 20


def test_what_is_missing_is_told_before_anything_is_made(out: Path, base: Path) -> None:
    """A job larger than the host is refused, and so is a results folder that the job could not see."""
    with pytest.raises(MissingCapability, match="missing memory: job 'n' needs"):
        run("true", out, base, Limits(memory_bytes=1 << 60))
    job = Job("n", ("true",), Path("/run"), limits=Limits(memory_bytes=256 << 20))
    with pytest.raises(EngineError, match="may not be below /run"):
        NativeEngine(NEEDS, base).run([job], Silent())


DRIVER = """
import sys
from pathlib import Path
from emulator.engine.job import Job
from emulator.engine.native import NativeEngine
from tests.support.engine_jobs import Silent
out = Path(sys.argv[2])
script = "setsid sleep 1000.25 & ip netns add left; echo x > $ICGW_OUT/started; sleep 1000.25"
NativeEngine(("root", "unshare"), Path(sys.argv[1])).run([Job("n", ("/bin/sh", "-c", script), out)], Silent())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_signals_leave_nothing(number: signal.Signals, out: Path, base: Path, repository: Path) -> None:
    """However the engine ends, no process, namespace, mount or file of its job remains."""
    mounts = Path("/proc/self/mounts").read_text()
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    engine = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(base), str(out)], env=environment, stderr=subprocess.PIPE
    )

    def wait_until(what: str, condition: object) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, what
            threading.Event().wait(0.001)

    wait_until("the job starts", (out / "started").exists)
    [session] = {
        int(line.split()[1])
        for path in base.glob("*.ledger")
        for line in path.read_text().splitlines()
        if "session" in line
    }
    engine.send_signal(number)
    engine.communicate(timeout=60)
    assert engine.returncode == -number
    wait_until("its folder goes", lambda: not base.exists())
    assert not list(process.session_members(session))
    wait_until(
        "its daemons go",
        lambda: not subprocess.run(["pgrep", "-f", "sleep 1000.25"], capture_output=True, check=False).stdout,
    )
    assert Path("/proc/self/mounts").read_text() == mounts
    assert not Path("/run/netns/left").exists()
