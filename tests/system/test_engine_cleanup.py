"""A run that is ended from outside, at any moment and by any signal, leaves no process, mount or file."""

from __future__ import annotations

import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulator.engine import process

pytestmark = pytest.mark.virtual

_DEADLINE_S = 60
_LOOK_S = 0.001

DRIVER = """
import sys
from pathlib import Path
from emulator.engine.job import Job, Limits
from emulator.engine.virtual import VirtualEngine
from tests.support.engine_jobs import Silent

base, out = map(Path, sys.argv[1:3])
script = ("sleep 3; echo started > $ICGW_OUT/started; (while :; do sleep 1; done) &"
          " while :; do sleep 1; read x < /proc/uptime; echo $x > $ICGW_OUT/now; done")
jobs = []
for index in range(3):
    (out / str(index)).mkdir()
    limits = Limits(10**15, 120, 60, 256 << 20)
    jobs.append(Job(f"j{index}", ("/bin/sh", "-c", script), out / str(index), limits=limits))
VirtualEngine(base=base).run(jobs, Silent())
"""


class Run:
    """An engine in a process of its own, and what can be seen of it from outside."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.base = folder / "runs"
        self.out = folder / "out"
        self.out.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(repository)}
        command = [sys.executable, "-c", DRIVER, str(self.base), str(self.out)]
        self.engine = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)

    def ledger(self) -> bool:
        """The run has written down that it exists."""
        return any(self.base.glob("*.ledger"))

    def spawned(self) -> bool:
        """The kernel's process has been written down."""
        return bool(self.sessions())

    def page(self) -> bool:
        """The kernel keeps its status page."""
        return any(path.read_bytes()[:8] == b"UMLTIME\0" for path in self.base.glob("*/m*/status"))

    def programs(self) -> bool:
        """The kernel has booted and runs programs."""
        return any(path.read_bytes()[12:16] == b"\1\0\0\0" for path in self.base.glob("*/m*/status"))

    def job_runs(self) -> bool:
        """The job has written its first file."""
        return any(self.out.glob("*/started"))

    def time_moved(self) -> bool:
        """A while has passed in the machine since the job wrote its first file."""
        return any(
            len(page := path.read_bytes()) >= 24 and struct.unpack_from("<Q", page, 16)[0] > 10 * 10**9
            for path in self.base.glob("*/m*/status")
        )

    def wait(self, moment: Callable[[Run], bool]) -> None:
        """Wait for a moment of the run, which must not end before."""

        def reached() -> bool:
            assert self.engine.poll() is None, self.engine.communicate()[1]
            return moment(self)

        wait_until(reached)

    def sessions(self) -> set[int]:
        """The kernels that the run's ledger names."""
        text = "".join(path.read_text() for path in self.base.glob("*.ledger"))
        return {int(number) for number in re.findall(r"^session (\d+) \d+$", text, re.MULTILINE)}

    def processes(self) -> list[int]:
        """All processes of the run that have not ended, wherever they were started."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(self.base).encode() in command and int(entry.name) != self.engine.pid:
                found.append(int(entry.name))
        return found


def wait_until(condition: Callable[[], bool]) -> None:
    """Look until a condition holds.

    Raises:
        TimeoutError: It does not, for a time that is long on any machine.
    """
    deadline = time.monotonic() + _DEADLINE_S
    between = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(condition.__name__)
        between.wait(_LOOK_S)


@pytest.fixture
def run(tmp_path: Path, repository: Path) -> Iterator[Run]:
    run = Run(tmp_path, repository)
    yield run
    if run.engine.poll() is None:
        run.engine.kill()
    run.engine.wait()
    run.engine.stderr.close()


MOMENTS = (Run.ledger, Run.spawned, Run.page, Run.programs, Run.job_runs, Run.time_moved)
SIGNALS = (
    (signal.SIGINT,),
    (signal.SIGINT, signal.SIGINT),
    (signal.SIGTERM,),
    (signal.SIGHUP,),
    (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT),
    (signal.SIGKILL,),
)
# Every moment meets every kind of end, in an order and with further delays that the seed decides.
CASES = [(moment, signals) for moment in MOMENTS for signals in SIGNALS]
random.Random(20).shuffle(CASES)


@pytest.mark.parametrize(
    ("moment", "signals"),
    CASES,
    ids=["-".join([moment.__name__, *(number.name for number in signals)]) for moment, signals in CASES],
)
def test_nothing_is_left(run: Run, moment: Callable[[Run], bool], signals: tuple[signal.Signals, ...]) -> None:
    """Whatever ends the engine, its kernels and their processes are gone, and with them every file and mount."""
    mounts = Path("/proc/self/mounts").read_text()
    run.wait(moment)
    # Somewhere after the event, not always right at it: a number of further looks, from the seed.
    for _ in range(random.Random(f"{moment.__name__}{signals}").randrange(2000)):
        os.sched_yield()
    sessions = run.sessions()
    for number in signals:
        run.engine.send_signal(number)
    _, said = run.engine.communicate(timeout=_DEADLINE_S)
    # Of several signals at once, which one Python notes first is not said anywhere.
    assert -run.engine.returncode in signals, said
    if signals == (signal.SIGKILL,):
        # The engine cannot do anything; its guard needs a moment.
        wait_until(lambda: not run.base.exists() and not run.processes())
    assert not run.processes()
    assert not any(list(process.session_members(session)) for session in sessions)
    assert not run.base.exists()
    assert Path("/proc/self/mounts").read_text() == mounts
    names = {entry.name for entry in run.out.glob("*/*")}
    assert names <= {"log.txt", "started", "now"}


def test_the_next_run_sweeps_what_a_killed_one_left(run: Run, repository: Path) -> None:
    """If the guard is killed too, the following run of the same user removes the folder and its last processes."""
    run.wait(Run.job_runs)
    [guard] = [pid for pid in run.processes() if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(guard, signal.SIGKILL)
    run.engine.kill()
    run.engine.wait()
    left = {path.name for path in run.base.iterdir()}
    assert left
    for index in range(3):
        (run.out / str(index)).rename(run.out / f"old{index}")
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    with subprocess.Popen([*run.engine.args], env=environment, stderr=subprocess.PIPE) as following:
        wait_until(lambda: any((run.out / str(index) / "started").exists() for index in range(3)))
        assert not left & {path.name for path in run.base.iterdir()}
        following.terminate()
        following.communicate(timeout=_DEADLINE_S)
    assert not run.base.exists()


def test_two_engines_at_a_time_take_different_cpus(tmp_path: Path, repository: Path) -> None:
    """Two runs of one user prefer CPUs that the other does not use, and ending one leaves the other alone."""
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        pytest.skip("needs 2 CPUs")
    code = DRIVER.replace("range(3)", "range(1)")
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    runs, seen = [], []
    try:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            command = [sys.executable, "-c", code, str(tmp_path / "runs"), str(tmp_path / name)]
            runs.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE))
            wait_until((tmp_path / name / "0" / "started").exists)
            ledger = next((tmp_path / "runs").glob(f"{runs[-1].pid}-*.ledger"))
            seen.append(re.findall(r"^cpu (\d+)$", ledger.read_text(), re.MULTILINE))
        assert seen[0] != seen[1]
        runs[0].terminate()
        runs[0].communicate(timeout=_DEADLINE_S)
        before = (tmp_path / "b" / "0" / "now").read_text()
        wait_until(lambda: (tmp_path / "b" / "0" / "now").read_text() not in (before, ""))
        assert runs[1].poll() is None
    finally:
        for one in runs:
            one.terminate()
            one.communicate(timeout=_DEADLINE_S)
    assert not (tmp_path / "runs").exists()
