"""The first program of an emulated machine: prepares it, runs the job, and halts.

It is copied into the run's folder, with what to do as the argument of `main`, and started as process 1 of the machine
(a virtual-time kernel, or namespaces of the host's kernel) with the host's own Python, isolated and without site
packages: so it imports the standard library only, and of that only what is cheap, as it is part of every job's time.
``control/ended`` beside it is what it leaves. Its clock is the machine's own, so the limit on emulated time is exact.

Not responsible for anything on the host: see `emulator.engine.firstprogram` and the engines.
"""

# pathlib is not cheap; paths and programs are the emulated machine's own.
# ruff: noqa: PTH101, PTH102, PTH103, PTH106, PTH120, PTH123, PTH211, S103, S108, S606

from __future__ import annotations

import ctypes
import errno
import os
import resource
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any
else:
    import _signal  # what `signal` wraps in enumerations, at a price

NS_PER_S = 1_000_000_000
MNT_DETACH = 2
PR_SET_TIMERSLACK = 29
RB_POWER_OFF = 0x4321FEDC
SYS_PIVOT_ROOT = 155  # x86-64, the only architecture that the kernel is built for
SIOCSIFFLAGS = 0x8914
IFF_UP_RUNNING = 0x41

# Where the overlay is put together. These two exist on every host and are covered by the machine's own anyway.
SCRATCH = "/sys"
ROOT = SCRATCH + "/root"

# Begins the line on the console that stands in for the record where that cannot be written.
COMPLAINT = "first program: "

LIBC = ctypes.CDLL(None, use_errno=True)


class SetupError(Exception):
    """A step of the preparation failed; the text says which."""


def check(result: int, what: str) -> None:
    """Turn a failed C call into a `SetupError`."""
    if result < 0:
        number = ctypes.get_errno()
        raise SetupError(f"{what}: {os.strerror(number)}")


def mount(kind: str, source: str, target: str, options: str = "", flags: int = 0, *, optional: bool = False) -> None:
    """Mount a file system; an *optional* one may be absent from the kernel."""
    result = LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode() or None)
    if result < 0 and optional and ctypes.get_errno() in (errno.ENODEV, errno.ENOENT):
        return
    check(result, f"mounting {kind} on {target}")


def make_root(memory_share: str) -> None:
    """Lay a writable overlay over the host's root, with the machine's own pseudo file systems in it."""
    mount("proc", "proc", "/proc")
    mount("tmpfs", "scratch", SCRATCH, f"size={memory_share},mode=755")
    for name in ("upper", "work", "root"):
        os.mkdir(f"{SCRATCH}/{name}", 0o755)
    options = f"lowerdir=/,upperdir={SCRATCH}/upper,workdir={SCRATCH}/work"
    mount("overlay", "root", ROOT, options)
    for name in ("proc", "sys", "dev", "run", "tmp"):
        os.makedirs(f"{ROOT}/{name}", exist_ok=True)
    mount("proc", "proc", f"{ROOT}/proc")
    mount("sysfs", "sys", f"{ROOT}/sys")
    mount("devtmpfs", "dev", f"{ROOT}/dev")
    for name in ("pts", "shm", "mqueue"):
        os.makedirs(f"{ROOT}/dev/{name}", exist_ok=True)
    mount("devpts", "devpts", f"{ROOT}/dev/pts", "mode=620,ptmxmode=666")
    mount("tmpfs", "shm", f"{ROOT}/dev/shm", "mode=1777")
    mount("mqueue", "mqueue", f"{ROOT}/dev/mqueue", optional=True)
    for target, source in (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1")):
        if not os.path.lexists(f"{ROOT}/dev/{target}"):
            os.symlink(source, f"{ROOT}/dev/{target}")
    mount("tmpfs", "run", f"{ROOT}/run", "mode=755")
    make_run(f"{ROOT}/run")
    mount("configfs", "config", f"{ROOT}/sys/kernel/config", optional=True)
    mount("cgroup2", "cgroup", f"{ROOT}/sys/fs/cgroup", optional=True)
    mount("bpf", "bpf", f"{ROOT}/sys/fs/bpf", optional=True)
    mount("debugfs", "debug", f"{ROOT}/sys/kernel/debug", optional=True)
    mount("tracefs", "trace", f"{ROOT}/sys/kernel/tracing", optional=True)


def make_run(folder: str) -> None:
    """Make the folders that programs expect in ``/run``, and a home and a temporary folder for the job."""
    for name in ("lock", "netns", "home", "tmp", "openvswitch"):
        os.mkdir(f"{folder}/{name}")
    os.chmod(f"{folder}/tmp", 0o1777)


def enter_root(host_out: str, out: str) -> None:
    """Mount the results folder and make the overlay the root of everything that follows."""
    os.makedirs(ROOT + out, exist_ok=True)
    mount("hostfs", "out", ROOT + out, host_out)
    os.mkdir(f"{ROOT}/run/host")
    check(LIBC.syscall(SYS_PIVOT_ROOT, ROOT.encode(), f"{ROOT}/run/host".encode()), "changing the root")
    os.chdir("/")
    check(LIBC.umount2(b"/run/host", MNT_DETACH), "leaving the host's root")
    os.rmdir("/run/host")


def set_limits(config: dict[str, Any]) -> None:
    """Set what every process of the job inherits: kernel parameters, resource limits, timer slack, host name."""
    for name, value in config["sysctls"].items():
        path = "/proc/sys/" + name.replace(".", "/")
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(value)
        except FileNotFoundError:
            continue  # the kernel was built without that feature
        except OSError as error:
            raise SetupError(f"setting {name} to {value}: {error.strerror}") from None
    for name, value in config["rlimits"].items():
        number = getattr(resource, name)
        limit = resource.RLIM_INFINITY if value < 0 else value
        try:
            resource.setrlimit(number, (limit, limit))
        except ValueError:  # on the host's kernel even root may not be allowed to raise it
            most = resource.getrlimit(number)[1]
            resource.setrlimit(number, (most, most))
    # 50 us by default, added to every sleep and time-out of a program: far more than a link's delay.
    check(LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0), "setting the timer slack")
    name = config["hostname"].encode()
    check(LIBC.sethostname(name, len(name)), "setting the host name")


