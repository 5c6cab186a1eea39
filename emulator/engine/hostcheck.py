"""What this host offers to the engines, and what to do about what it does not; for ``icgw host``.

Each probe tries the real thing in the smallest way and leaves nothing behind. None raises: what cannot be tried is
not there.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.engine.job import Limits
from emulator.engine.kernelimage import find_kernel
from emulator.engine.memory import available_bytes
from emulator.errors import MissingCapability
from emulator.units import format_size

VIRTUAL, NATIVE, REPORT = "virtual", "native", "report"

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TIMEOUT_S = 20
_SETUP = "run 'sudo make setup', which installs it"
_BOTH = (VIRTUAL, NATIVE)

_TOOLS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # program, Debian package, needed for
    ("ip", "iproute2", _BOTH),
    ("tc", "iproute2", _BOTH),
    ("ovs-vswitchd", "openvswitch-switch", _BOTH),
    ("ovsdb-server", "openvswitch-switch", _BOTH),
    ("fio", "fio", _BOTH),
    ("nvme", "nvme-cli", _BOTH),
    ("iperf3", "iperf3", _BOTH),
    ("ping", "iputils-ping", _BOTH),
    ("ethtool", "ethtool", _BOTH),
    ("tshark", "tshark", (REPORT,)),
    ("unshare", "util-linux", (NATIVE,)),
)

# Installs a filter that allows everything: the least that shows whether filters can be installed.
_TRY_SECCOMP = """
import ctypes, struct, sys
libc = ctypes.CDLL(None)
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000), 8)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow)), 16)
sys.exit(libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program) != 0)
"""
_TRY_PTRACE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(0, 0, None, None) != 0)"


@dataclass(frozen=True)
class Capability:
    """One thing that an engine or the report needs of the host.

    Attributes:
        name: What it is.
        present: Whether the host has it.
        needed_for: ``virtual``, ``native`` or ``report``, one or several.
        detail: What was found, if that says more than yes or no.
        remedy: What to do if it is missing.
    """

    name: str
    present: bool
    needed_for: tuple[str, ...]
    detail: str
    remedy: str

    def require(self) -> None:
        """Refuse to go on without it.

        Raises:
            MissingCapability: It is not present.
        """
        if not self.present:
            raise MissingCapability(self.name, self.remedy)


def _succeeds(command: Sequence[str]) -> bool:
    """Whether a command can be run and ends well."""
    environment = {"PATH": _SYSTEM_PATH, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(command, capture_output=True, env=environment, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def probe_kernel(find: Callable[[], Path] = find_kernel) -> Capability:
    """Whether the virtual-time kernel has been built."""
    try:
        return Capability("virtual-time kernel", True, (VIRTUAL,), str(find()), "")
    except MissingCapability as error:
        return Capability(error.name, False, (VIRTUAL,), "", error.remedy)


def probe_cpus() -> Capability:
    """Whether emulations can run side by side."""
    count = len(os.sched_getaffinity(0))
    remedy = "emulations run one after the other: give this process at least 2 CPUs"
    return Capability("2 CPUs", count >= 2, _BOTH, str(count), remedy)


def probe_memory(available: Callable[[], int] = available_bytes) -> Capability:
    """Whether one machine of the usual size fits."""
    needed, found = Limits().memory_bytes, available()
    remedy = f"{format_size(needed)} must be available: end other programs"
    return Capability("memory", found >= needed, _BOTH, f"{found >> 20} MiB available", remedy)


def probe_seccomp() -> Capability:
    """Whether seccomp filters can be installed."""
    present = _succeeds([sys.executable, "-IS", "-c", _TRY_SECCOMP])
    remedy = "the sandbox around this process forbids them: the virtual engine falls back to ptrace and is slower"
    return Capability("seccomp filters", present, (VIRTUAL,), "", remedy)


def probe_ptrace() -> Capability:
    """Whether processes can be traced, which is needed only where seccomp filters are missing."""
    present = _succeeds([sys.executable, "-IS", "-c", _TRY_PTRACE])
    remedy = "the sandbox around this process forbids it: allow the ptrace system call, or seccomp filters"
    return Capability("ptrace", present, (VIRTUAL,), "", remedy)


def probe_root() -> Capability:
    """Whether this process may make network namespaces on the host."""
    return Capability("root", os.geteuid() == 0, (NATIVE,), "", "run it with sudo, or use the virtual engine")


def probe_netem() -> Capability:
    """Whether the host's kernel can delay packets."""
    private = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    present = _succeeds([*private, "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"])
    remedy = "the host's kernel lacks sch_netem: use the virtual engine, which brings its own kernel"
    return Capability("netem", present, (NATIVE,), "", remedy)


def probe_openvswitch() -> Capability:
    """Whether the host's kernel has Open vSwitch's datapath."""
    remedy = (
        "the host's kernel lacks openvswitch: the native engine uses Open vSwitch's userspace datapath and is slower"
    )
    present = _has_generic_netlink("ovs_datapath")
    return Capability("openvswitch kernel datapath", present, (NATIVE,), "", remedy)


def _has_generic_netlink(family: str) -> bool:
    """Ask the kernel for a generic netlink family (it loads the module if it has one)."""
    name = family.encode() + b"\0"
    attribute = struct.pack("HH", 4 + len(name), 2) + name.ljust(-(-len(name) // 4) * 4, b"\0")
    body = struct.pack("BBH", 3, 1, 0) + attribute  # CTRL_CMD_GETFAMILY
    request = struct.pack("IHHII", 16 + len(body), 16, 1, 1, 0) + body
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16) as handle:
            handle.settimeout(_TIMEOUT_S)
            handle.send(request)
            answer = handle.recv(65536)
    except OSError:
        return False
    kind: int = struct.unpack_from("H", answer, 4)[0]
    return kind != 2  # NLMSG_ERROR


def probe_tun(path: Path = Path("/dev/net/tun")) -> Capability:
    """Whether TAP interfaces can be made, which Open vSwitch's userspace datapath needs."""
    remedy = f"{path} cannot be opened: load the tun module, or pass the device into this container"
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError:
        return Capability("tun", False, (NATIVE,), "", remedy)
    return Capability("tun", True, (NATIVE,), "", remedy)


def probe_tool(program: str, package: str, needed_for: tuple[str, ...]) -> Capability:
    """Whether a program is installed."""
    found = shutil.which(program, path=_SYSTEM_PATH)
    remedy = f"install Debian's package {package}, or {_SETUP}"
    return Capability(program, found is not None, needed_for, found or "", remedy)


def probe() -> list[Capability]:
    """Everything that the engines and the report need, in the order in which it is worth reading."""
    tools = [probe_tool(program, package, needed_for) for program, package, needed_for in _TOOLS]
    return [
        probe_kernel(),
        probe_cpus(),
        probe_memory(),
        probe_seccomp(),
        probe_ptrace(),
        *tools,
        probe_root(),
        probe_netem(),
        probe_openvswitch(),
        probe_tun(),
    ]
