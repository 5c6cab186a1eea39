"""Jobs in the real virtual-time kernel: exit codes, limits, isolation from the host, and the same bytes every time."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.engine.job import Job, Limits
from emulator.engine.kernelimage import find_kernel
from emulator.engine.virtual import VirtualEngine
from emulator.errors import EngineError, LimitError, StalledError, WorkloadError
from tests.support.engine_jobs import SHORT, Silent, run_shell

pytestmark = pytest.mark.virtual

PYTHON = "/usr/bin/python3"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """Folder of runs; after each test there must be nothing left of any."""
    yield tmp_path / "runs"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 93", 93), ("kill -9 $$", 137), ("exec /no/such", 127)]
)
def test_exit_codes(script: str, code: int, out: Path, base: Path) -> None:
    """The job's own status comes back, a signal as 128 and its number, as shells have it."""
    result, _ = run_shell(script, out, base)
    assert result.exit_code == code


def test_time_travels(out: Path, base: Path) -> None:
    """A day of sleep passes in the machine and not on the host, and is measured to the microsecond."""
    limits = replace(SHORT, virtual_ns=10**14)
    result, log = run_shell("cut -d' ' -f1 /proc/uptime; sleep 86400; cut -d' ' -f1 /proc/uptime", out, base, limits)
    before, after = map(float, log.split())
    assert 86400 <= after - before < 86400.02
    assert 86400 * 10**9 < result.virtual_ns < 86401 * 10**9


def test_the_virtual_limit_is_exact(out: Path, base: Path) -> None:
    """A job that sleeps longer than its limit is ended at the limit, and its last words are in the log."""
    with pytest.raises(LimitError, match=r"reached its limit of 5 s of emulated time"):
        run_shell(
            "echo before; sleep 4; echo four; sleep 4; echo eight", out, base, replace(SHORT, virtual_ns=5 * 10**9)
        )
    assert (out / "log.txt").read_text() == "before\nfour\n"


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        ("while True: pass", r"computes or busy-waits and never sleeps"),
        ("import os\nwhile True: os.getppid()", r"busy-waits with \d{3,} system calls and never sleeps"),
    ],
)
def test_a_busy_wait_is_named(loop: str, said: str, out: Path, base: Path) -> None:
    """A program that spins without a clock stops the machine's time; the error names the process and what it does."""
    job = Job("spin", (PYTHON, "-c", f"print('spinning')\n{loop}"), out, limits=replace(SHORT, stall_s=1))
    out.mkdir()
    with pytest.raises(StalledError, match=rf"job 'spin': .* stood still .*process \d+ \(python3\) {said}"):
        VirtualEngine(base=base).run([job], Silent())
    assert (out / "log.txt").read_text() == "spinning\n"


def test_memory_ends_in_one_line(out: Path, base: Path) -> None:
    """A job that needs more memory than the machine has ends the run, instead of losing one of its processes."""
    out.mkdir()
    limits = replace(SHORT, memory_bytes=128 << 20)
    job = Job("big", (PYTHON, "-c", "x = bytearray(1 << 30)"), out, limits=limits)
    with pytest.raises(EngineError, match="job 'big': the emulated machine ran out of its 128 MiB of memory"):
        VirtualEngine(base=base).run([job], Silent())


def test_a_panic_is_told(out: Path, base: Path) -> None:
    """A kernel that crashes under the job is one line with its reason."""
    with pytest.raises(EngineError, match="the kernel panicked: sysrq triggered crash"):
        run_shell("echo c > /proc/sysrq-trigger", out, base)


def test_what_a_job_reports_is_raised(out: Path, base: Path, repository: Path) -> None:
    """`report_error` inside and a non-zero status become the exception outside."""
    out.mkdir()
    code = (
        "from emulator.engine.progress import report_error; report_error(7, 'WorkloadError', 'disk on fire'); exit(7)"
    )
    job = Job("w", (sys.executable, "-c", code), out, limits=SHORT, environment={"PYTHONPATH": str(repository)})
    with pytest.raises(WorkloadError, match=r"^disk on fire$"):
        VirtualEngine(base=base).run([job], Silent())


