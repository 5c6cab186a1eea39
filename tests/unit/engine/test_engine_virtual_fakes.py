"""The virtual engine against kernels that misbehave in every way a kernel can: one clear line each, nothing left."""

from __future__ import annotations

import ast
import json
import logging
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.engine.job import Job, Limits
from emulator.engine.virtual import VirtualEngine
from emulator.engine.virtual import engine as engine_module
from emulator.errors import (
    EngineError,
    LimitError,
    MissingCapability,
    ScenarioError,
    StalledError,
    WorkloadError,
)

FakeKernel = Callable[[str], Path]
WELL = "leave 0 0 160000001\n"


def page(state: int, time_ns: int, pid: int, comm: bytes, message: bytes = b"", calls: int = 0) -> str:
    """A status page as shell text that writes it."""
    raw = struct.pack("<8sIIQ6QIII16s", b"UMLTIME\0", 1, state, time_ns, 0, 0, calls, 0, 0, 0, 2, pid, pid, comm)
    raw = raw.ljust(128, b"\0") + message.ljust(256, b"\0")
    octal = "".join(f"\\{byte:03o}" for byte in raw)
    # In place, as the kernel does: the engine has mapped the file.
    return f"""printf '{octal}' | dd of="$status" conv=notrunc status=none\n"""


def run(kernel: Path, base: Path, recorder: object, *jobs: Job) -> list:
    return VirtualEngine(kernel, base).run(jobs, recorder)


def test_a_job_that_ends_well(fake_kernel: FakeKernel, base: Path, out: Path, recorder) -> None:
    """Exit code and virtual time come from the machine's record, and nothing stays in the base folder."""
    [result] = run(fake_kernel(WELL), base, recorder, Job("a", ("true",), out))
    assert (result.exit_code, result.virtual_ns, result.log) == (0, 160000001, out / "log.txt")
    assert recorder.events == [("started", "a"), ("finished", "a")]
    assert not base.exists()


def test_a_non_zero_exit_without_a_report_is_only_a_number(
    fake_kernel: FakeKernel, base: Path, out: Path, recorder
) -> None:
    """A job that fails without error.json is the caller's to judge."""
    kernel = fake_kernel("leave 137 0 5")
    [result] = run(kernel, base, recorder, Job("a", ("x",), out))
    assert result.exit_code == 137


@pytest.mark.parametrize(
    ("kind", "message", "expected", "exit_code"),
    [
        ("WorkloadError", "fio died", WorkloadError, 7),
        ("ScenarioError", "s.yaml:3: hosts: too many", ScenarioError, 2),
        ("MissingCapability", "missing netem: get it", MissingCapability, 3),
        ("CommandError", "'tc' ended with status 2", EngineError, 4),
        ("SomethingNew", "it broke", WorkloadError, 7),
    ],
)
def test_a_reported_error_is_raised_as_itself(
    fake_kernel: FakeKernel, base: Path, out: Path, recorder, kind: str, message: str, expected: type, exit_code: int
) -> None:
    """error.json plus a non-zero exit becomes the exception of that name, with the job's one line and exit code."""
    report = json.dumps({"exit_code": exit_code, "kind": kind, "message": message})
    (out.parent / "report").write_text(report)
    kernel = fake_kernel(f"cp {out.parent}/report {out}/error.json\nleave {exit_code} 0 5")
    with pytest.raises(expected) as caught:
        run(kernel, base, recorder, Job("a", ("x",), out))
    assert str(caught.value) == message
    assert caught.value.exit_code == exit_code
    assert not base.exists()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo 'Kernel panic - not syncing: Attempted to kill init!'; kill -ABRT $$", "panicked: Attempted to kill"),
        (
            "echo '[    0.150000] Kernel panic - not syncing: Requested init /x/init failed (error -2).'; exit 1",
            "cannot start its first program: Requested init /x/init failed (error -2).",
        ),
        ("echo '[ 0.1] Kernel panic - not syncing: No working init found.'", "cannot start its first program"),
        ("echo 'Kernel panic - not syncing: VFS: Unable to mount root fs'", "cannot use the host's root file system"),
        ("echo 'Kernel panic - not syncing: Out of memory: compulsory'", "ran out of its 2 GiB of memory"),
        ("exit 3", "the kernel does not boot: it ended with status 3 and printed nothing"),
        ("kill -SEGV $$", "the kernel does not boot: it ended with signal 11 and printed nothing"),
        ("echo 'open: permission denied'; exit 1", "it ended with status 1: open: permission denied"),
        ("printf '\\377\\376 \\033[31m'; exit 1", "it ended with status 1: "),
        (
            'echo "error mounting overlay on /sys/root: No such device" > "$run/control/ended"',
            "cannot be prepared: mounting overlay",
        ),
        (
            "echo 'first program: cannot say how the job ended: No space left on device'; echo '[ 0.2] reboot: x'",
            "the machine's first program: cannot say how the job ended: No space left on device",
        ),
        (page(3, 7, 1, b"init", b"sysrq triggered crash") + "kill -ABRT $$", "panicked: sysrq triggered crash"),
    ],
)
def test_a_kernel_that_fails_is_one_clear_line(
    fake_kernel: FakeKernel, base: Path, out: Path, recorder, body: str, said: str
) -> None:
    """Every way not to boot gives an EngineError in one line that names job, reason and log, and leaves nothing."""
    with pytest.raises(EngineError) as caught:
        run(fake_kernel(body), base, recorder, Job("a", ("x",), out))
    text = str(caught.value)
    assert text.startswith("job 'a': ")
    assert said in text
    assert text.endswith(f"(log: {out}/log.txt)")
    assert "\n" not in text
    assert not base.exists()