def make_private() -> None:
    """In namespaces of the host's kernel: cover what the host shares and a job would change."""
    mount("proc", "proc", "/proc")
    mount("sysfs", "sys", "/sys")
    mount("tmpfs", "run", "/run", "mode=755")
    make_run("/run")


def loopback_up() -> None:
    """Bring the loopback interface up, as every system does while it starts."""
    # The C module alone: the full one costs time at every start.
    import _socket
    import fcntl
    import struct

    handle = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(handle.fileno(), SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP_RUNNING))
    handle.close()


def start(config: dict[str, Any], log: int) -> int:
    """Start the job in a session of its own and return its process number."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
            _signal.signal(number, _signal.SIG_DFL)  # Python ignores them, and programs would inherit that
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.closerange(3, 256)
        os.execvpe(config["argv"][0], config["argv"], config["environment"])
    except OSError as error:
        os.write(2, f"{config['argv'][0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def supervise(job: int, end_ns: int) -> dict[str, Any]:
    """Wait for the job or for the clock to reach *end_ns*; return how it ended."""
    while True:
        # Process 1 also inherits orphans: take whatever has ended.
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if pid == 0:
                break
            if pid == job:
                code = os.waitstatus_to_exitcode(status)
                return {"exit_code": code if code >= 0 else 128 - code, "limit": 0}
        left_ns = end_ns - time.monotonic_ns()
        if left_ns <= 0:
            return {"exit_code": 128 + _signal.SIGKILL, "limit": 1}
        _signal.sigtimedwait((_signal.SIGCHLD,), left_ns / NS_PER_S)


def end_all() -> None:
    """End every other process, so that nothing writes any more."""
    try:
        os.kill(-1, _signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def leave(control: int, record: dict[str, Any]) -> None:
    """Write the record that tells the host how the job ended: a line for each fact, all of it at once."""
    text = "".join(f"{name} {value}\n" for name, value in record.items())
    file = os.open("ended.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=control)
    os.write(file, text.encode())
    os.close(file)
    os.rename("ended.new", "ended", src_dir_fd=control, dst_dir_fd=control)


def main(config: dict[str, Any]) -> None:
    """Prepare the machine, run the job and halt.

    Args:
        config: What to do, as the engines write it.
    """
    home = os.path.dirname(sys.argv[0])
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD,))
    control = -1
    try:
        if config["own_kernel"]:
            make_root(config["memory_share"])
            # The record's folder is kept open but mounted nowhere: the job cannot reach it.
            os.mkdir(f"{SCRATCH}/control")
            mount("hostfs", "control", f"{SCRATCH}/control", f"{home}/control")
            control = os.open(f"{SCRATCH}/control", os.O_RDONLY | os.O_DIRECTORY)
            enter_root(config["host_out"], config["out"])
        else:
            control = os.open(f"{home}/control", os.O_RDONLY | os.O_DIRECTORY)
            make_private()
        set_limits(config)
        loopback_up()
        started_ns = 0 if config["own_kernel"] else time.monotonic_ns()
        log = os.open(config["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        record = supervise(start(config, log), started_ns + config["limit_ns"])
        end_all()
        record["virtual_ns"] = time.monotonic_ns() - started_ns
    except (SetupError, OSError) as error:
        record = {"error": " ".join(str(error).split())}
    try:
        leave(control, record)
    except OSError as error:
        said = record.get("error", f"cannot say how the job ended: {error.strerror}")
        os.write(2, f"{COMPLAINT}{said}\n".encode())
    if config["own_kernel"]:
        os.sync()
        LIBC.reboot(RB_POWER_OFF)
