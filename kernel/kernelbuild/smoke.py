"""A short boot that shows whether a kernel works on this host."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import host
from .errors import BuildFailure

INIT_SOURCE = Path(__file__).parent / "smoke_init.c"

#: A boot takes a third of a second; this is for a host that is busy otherwise.
TIMEOUT_S = 60.0

SEED = 1
MINUTE_NS = 60_000_000_000

#: By how much a sleep may be off: the clock readings around it cost a few ns.
TOLERANCE_NS = 100

_LINE = re.compile(r"smoke slept_ns=(\d+) random=([0-9a-f]{16}) end")


@dataclass(frozen=True)
class Report:
    """What the first program saw."""

    #: how long a minute of sleep took by the virtual clock
    slept_ns: int
    #: random bytes, the same for every boot with the same seed
    random: str


def boot(kernel: Path, folder: Path, init: Path) -> Report:
    """Boots `kernel` once with `init` as its first program.

    Args:
        kernel: the program.
        folder: for what the boot leaves behind.
        init: the compiled first program.

    Raises:
        BuildFailure: the first program did not report in time.
    """
    output = folder / "boot.txt"
    with tempfile.TemporaryDirectory(dir=folder, prefix="uml-") as run_folder:
        argv = [
            str(kernel),
            "root=/dev/root",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            "mem=128M",
            f"init={init}",
            f"uml_dir={run_folder}",
            "umid=smoke",
            "time-travel=inf-cpu",
            "time-travel-start=1000000000000000000",
            f"random-seed={SEED}",
            "con=null",
            "con0=fd:1,fd:1",
            "quiet",
        ]
        try:
            host.watch(argv, log=output, tick=lambda: None, interval_s=0.05, timeout_s=TIMEOUT_S, cwd=folder)
        except TimeoutError as error:
            raise BuildFailure(
                f"the new kernel did not boot within {TIMEOUT_S:.0f} s", f"its output is {output}"
            ) from error
    text = output.read_text(encoding="utf-8", errors="replace")
    match = _LINE.search(text)
    if not match:
        raise BuildFailure(
            f"the new kernel does not boot ({_reason(text)})",
            "a sandbox that forbids seccomp filters and ptrace is one cause",
        )
    output.unlink()
    return Report(int(match[1]), match[2])


def check(kernel: Path, folder: Path) -> Report:
    """Boots `kernel` twice and checks its clock and its randomness.

    Raises:
        BuildFailure: it does not boot, or does not keep what its patches promise.
    """
    init = folder / "smoke-init"
    result = host.run(["gcc", "-O1", "-w", "-o", str(init), str(INIT_SOURCE)])
    if result.returncode != 0:
        raise BuildFailure(f"the smoke test did not compile ({result.stderr.strip()})", "apt-get install libc6-dev")
    first, second = (boot(kernel, folder, init) for _ in range(2))
    if not MINUTE_NS <= first.slept_ns <= MINUTE_NS + TOLERANCE_NS:
        raise BuildFailure(
            f"the new kernel's clock is wrong: a sleep of {MINUTE_NS} ns took {first.slept_ns} ns",
            "the clock patches do not fit this kernel source",
        )
    if first != second:
        raise BuildFailure(
            f"the new kernel is not deterministic: {first} and then {second}",
            "the patches do not fit this kernel source",
        )
    return first


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for word in ("panic", "errno", "rror"):
        for line in lines:
            if word in line:
                return line[:200]
    return lines[-1][:200] if lines else "no output"
