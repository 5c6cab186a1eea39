"""Network namespaces that exist without a process: made by this one and held open by a file descriptor."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from emulator.errors import NodeError

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_SELF = "/proc/thread-self/ns/net"


def _checked(result: int, what: str) -> None:
    if result:
        raise NodeError(f"{what}: {os.strerror(ctypes.get_errno())}")


class Namespace:
    """A network namespace.

    It ends when it is closed and no process or socket is left in it. From a shell it is reached with
    ``nsenter --net=<path>``, which leaves the mounts alone: ``ip netns exec`` and ``mnexec -n`` mount a fresh ``/sys``
    and so hide ``/sys/kernel/config``.

    Attributes:
        name: Of the node that lives in it, for messages.
        fd: The descriptor that holds it.
    """

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self.fd = fd

    @classmethod
    def create(cls, name: str, sysctls: Mapping[str, str] | None = None) -> Namespace:
        """Make a new namespace and set its sysctls; the calling thread stays where it is.

        Args:
            name: Of the node that will live in it.
            sysctls: Names with dots or slashes, such as ``net.ipv4.tcp_ecn``, and values.

        Raises:
            NodeError: Not permitted, or no such sysctl.
        """
        with coming_back(name):
            return cls.create_here(name, sysctls)

    @classmethod
    def create_here(cls, name: str, sysctls: Mapping[str, str] | None = None) -> Namespace:
        """Do as `create`, and put the calling thread into the new namespace: see `coming_back`."""
        _checked(_LIBC.unshare(_CLONE_NEWNET), f"{name}: cannot make a network namespace")
        namespace = cls(name, os.open(_SELF, os.O_RDONLY | os.O_CLOEXEC))
        try:
            for key, value in (sysctls or {}).items():
                write_sysctl(key, value, name)
        except NodeError:
            namespace.close()
            raise
        return namespace

    @classmethod
    def current(cls, name: str) -> Namespace:
        """The namespace that the calling thread is in."""
        return cls(name, os.open(_SELF, os.O_RDONLY | os.O_CLOEXEC))

    @classmethod
    def of_process(cls, name: str, pid: int) -> Namespace:
        """The namespace of a process.

        Raises:
            NodeError: There is no such process.
        """
        try:
            return cls(name, os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            raise NodeError(f"{name}: cannot open the namespace of process {pid}: {error.strerror}") from None

    @property
    def path(self) -> str:
        """A path to the namespace, good as long as this process lives."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    @property
    def inode(self) -> int:
        """The kernel's number of the namespace, the same in every process's ``/proc/<pid>/ns/net``."""
        return os.fstat(self.fd).st_ino

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Put the calling thread into the namespace; a process started meanwhile stays in it."""
        with coming_back(self.name):
            self.enter()
            yield

    def enter(self) -> None:
        """Put the calling thread into the namespace, to stay: see `coming_back`."""
        _checked(_LIBC.setns(self.fd, _CLONE_NEWNET), f"{self.name}: cannot enter the network namespace")

    def close(self) -> None:
        """Let go of the namespace."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@contextmanager
def coming_back(name: str) -> Iterator[None]:
    """Whatever namespaces the calling thread visits meanwhile, afterwards it is where it was.

    Args:
        name: Of whom it visits, for the error line.
    """
    before = os.open(_SELF, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        result = _LIBC.setns(before, _CLONE_NEWNET)
        os.close(before)
        _checked(result, f"{name}: cannot return from the network namespace")


def quiet_sysctls() -> dict[str, str]:
    """Settings of a host whose lines carry only what its programs send: IPv6 has packets of its own."""
    if not _sysctl_file("net.ipv6").exists():
        return {}
    return {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}


def write_sysctl(key: str, value: str, where: str) -> str:
    """Set a sysctl in the namespace that the calling thread is in, and return the value it had.

    Args:
        key: Such as ``net.ipv4.tcp_ecn``; parts that contain dots themselves are separated by slashes instead.
        value: As the kernel takes it.
        where: Node, for the error line.

    Raises:
        NodeError: No such sysctl, or the kernel refuses the value.
    """
    before = read_sysctl(key, where)
    if before != value:
        try:
            _sysctl_file(key).write_text(value, encoding="ascii")
        except OSError as error:
            raise NodeError(f"{where}: cannot set {key} to {value!r}: {error.strerror}") from None
    return before


def read_sysctl(key: str, where: str) -> str:
    """Read a sysctl in the namespace that the calling thread is in.

    Args:
        key: As for `write_sysctl`.
        where: Node, for the error line.

    Raises:
        NodeError: No such sysctl.
    """
    try:
        return _sysctl_file(key).read_text(encoding="ascii").strip()
    except OSError as error:
        raise NodeError(f"{where}: cannot read {key}: {error.strerror}") from None


def _sysctl_file(key: str) -> Path:
    return Path("/proc/sys") / (key if "/" in key else key.replace(".", "/"))


def processes_in(inodes: Mapping[int, str]) -> dict[int, str]:
    """Find processes by the network namespace that they are in.

    Args:
        inodes: Name of each namespace of interest by its number.

    Returns:
        The namespace's name by process number.
    """
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # ended meanwhile, or a kernel thread
                inode = (entry / "ns" / "net").stat().st_ino
                if inode in inodes:
                    found[int(entry.name)] = inodes[inode]
    return found