def test_the_console_of_a_failed_kernel_is_kept(fake_kernel: FakeKernel, base: Path, out: Path, recorder) -> None:
    """The log that the error names exists and holds what the kernel said, after what the job said."""
    kernel = fake_kernel(f"echo from the job >> {out}/log.txt; echo '[    0.1] BUG: bad'; exit 1")
    with pytest.raises(EngineError, match="BUG: bad"):
        run(kernel, base, recorder, Job("a", ("x",), out))
    assert (out / "log.txt").read_text() == "from the job\nkernel: BUG: bad\n"


def test_a_kernel_that_is_not_a_program(base: Path, out: Path, recorder, tmp_path: Path) -> None:
    """A file that cannot be executed is one line, not a traceback."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF not really")
    broken.chmod(0o755)
    with pytest.raises(EngineError, match=r"job 'a': cannot start the kernel .*/broken"):
        run(broken, base, recorder, Job("a", ("x",), out))
    assert not base.exists()


def test_the_virtual_limit(fake_kernel: FakeKernel, base: Path, out: Path, recorder) -> None:
    """A record that says the time was up becomes a LimitError with the limit in exact units."""
    kernel = fake_kernel("leave 137 1 5")
    job = Job("a", ("x",), out, limits=Limits(virtual_ns=1_500_000))
    with pytest.raises(LimitError, match=r"job 'a': reached its limit of 1\.5 ms of emulated time"):
        run(kernel, base, recorder, job)


def test_the_wall_limit_of_a_kernel_without_a_status_page(
    fake_kernel: FakeKernel, base: Path, out: Path, recorder, gone
) -> None:
    """A kernel that hangs and keeps no page is ended at the wall limit, with its children."""
    kernel = fake_kernel(f"sleep 1000 & echo $! > {out}/child; echo $$ > {out}/main; wait")
    job = Job("a", ("x",), out, limits=Limits(wall_s=0.5, stall_s=0.1))
    with pytest.raises(LimitError, match=r"reached its limit of 0\.5 s of real time"):
        run(kernel, base, recorder, job)
    assert gone(out / "child")
    assert gone(out / "main")
    assert not base.exists()


@pytest.mark.parametrize(
    ("state", "pid", "comm", "said"),
    [
        (1, 42, b"iperf3", r"stood still at 1\.5 s .*process 42 \(iperf3\) computes or busy-waits and never"),
        (1, 42, b"a) b\xff\nc", r"process 42 \(a\) b"),
        (1, 0, b"swapper", "nothing runs in the machine, and it waits for something outside"),
        (0, 1, b"swapper", "the kernel does not finish booting"),
    ],
)
def test_standing_time_names_who_holds_it_up(
    fake_kernel: FakeKernel, base: Path, out: Path, recorder, state: int, pid: int, comm: bytes, said: str
) -> None:
    """A page whose time does not move becomes a StalledError that tells busy-waiting from idling from booting."""
    kernel = fake_kernel(page(state, 1_500_000_000, pid, comm) + "sleep 1000")
    job = Job("a", ("x",), out, limits=Limits(stall_s=0.3))
    with pytest.raises(StalledError, match=said) as caught:
        run(kernel, base, recorder, job)
    assert "\n" not in str(caught.value)
    assert not base.exists()


def test_a_loop_of_system_calls_is_told_from_computing(
    fake_kernel: FakeKernel, base: Path, out: Path, recorder
) -> None:
    """System calls that go on while time stands still are counted in the message."""
    first, later = (page(1, 7, 42, b"poller", calls=calls) for calls in (1000, 5000))
    # The second page may come only after the first was seen; the engine then tells of the first by its time.
    waiting = f"while [ ! -e {out}/seen ]; do sleep 0.01; done\n"

    class Watcher(type(recorder)):
        def progressed(self, *_: object) -> None:
            (out / "seen").touch()

    job = Job("a", ("x",), out, limits=Limits(stall_s=1))
    with pytest.raises(StalledError, match=r"process 42 \(poller\) busy-waits with 4000 system calls and never sleeps"):
        run(fake_kernel(first + waiting + later + "sleep 1000"), base, Watcher(), job)


def test_progress_is_passed_on(fake_kernel: FakeKernel, base: Path, out: Path, recorder) -> None:
    """The last step and the last virtual time reach the observer, even of a job that ends between two looks."""
    (out.parent / "steps").write_text(
        '{"stage": "warm", "done": 1, "total": 2}\n{"stage": "run", "done": 2, "total": 2}\n'
    )
    kernel = fake_kernel(f"cat {out.parent}/steps > {out}/progress.jsonl\n" + page(2, 777, 1, b"init") + WELL)
    run(kernel, base, recorder, Job("a", ("x",), out))
    assert recorder.progress[-1] == ("a", 777, "run", 2, 2)


def test_a_host_without_seccomp_falls_back_to_ptrace(
    fake_kernel: FakeKernel, base: Path, out: Path, recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel's refusal leads to one warning and a second boot with ptrace; the job notices nothing."""
    kernel = fake_kernel(
        "[ $seccomp = off ] || { echo 'SECCOMP userspace requested but not functional!' >&2; exit 1; }\n" + WELL
    )
    with caplog.at_level(logging.WARNING):
        results = run(kernel, base, recorder, Job("a", ("x",), out))
    assert [result.exit_code for result in results] == [0]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["this host refuses seccomp filters"]


