"""Where the kernel copies packets' bytes in each mode, and what else the device's time goes into, by samples.

``perf record -e cpu-clock`` looks 5000 times a second where the threads of the device under test are. A sample in code
that copies belongs to the first function up its stack that does something else: that is who copies.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from emulator.errors import CommandError, EmulatorError, GatewayError, MissingCapability
from tests.bench.dataplane.bed import Bench, Cpus, bench
from tests.bench.dataplane.connections import measure_stream, peer
from tests.bench.dataplane.interrupts import shielded
from tests.bench.dataplane.modes import Mode, Running
from tests.bench.dataplane.rates import MTUS, as_observer, sending, sink_for

_COPYING = re.compile(
    r"^(__pi_|__)?memcpy|^memmove|rep_movs|copy_user|^copy_page|csum_partial_copy|^copy_to_|^_copy_(from|to)_iter"
)
_PACED = {
    "af_xdp": 150_000.0,
    "af_xdp_polling": 150_000.0,
    "packet_mmap": 60_000.0,
    "sockets": 20_000.0,
    "open_vswitch": 40_000.0,
}
_RATE = 200_000.0
_SECONDS, _PATIENCE_S = 1.0, 30
_SHOWN, _LEAST = 5, 0.02


@dataclass
class Evidence:
    """What was seen of one mode.

    Attributes:
        samples: Samples of the device's threads, in the kernel and outside.
        in_kernel: Share of them in the kernel.
        copying: Share of them in code of the kernel that copies bytes.
        copiers: Who copies: functions with their shares, the largest first.
        others: Functions where most of the other samples are.
    """

    samples: int = 0
    in_kernel: float = 0.0
    copying: float = 0.0
    copiers: list[tuple[str, float]] = field(default_factory=list)
    others: list[tuple[str, float]] = field(default_factory=list)


@contextmanager
def _sampled(built: Bench, data: Path) -> Iterator[None]:
    """Sample the device's threads until the block ends."""
    threads = ",".join(map(str, built.tasks()))
    (asked, asks), (answered, answers) = os.pipe(), os.pipe()
    # It runs before everything else on its CPU, so it must not outlive this process, however that ends.
    argv = ["setpriv", "--pdeathsig", "KILL", _perf(), "record", "-q", "-e", "cpu-clock", "-F", "5000", "-g"]
    argv += ["-t", threads, "-o", str(data)]
    argv += ["-D", "-1", "--control", f"fd:{asked},{answers}"]
    process = None
    try:
        with shielded():
            process = subprocess.Popen(
                argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                pass_fds=(asked, answers), preexec_fn=lambda: as_observer(built),
            )  # fmt: skip
        os.close(answers)
        os.write(asks, b"enable\n")
        if not os.read(answered, 16):
            raise GatewayError("perf does not sample: the kernel may not let it")
        yield
        os.write(asks, b"stop\n")
        process.wait(_PATIENCE_S)
    finally:
        for end in (asked, asks, answered):
            os.close(end)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()


def _perf() -> str:
    found = shutil.which("perf")
    if found is None:
        raise MissingCapability("perf", "install the package linux-perf")
    return found


def read_samples(text: str) -> Evidence:
    """Sum up what ``perf script -F ip,sym`` printed: stacks of ``address function``, innermost first."""
    evidence = Evidence()
    copiers: Counter[str] = Counter()
    others: Counter[str] = Counter()
    in_kernel = 0
    for stack in text.split("\n\n"):
        frames = [line.split(None, 1) for line in stack.splitlines() if len(line.split(None, 1)) == 2]
        if not frames:
            continue
        evidence.samples += 1
        names = [name.partition("+")[0] for _, name in frames]
        kernel = frames[0][0].startswith("ffff")
        in_kernel += kernel
        if kernel and _COPYING.search(names[0]):
            copiers[next((name for name in names if not _COPYING.search(name)), "?")] += 1
        else:
            others[names[0] if kernel else "outside the kernel"] += 1
    total = max(1, evidence.samples)
    evidence.in_kernel = in_kernel / total
    evidence.copying = copiers.total() / total
    evidence.copiers = [(name, count / total) for name, count in copiers.most_common(_SHOWN)]
    evidence.others = [(name, count / total) for name, count in others.most_common(_SHOWN)]
    return evidence


def _carry(built: Bench, mode: Mode, running: Running, size: int, data: Path) -> None:
    with sending(built, sink_for(built, mode), running.target_mac, size, paced=True) as generator:
        generator.pace(_PACED.get(mode.name, _RATE))
        with _sampled(built, data):
            time.sleep(_SECONDS)


def gather(mode: Mode, size: int) -> Evidence:
    """Let one mode work, with packets of one size or a stream, and look on."""
    mtu = next(mtu for mtu, sizes in MTUS.items() if size in sizes)
    with (
        tempfile.TemporaryDirectory(prefix="icgw-bench-") as folder,
        bench(Cpus.of_this_machine(), mtu, coalesced=mode.packets) as built,
        ExitStack() as undo,
    ):
        data = Path(folder) / "perf.data"
        if not mode.packets:
            undo.enter_context(peer(built))
        running = undo.enter_context(mode.start(built, Path(folder)))
        if mode.packets:
            _carry(built, mode, running, size, data)
        else:
            with _sampled(built, data):
                measure_stream(built, running.target_ip, _SECONDS)
        argv = [_perf(), "script", "-i", str(data), "-F", "ip,sym"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CommandError(argv, done.returncode, done.stderr)
        return read_samples(done.stdout)


def _listed(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in shares if share >= _LEAST)


def report(modes: Sequence[Mode], size: int, console: Console) -> int:
    """Look at these modes and show what was seen."""
    title = f"Where the device's time goes, packets of {size} bytes; proxies: a stream"
    table = Table(title=title, title_justify="left")
    for head in ("mode", "samples", "in the kernel", "copying there", "who copies", "most of the rest"):
        table.add_column(head, justify="right" if head in ("samples", "in the kernel", "copying there") else "left")
    failures = 0
    for mode in modes:
        try:
            one = gather(mode, size)
        except EmulatorError as error:
            console.print(f"{mode.name}: {error}", markup=False)
            failures += 1
            continue
        shares = f"{one.in_kernel:.0%}", f"{one.copying:.1%}"
        table.add_row(mode.title, str(one.samples), *shares, _listed(one.copiers), _listed(one.others))
    console.print(table)
    return int(failures > 0)
