"""Where it all happens: three namespaces in a row, and who runs on which CPU.

Traffic is made and counted on one CPU, the device under test has the other one for itself. A veth interface hands
packets to its peer's poll loop (NAPI), which by itself runs as a software interrupt on the CPU of whoever sends. So the
poll loops are made threads (``threaded``), and pinned: those of the device under test to its CPU, those of the
hosts to the other one. What makes and counts the traffic has real-time priorities, so that it never is why packets are
lost. Threads and processes of the device share their CPU by the ordinary rules among each other, and have the highest
priority that these know over what else runs on the machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from emulator.errors import GatewayError
from tests.bench.dataplane.interrupts import shielded
from tests.support.netns_hosts import NamespaceHost
from tests.support.rings_bed import Bed, bed

_LIBC = ctypes.CDLL(None, use_errno=True)
_DETACH = 2
DIRECT_IP = "10.0.9.2"
COALESCED_NS = 20_000
_POLLS_BEFORE_SLEEP = 100
OBSERVER_PRIORITY, SINK_PRIORITY, GENERATOR_PRIORITY = 3, 2, 1
_HIGHEST = -20
_NAMESPACES = Path("/run/netns")
_NAME = re.compile(r"b(\d+)-(left|gw|right)")


@dataclass(frozen=True)
class Cpus:
    """Which CPU does what."""

    traffic: int
    device: int

    @classmethod
    def of_this_machine(cls) -> Cpus:
        """The first two that may be used.

        Raises:
            GatewayError: There is one only.
        """
        usable = sorted(os.sched_getaffinity(0))
        if len(usable) < 2:
            raise GatewayError("the benchmark needs two CPUs: one for traffic, one for the device under test")
        return cls(usable[0], usable[1])


@dataclass
class Bench:
    """A bed that is ready.

    Attributes:
        bed: The namespaces.
        cpus: Who runs where.
        mtu: Of all interfaces.
        threads: The device's threads in the kernel that poll its interfaces.
        processes: Its processes.
    """

    bed: Bed
    cpus: Cpus
    mtu: int
    threads: list[int]
    processes: list[int] = field(default_factory=list)

    def own(self, pid: int) -> None:
        """Enter a process of the device under test: pinned, and its CPU time is counted."""
        for thread in _tasks(pid):
            os.sched_setaffinity(thread, {self.cpus.device})
            os.setpriority(os.PRIO_PROCESS, thread, _HIGHEST)
        with contextlib.suppress(OSError):
            # Sessions share the CPU among each other, so the priority is the session's too; kernels may not have that.
            Path(f"/proc/{pid}/autogroup").write_text(str(_HIGHEST))
        if pid not in self.processes:
            self.processes.append(pid)

    def poll_elsewhere(self) -> None:
        """Let the traffic's CPU poll the device's interfaces: the device's processes have theirs for themselves."""
        for thread in self.threads:
            os.sched_setaffinity(thread, {self.cpus.traffic})
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(SINK_PRIORITY))

    def tasks(self) -> list[int]:
        """All threads of the device."""
        return [*self.threads, *(task for pid in self.processes for task in _tasks(pid))]

    @contextlib.contextmanager
    def urgent(self) -> Iterator[None]:
        """Let nothing else on the machine delay the device."""
        tasks = self.tasks()
        for task in tasks:
            os.sched_setscheduler(task, os.SCHED_FIFO, os.sched_param(GENERATOR_PRIORITY))
        try:
            yield
        finally:
            for task in tasks:
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setscheduler(task, os.SCHED_OTHER, os.sched_param(0))

    def disown(self, pid: int) -> None:
        """Forget a process that is about to end."""
        if pid in self.processes:
            self.processes.remove(pid)

    def cpu_ns(self) -> tuple[int, int]:
        """CPU time that the device took so far, in ns: in the kernel's threads, and in its processes."""
        tasks = [task for pid in self.processes for task in _tasks(pid)]
        return sum(map(_ran_ns, self.threads)), sum(map(_ran_ns, tasks))


def _tasks(pid: int) -> list[int]:
    return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]


def _ran_ns(task: int) -> int:
    return int(Path(f"/proc/{task}/schedstat").read_text().split()[0])