def test_seed_memory_and_instructions_reach_the_machine(
    fake_kernel: FakeKernel, base: Path, out: Path, recorder
) -> None:
    """Seed and memory are on the command line, the job's command and environment in the machine's instructions."""
    kernel = fake_kernel(f'echo $seed $memory > {out}/seen; cp "$run/init" {out}/init\n' + WELL)
    limits = Limits(memory_bytes=(100 << 20) + 1)
    job = Job(
        "a", ("prog", "a b", "ü"), out, seed=2**64 + 5, limits=limits, environment={"X": "1", "HOME": "/elsewhere"}
    )
    run(kernel, base, recorder, job)
    assert (out / "seen").read_text() == "5 101M\n"
    call = ast.parse((out / "init").read_text()).body[-1].value
    instructions = ast.literal_eval(call.args[0])
    assert instructions["argv"] == ["prog", "a b", "ü"]
    assert instructions["environment"]["X"] == "1"
    assert instructions["environment"]["HOME"] == "/elsewhere"
    assert instructions["environment"]["PYTHONHASHSEED"] == "0"
    assert not any(name.startswith(("SUDO", "LD_", "GITHUB")) for name in instructions["environment"])


def jobs_in(tmp_path: Path, count: int) -> list[Job]:
    jobs = []
    for index in range(count):
        folder = tmp_path / f"out{index}"
        folder.mkdir()
        jobs.append(Job(f"job{index}", (str(index),), folder))
    return jobs