def test_progress_and_time_are_seen_from_outside(out: Path, base: Path, repository: Path) -> None:
    """The observer hears of the job's last step and of the time that passed."""
    seen: list[tuple[int, str, int, int]] = []

    class Watcher(Silent):
        def progressed(self, job: Job, virtual_ns: int, stage: str, done: int, total: int) -> None:
            seen.append((virtual_ns, stage, done, total))

    out.mkdir()
    code = "import time\nfrom emulator.engine.progress import report\ntime.sleep(50)\nreport('stage ü', 3, 4)"
    job = Job("p", (sys.executable, "-c", code), out, limits=SHORT, environment={"PYTHONPATH": str(repository)})
    [result] = VirtualEngine(base=base).run([job], Watcher())
    assert seen[-1][0] == pytest.approx(result.virtual_ns, abs=10**6)
    assert seen[-1][1:] == ("stage ü", 3, 4)


def test_the_host_stays_untouched(out: Path, base: Path, tmp_path: Path) -> None:
    """Inside, everything may be written and deleted; outside, only the results folder has changed."""
    treasure = tmp_path / "treasure"
    treasure.write_text("mine")
    mounts = Path("/proc/self/mounts").read_text()
    script = f"""set -e
cat {treasure}; echo changed > {treasure}; rm -f /etc/hostname; echo x > /etc/icgw-test; echo x > {tmp_path}/made
mkdir -p /usr/icgw-test /root/icgw-test; hostname other; ip netns add icgw-test; sysctl -qw net.ipv4.ip_forward=1
echo result > $ICGW_OUT/result; mkdir $ICGW_OUT/sub; echo deep > $ICGW_OUT/sub/file; [ $ICGW_OUT != {out} ]"""
    host_name = os.uname().nodename
    result, log = run_shell(script, out, base)
    assert (result.exit_code, log) == (0, "mine")
    assert treasure.read_text() == "mine"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out", "treasure"]
    assert sorted(str(entry.relative_to(out)) for entry in out.rglob("*")) == ["log.txt", "result", "sub", "sub/file"]
    assert (out / "sub" / "file").read_text() == "deep\n"
    for path in ("/etc/icgw-test", "/usr/icgw-test", "/root/icgw-test", "/run/netns/icgw-test"):
        assert not os.path.lexists(path)
    assert os.uname().nodename == host_name
    assert Path("/proc/self/mounts").read_text() == mounts


def test_whatever_still_runs_ends_with_the_job(out: Path, base: Path) -> None:
    """Daemons do not keep the machine alive, nor do they write after the job's end."""
    script = "(trap '' TERM HUP; while :; do sleep 1; echo late >> $ICGW_OUT/daemon; done) & sleep 2.5; echo done"
    result, log = run_shell(script, out, base)
    assert (result.exit_code, log) == (0, "done\n")
    assert (out / "daemon").read_text() == "late\n" * 2


def test_what_a_job_starts_with(out: Path, base: Path) -> None:
    """Fixed environment and limits, in new network namespaces too; programs die by a broken pipe as usual."""
    script = """
env | cut -d= -f1 | sort | tr '\\n' ' '; echo
echo $HOME $PWD $TZ; hostname; ulimit -n; cat /proc/self/timerslack_ns; grep SigIgn /proc/self/status
date -u +%F; id -u; ip netns add n
ip netns exec n sh -c 'ip -o link | cut -d: -f2 | tr "\\n" " "; cat /proc/sys/net/ipv6/conf/default/disable_ipv6'
ip netns exec n cut -f3 /proc/sys/net/ipv4/tcp_rmem
"""
    _, log = run_shell(script, out, base)
    lines = log.splitlines()
    names = "HOME ICGW_OUT LANG LC_ALL PATH PWD PYTHONHASHSEED PYTHONUNBUFFERED TERM TMPDIR TZ USER"
    assert lines[0].split() == [*names.split()]
    assert lines[1:6] == ["/run/home / UTC", "icgw", "1048576", "1", "SigIgn:\t0000000000000000"]
    assert lines[6:] == ["2030-01-01", "0", " lo 1", "536870912"]