def _pollers() -> set[int]:
    """All threads that poll interfaces."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "comm").read_text().startswith("napi/"):
                    found.add(int(entry.name))
            except OSError:
                continue  # it has just ended
    return found


def _poll_by_threads(
    host: NamespaceHost, interfaces: Iterable[str], *, coalesced: bool, stack: int | None = None
) -> None:
    """Let threads poll a host's interfaces; their files are in the namespace's own view of /sys.

    Args:
        host: The host.
        interfaces: Its interfaces.
        coalesced: See `bench`.
        stack: CPU of what comes by no poll loop: veth hands whole super-packets to the stack of whoever receives
            them, on the sender's CPU. None: it stays there.
    """
    with tempfile.TemporaryDirectory(prefix="icgw-bench-") as place, host.namespace():
        if _LIBC.mount(b"sysfs", place.encode(), b"sysfs", 0, None):
            raise GatewayError(f"cannot mount sysfs: {os.strerror(ctypes.get_errno())}")
        try:
            for interface in interfaces:
                files = Path(place) / "class" / "net" / interface
                (files / "threaded").write_text("1")
                if stack is not None:
                    (files / "queues" / "rx-0" / "rps_cpus").write_text(f"{1 << stack:x}")
                if coalesced:
                    (files / "gro_flush_timeout").write_text(str(COALESCED_NS))
                    (files / "napi_defer_hard_irqs").write_text(str(_POLLS_BEFORE_SLEEP))
        finally:
            _LIBC.umount2(place.encode(), _DETACH)


def _join(built: Bed, mtu: int) -> None:
    """Join the hosts directly too, to see what takes time without any device."""
    ends = ((built.left, "ld", "10.0.9.1/24"), (built.right, "rd", f"{DIRECT_IP}/24"))
    near, far = (["name", name, "netns", host.name, "mtu", str(mtu)] for host, name, _ in ends)
    built.left.run(["ip", "link", "add", *near, "type", "veth", "peer", *far])
    for host, name, address in ends:
        host.run(["ip", "addr", "add", address, "dev", name])
        host.run(["ethtool", "-K", name, "tx", "off", "gro", "on"])
        host.run(["ip", "link", "set", name, "up"])


def _sweep() -> None:
    """Remove namespaces whose tools Ctrl-C met, too: a terminal sends it to them as well."""
    _delete(left.name for left in _NAMESPACES.glob(f"b{os.getpid()}-*"))


def left_behind(folder: Path = _NAMESPACES) -> list[str]:
    """Namespaces of processes that were killed: nobody else will remove them, and their threads poll on."""
    found = ((_NAME.fullmatch(entry.name), entry.name) for entry in folder.glob("b*-*"))
    return sorted(name for match, name in found if match and not Path("/proc", match[1]).exists())


def sweep_left_behind() -> None:
    """Remove them."""
    _delete(left_behind())


def _delete(namespaces: Iterable[str]) -> None:
    for name in namespaces:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _build(undo: ExitStack, cpus: Cpus, mtu: int, *, coalesced: bool) -> Bench:
    built = undo.enter_context(bed(mtu))
    for name in ("gl", "gr"):
        built.gw.run(["ethtool", "-K", name, "gro", "on"])
        if coalesced:
            # Or the kernel's packets pass by their receiver's poll loop: the host's work would be done by the device.
            built.gw.run(["ethtool", "-K", name, "tso", "off"])
    for host, name, address, mac in (
        (built.left, "lh", "10.0.1.254", "02:00:00:00:01:fe"),
        (built.right, "rh", "10.0.2.254", "02:00:00:00:02:fe"),
    ):
        host.run(["ip", "route", "add", "default", "via", address])
        host.run(["ip", "neigh", "replace", address, "lladdr", mac, "dev", name, "nud", "permanent"])
    if not coalesced:
        _join(built, mtu)
    before = _pollers()
    stack = None if coalesced else cpus.traffic
    _poll_by_threads(built.left, ["lh"] if coalesced else ["lh", "ld"], coalesced=coalesced, stack=stack)
    _poll_by_threads(built.right, ["rh"] if coalesced else ["rh", "rd"], coalesced=coalesced, stack=stack)
    hosts = _pollers() - before
    _poll_by_threads(built.gw, ["gl", "gr"], coalesced=coalesced)
    device = _pollers() - before - hosts
    if not hosts or len(device) != 2:
        raise GatewayError("the kernel does not let threads poll veth interfaces")
    for thread in hosts:
        os.sched_setaffinity(thread, {cpus.traffic})
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(SINK_PRIORITY))
    for thread in device:
        os.sched_setaffinity(thread, {cpus.device})
        os.setpriority(os.PRIO_PROCESS, thread, _HIGHEST)
    return Bench(built, cpus, mtu, sorted(device))


@contextmanager
def bench(cpus: Cpus, mtu: int, *, coalesced: bool) -> Iterator[Bench]:
    """Build it, and take it down.

    Args:
        cpus: Who runs where.
        mtu: Of all interfaces.
        coalesced: Let poll loops look every 20 us while packets come, as network cards do under load; without it
            they are woken by each packet, which costs more and takes less time; the hosts are joined directly, too.
    """
    undo = ExitStack()
    try:
        with shielded():
            ready = _build(undo, cpus, mtu, coalesced=coalesced)
        yield ready
    finally:
        with shielded():
            try:
                undo.close()
            finally:
                _sweep()