def test_side_by_side_one_machine_a_cpu(
    fake_kernel: FakeKernel, base: Path, recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No two machines run on one CPU at a time, all CPUs are used, and results come in the order of the jobs."""
    cpus = os.sched_getaffinity(0)
    kernel = fake_kernel(
        f"""
cpu=$(grep Cpus_allowed_list /proc/self/status | cut -f2)
mkdir {tmp_path}/cpu-$cpu || exit 9
echo $cpu >> {tmp_path}/used
index=$(sed -n "s/^main(.*'argv': \\['\\([0-9]*\\)'.*/\\1/p" "$run/init")
rmdir {tmp_path}/cpu-$cpu
leave $index 0 1
"""
    )
    results = run(kernel, base, recorder, *jobs_in(tmp_path, 7))
    assert [result.exit_code for result in results] == list(range(7))
    assert {int(line) for line in (tmp_path / "used").read_text().split()} == cpus


def test_the_first_failure_ends_the_others(fake_kernel: FakeKernel, base: Path, recorder, gone, tmp_path: Path) -> None:
    """One job fails while others run and wait: their machines are ended and none is started any more."""
    kernel = fake_kernel(
        f"""
if grep -q "^main(.*'argv': \\['0'" "$run/init"; then
    [ {len(os.sched_getaffinity(0))} = 1 ] || while [ ! -e {tmp_path}/other ]; do sleep 0.01; done
    echo 'Kernel panic - not syncing: of all things'; exit 1
fi
echo $$ > {tmp_path}/other.new; mv {tmp_path}/other.new {tmp_path}/other; sleep 1000
"""
    )
    jobs = jobs_in(tmp_path, 5)
    with pytest.raises(EngineError, match="job 'job0': the kernel panicked: of all things"):
        run(kernel, base, recorder, *jobs)
    assert [event for event in recorder.events if event[0] == "finished"] == []
    assert len(recorder.events) == min(5, len(os.sched_getaffinity(0)))
    assert not (tmp_path / "other").exists() or gone(tmp_path / "other")
    assert not base.exists()


def test_no_memory_for_a_job(
    fake_kernel: FakeKernel, base: Path, out: Path, recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is larger than the host's free memory is refused before anything starts, with the two figures."""
    monkeypatch.setattr(engine_module, "available_bytes", lambda: 1 << 30)
    with pytest.raises(MissingCapability, match="memory: job 'a' needs 2 GiB and 1 GiB are free"):
        run(fake_kernel(WELL), base, recorder, Job("a", ("x",), out))
    assert recorder.events == []


def test_jobs_wait_for_memory(
    fake_kernel: FakeKernel, base: Path, recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With memory for one machine, the second starts only after the first has ended, whatever the CPUs."""
    monkeypatch.setattr(engine_module, "available_bytes", lambda: 3 << 30)
    kernel = fake_kernel(f"mkdir {tmp_path}/alone || exit 9\nrmdir {tmp_path}/alone\n" + WELL)
    results = run(kernel, base, recorder, *jobs_in(tmp_path, 3))
    assert [result.exit_code for result in results] == [0, 0, 0]
    assert [kind for kind, _ in recorder.events] == ["started", "finished"] * 3


def test_an_observer_that_fails_leaves_nothing(fake_kernel: FakeKernel, base: Path, out: Path, recorder, gone) -> None:
    """An exception from the caller's own code comes out unchanged, after everything was cleaned up."""

    class Broken(type(recorder)):
        def progressed(self, *_: object) -> None:
            raise ZeroDivisionError

    kernel = fake_kernel(page(1, 1, 1, b"x") + f"echo $$ > {out}/main; sleep 1000")
    with pytest.raises(ZeroDivisionError):
        run(kernel, base, Broken(), Job("a", ("x",), out))
    assert not base.exists()
    assert gone(out / "main")


def test_traces_of_an_earlier_run_are_not_taken_for_new(
    fake_kernel: FakeKernel, base: Path, out: Path, recorder
) -> None:
    """A folder that is used again does not bring back the old error, progress or log."""
    (out / "error.json").write_text('{"exit_code": 7, "kind": "WorkloadError", "message": "old"}')
    (out / "log.txt").write_text("old")
    (out / "progress.jsonl").write_text('{"stage": "old", "done": 1, "total": 1}\n')
    kernel = fake_kernel("leave 7 0 5")
    [result] = run(kernel, base, recorder, Job("a", ("x",), out))
    assert result.exit_code == 7
    assert all(stage != "old" for _, _, stage, _, _ in recorder.progress)
    assert not (out / "log.txt").exists()