def test_two_machines_side_by_side(base: Path, tmp_path: Path) -> None:
    """Several jobs share the CPUs and no state: each sees only its own machine, and results keep their order."""
    jobs = []
    for index in range(3):
        folder = tmp_path / f"out{index}"
        folder.mkdir()
        script = f"ls /run/netns; ip netns add n{index}; touch /shared-{index}; ls -d /shared-*; exit {index}"
        jobs.append(Job(f"j{index}", ("/bin/sh", "-c", script), folder, limits=SHORT))
    results = VirtualEngine(base=base).run(jobs, Silent())
    assert [result.exit_code for result in results] == [0, 1, 2]
    assert [result.log.read_text() for result in results] == ["/shared-0\n", "/shared-1\n", "/shared-2\n"]


DETERMINISM = """
import json, os, random, socket, subprocess, tempfile, time, uuid
def tool(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
listener = socket.create_server(("127.0.0.1", 0), backlog=8)
ends = [socket.create_connection(listener.getsockname()) for _ in range(8)]
for name in "ab":
    tool("ip", "netns", "add", name)
tool("ip", "link", "add", "va", "netns", "a", "type", "veth", "peer", "name", "vb", "netns", "b")
for number, name in enumerate("ab"):
    tool("ip", "-n", name, "addr", "add", f"10.0.0.{number + 1}/24", "dev", "v" + name)
    tool("ip", "-n", name, "link", "set", "v" + name, "up")
    tool("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "v" + name, "root", "netem",
         "delay", "50us", "20us", "loss", "20%", "rate", "100gbit")
print(tool("ip", "netns", "exec", "a", "ping", "-c", "40", "-i", "0.01", "-W", "1", "10.0.0.2"))
facts = {
    "random": random.random(), "urandom": os.urandom(8).hex(), "uuid": str(uuid.uuid4()),
    "ports": [end.getsockname()[1] for end in ends], "listener": listener.getsockname()[1],
    "set": list({"alpha", "beta", "gamma", "delta", "epsilon"}), "temporary": tempfile.mkdtemp(),
    "address": tool("ip", "-n", "a", "-o", "link", "show", "va"), "pid": os.getpid(),
    "time": time.time_ns(), "monotonic": time.monotonic_ns(),
    "boot": open("/proc/sys/kernel/random/boot_id").read(),
}
open(os.environ["ICGW_OUT"] + "/facts.json", "w").write(json.dumps(facts, indent=1))
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_bytes_every_time(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One seed, one result: twice, with the other CPU busy, on another CPU, from another folder; another seed differs.

    Random numbers, temporary ports, MAC addresses, loss, jitter and round-trip times of a shaped link, clocks and the
    order of a set are all in it.
    """
    script = tmp_path / "job.py"
    script.write_text(DETERMINISM)
    cpus = sorted(os.sched_getaffinity(0))

    def run(name: str, seed: int, cpu: int) -> dict[str, bytes]:
        folder = tmp_path / name
        folder.mkdir()
        os.sched_setaffinity(0, {cpu})
        try:
            VirtualEngine(base=base).run([Job(name, (PYTHON, str(script)), folder, seed=seed, limits=SHORT)], Silent())
        finally:
            os.sched_setaffinity(0, cpus)
        return contents(folder)

    first = run("first", 7, cpus[0])
    assert set(first) == {"log.txt", "facts.json"}
    assert b"time=" in first["log.txt"]
    assert run("again", 7, cpus[0]) == first
    with subprocess.Popen(
        ["sh", "-c", "while :; do :; done"], preexec_fn=lambda: os.sched_setaffinity(0, {cpus[0]})
    ) as busy:
        try:
            monkeypatch.chdir("/")
            assert run("busy", 7, cpus[-1]) == first
        finally:
            busy.kill()
    other = run("other-seed", 8, cpus[0])
    assert other["facts.json"] != first["facts.json"]
    assert other["log.txt"] != first["log.txt"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_under_sudo_the_machine_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run by sudo, the kernel and what it writes belong to the caller, and root's files stay closed to the job."""
    nobody = 65534
    # Not pytest's own temporary folder: that is closed to other users.
    with tempfile.TemporaryDirectory(prefix="icgw-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "secret").write_text("root's")
        (folder / "secret").chmod(0o600)
        kernel = folder / "linux"
        kernel.write_bytes(find_kernel().read_bytes())
        kernel.chmod(0o755)
        monkeypatch.setenv("SUDO_UID", str(nobody))
        monkeypatch.setenv("SUDO_GID", str(nobody))
        (folder / "out").mkdir()
        script = f"id -u; touch $ICGW_OUT/made; cat {folder}/secret; echo $?; unshare -n true && echo net"
        job = Job("a", ("/bin/sh", "-c", script), folder / "out", limits=SHORT)
        [result] = VirtualEngine(kernel, folder / "runs").run([job], Silent())
        assert result.log.read_text().splitlines() == [
            "0",
            f"cat: {folder}/secret: Permission denied",
            "1",
            "net",
        ]
        for made in ("out", "out/made", "out/log.txt"):
            assert (folder / made).stat().st_uid == nobody
        assert not (folder / "runs").exists()


def test_a_missing_interpreter_is_told(out: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the machine's first program cannot be started, the kernel's reason is the one line."""
    monkeypatch.setattr("emulator.engine.firstprogram.interpreter", lambda: Path("/no/such/python"))
    with pytest.raises(EngineError, match=r"the kernel cannot start its first program: .*init"):
        run_shell("true", out, base)


def test_a_job_without_a_limit_in_sight_costs_no_wall_limit(out: Path, base: Path) -> None:
    """Idle time is skipped whatever the programs wait for: select, poll, a timer, a condition of another process."""
    code = "import select, time; select.select([], [], [], 3000); select.poll().poll(3000000); time.sleep(3000)"
    limits = Limits(virtual_ns=10**14, wall_s=60, memory_bytes=512 << 20)
    result, _ = run_shell(f"{PYTHON} -c '{code}' & wait; (sleep 3000; echo x) | cat", out, base, limits)
    assert result.virtual_ns > 12_000 * 10**9


FULL_DISK = """
import sys
from pathlib import Path
from tests.support.engine_jobs import run_shell
try:
    result, log = run_shell("head -c 1000000 /dev/zero > $ICGW_OUT/big || exit 9", Path(sys.argv[1]), Path(sys.argv[2]))
    print(result.exit_code, log, end="")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small file system")
@pytest.mark.parametrize(
    ("full", "said"),
    [
        ("out", r"EngineError job 'shell': its results folder \S+ has no space left"),
        ("runs", r"EngineError job 'shell': cannot start the kernel .* No space left on device"),
    ],
)
def test_a_full_disk(full: str, said: str, tmp_path: Path, repository: Path) -> None:
    """A results folder that fills up, and no room for the run's own files, are one line each."""
    for name in ("out", "runs"):
        (tmp_path / name).mkdir(mode=0o711)
    # Three pages: enough for the ledger and the folders, not for the machine's first program.
    size = {"out": "64k", "runs": "12k"}[full]
    command = 'mount -t tmpfs -o "size=$1,mode=711" full "$2" && exec "$3" -c "$4" "$5" "$6"'
    folders = [str(tmp_path / name) for name in ("out", "runs")]
    argv = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        command,
        "sh",
        size,
        str(tmp_path / full),
        sys.executable,
        FULL_DISK,
        *folders,
    ]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(repository)}
    )
    assert re.match(said, done.stdout), done
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_files_beyond_the_callers_soft_limit(out: Path, base: Path) -> None:
    """The machine holds many of the host's files open; the usual soft limit of a login shell does not stop it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        result, log = run_shell("find /usr/lib/python3 -name '*.py' | head -n 600 | xargs cat | wc -l", out, base)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert result.exit_code == 0
    assert int(log) > 600
