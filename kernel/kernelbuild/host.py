"""Running host programs, and what the host must have before a build starts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .errors import BuildError, HostProblem

#: Programs a build needs, and the Debian package that brings each.
BUILD_PROGRAMS = {
    "make": "make",
    "gcc": "gcc",
    "ld": "binutils",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "tar": "tar",
    "xz": "xz-utils",
    "patch": "patch",
}
#: Programs fetching a source package needs.
FETCH_PROGRAMS = {"apt-get": "apt", "apt-cache": "apt", "dpkg-deb": "dpkg"}

#: Space for the unpacked source, the objects and the downloaded package.
NEEDED_BYTES = 3_500_000_000

#: Variables of the caller that would change what a kernel build does.
_UNWANTED = (
    "ARCH",
    "CROSS_COMPILE",
    "KBUILD_OUTPUT",
    "KCONFIG_CONFIG",
    "MAKEFLAGS",
    "MFLAGS",
    "MAKELEVEL",
    "CFLAGS",
    "LDFLAGS",
    "KCFLAGS",
    "KCPPFLAGS",
    "CC",
    "LLVM",
    "O",
    "V",
    "W",
)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for host programs: English, and free of build variables."""
    env = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    path = env.get("PATH", "/usr/bin:/bin")
    env["PATH"] = path if "/usr/sbin" in path.split(":") else f"{path}:/usr/sbin:/sbin"
    env["LC_ALL"] = "C"
    env.update(extra or {})
    return env


def check_programs(programs: Mapping[str, str]) -> None:
    """Makes sure that all `programs` are there.

    Raises:
        HostProblem: some are missing; names all of them and how to get them.
    """
    path = environment()["PATH"]
    missing = [name for name in programs if shutil.which(name, path=path) is None]
    if missing:
        packages = " ".join(sorted({programs[name] for name in missing}))
        raise HostProblem(f"missing on this host: {', '.join(missing)}", f"apt-get install {packages}")


def check_c_library() -> None:
    """Makes sure that programs can be compiled against the C library.

    Raises:
        HostProblem: the compiler does not find the C library's headers.
    """
    result = run(["gcc", "-E", "-x", "c", "-"], stdin="#include <stdio.h>\n")
    if result.returncode != 0:
        raise HostProblem("the C library's headers are missing", "apt-get install libc6-dev")


def check_space(folder: Path, needed_bytes: int = NEEDED_BYTES) -> None:
    """Makes sure that `folder` has room for a build.

    Raises:
        HostProblem: it has not.
    """
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise HostProblem(
            f"{folder} has {free / 1e9:.1f} GB free, a kernel build needs {needed_bytes / 1e9:.1f} GB",
            "free some space, or name another place with --cache DIR",
        )


def run(
    argv: Sequence[str],
    *,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a short host program and returns its output.

    Raises:
        HostProblem: the program is not there.
    """
    try:
        return subprocess.run(
            list(argv),
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment(env),
            cwd=cwd,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise HostProblem(f"{argv[0]} is missing on this host", "install it") from error


def watch(
    argv: Sequence[str],
    *,
    log: Path,
    tick: Callable[[], None],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    interval_s: float = 0.5,
    timeout_s: float | None = None,
) -> int:
    """Runs a long host program, with its output in `log`.

    Args:
        argv: the command.
        log: the file its output is appended to.
        tick: called every now and then while it runs.
        cwd: where it runs.
        env: variables to add.
        interval_s: how often to call `tick`.
        timeout_s: end it after this time.

    Returns:
        Its exit code; minus the signal if a signal ended it.

    Raises:
        HostProblem: the program is not there.
        TimeoutError: it took too long.
    """
    waited = 0.0
    with log.open("ab") as stream:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment(env),
                cwd=cwd,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise HostProblem(f"{argv[0]} is missing on this host", "install it") from error
        try:
            while True:
                try:
                    return process.wait(timeout=interval_s)
                except subprocess.TimeoutExpired:
                    waited += interval_s
                    tick()
                if timeout_s is not None and waited >= timeout_s:
                    raise TimeoutError(f"{argv[0]} did not end within {timeout_s:.0f} s")
        finally:
            _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of a process group started by `watch`."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signum)
        except (ProcessLookupError, PermissionError):
            break
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue
    if process.poll() is None:
        process.wait()


def tail(log: Path, wanted: Sequence[str] = ("error", "Error", "fatal"), limit: int = 200) -> str:
    """The line of `log` that most likely says why a program failed, or ''."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-limit:]
    except OSError:
        return ""
    for number, line in enumerate(lines):
        if any(word in line for word in wanted):
            # make only reports that something failed; what it was stands above
            above = line.startswith("make") and number > 0
            return lines[number - 1 if above else number].strip()
    return lines[-1].strip() if lines else ""


def interrupted_by_sigterm() -> None:
    """Makes a SIGTERM end the program as Ctrl-C does: with clean-up."""

    def raise_interrupt(_signum: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, raise_interrupt)


def describe_os_error(error: OSError) -> BuildError:
    """Turns an operating-system error into one clear line."""
    where = f" {error.filename}" if error.filename else ""
    what = f"cannot use{where}: {error.strerror or error}"
    if error.errno == 28:
        return HostProblem(
            f"the disk is full{where and ' at' + where}", "free some space, or name another place with --cache DIR"
        )
    return HostProblem(what, "check its permissions, or name another place with --cache DIR")
