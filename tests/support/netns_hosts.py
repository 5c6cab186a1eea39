"""A small fabric of network namespaces for tests of workloads: a chain of hosts and IP routers, links by netem."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.errors import CommandError
from emulator.linux.netlink import NETLINK_ROUTE, Netlink, attribute
from emulator.model.fabric import Aqm, LinkSpec

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_NEW_QDISC, _CREATE, _TC_ROOT = 36, 0x600, 0xFFFFFFFF
_TCA_KIND, _TCA_OPTIONS = 1, 2
_NETEM_RATE, _NETEM_RATE64, _NETEM_LATENCY64 = 6, 8, 10


def _tool(*argv: str) -> None:
    result = subprocess.run(argv, capture_output=True, text=True)
    if result.returncode:
        raise CommandError(argv, result.returncode, result.stderr)


@dataclass(frozen=True)
class NamespaceHost:
    """A host in a named network namespace."""

    name: str
    ip: str
    interfaces: tuple[str, ...]

    def _entered(self, argv: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.name}", *argv]

    def run(self, argv: Sequence[str], *, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        result = subprocess.run(self._entered(argv), capture_output=True, text=True, **options)
        if check and result.returncode:
            raise CommandError(argv, result.returncode, result.stderr, self.name)
        return result

    def popen(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(self._entered(argv), env=env, text=True, **options)

    @contextmanager
    def namespace(self) -> Iterator[None]:
        """Put the calling thread into the namespace."""
        with Path("/proc/thread-self/ns/net").open() as before, Path(f"/run/netns/{self.name}").open() as inside:
            if _LIBC.setns(inside.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            try:
                yield
            finally:
                _LIBC.setns(before.fileno(), _CLONE_NEWNET)


def _shape(host: NamespaceHost, interface: str, spec: LinkSpec) -> None:
    """Delay and rate in one netem, set over netlink: `tc` would round the delay to its ticks of 64 ns."""
    if spec.aqm is not Aqm.DROP_TAIL:
        raise NotImplementedError("this small fabric marks nothing")
    if spec.true_packets:
        host.run(["ethtool", "-K", interface, "tso", "off", "gso", "off", "gro", "off"])
        # Linux's TCP builds super-packets whatever the interface says, unless they may have only one segment.
        host.run(["ip", "link", "set", interface, "gso_max_segs", "1"])
    in_flight = spec.delay_ns * spec.rate_bps // 8 // 10**9 // 64 + 10
    loss = spec.loss_ppm * (2**32 - 1) // 1_000_000
    options = struct.pack("=6I", 0, spec.waiting_packets + in_flight, loss, 0, 0, 0)
    options += attribute(_NETEM_LATENCY64, struct.pack("=q", spec.delay_ns))
    options += attribute(_NETEM_RATE64, struct.pack("=Q", spec.rate_bps // 8))
    options += attribute(
        _NETEM_RATE, struct.pack("=IiIi", min(spec.rate_bps // 8, 2**32 - 1), spec.overhead_bytes, 0, 0)
    )
    with host.namespace(), Netlink(NETLINK_ROUTE) as netlink:
        body = struct.pack("=BBHiIII", 0, 0, 0, socket.if_nametoindex(interface), 0, _TC_ROOT, 0)
        body += attribute(_TCA_KIND, b"netem\0") + attribute(_TCA_OPTIONS, options)
        netlink.change(_NEW_QDISC, _CREATE, body)


@contextmanager
def chain(specs: Sequence[LinkSpec], *, first: str = "a", last: str = "b") -> Iterator[dict[str, NamespaceHost]]:
    """Hosts *first* and *last* with routers ``r1``, ``r2``... between them, one link for each of *specs*, in order."""
    names = [first, *(f"r{i}" for i in range(1, len(specs))), last]
    with ExitStack() as undo:
        for name in names:
            _tool("ip", "netns", "add", name)
            undo.callback(_tool, "ip", "netns", "delete", name)
            _tool("ip", "-n", name, "link", "set", "lo", "up")
            _tool("nsenter", f"--net=/run/netns/{name}", "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for i, spec in enumerate(specs):
            left, right = names[i], names[i + 1]
            _tool("ip", "link", "add", f"{left}-up", "netns", left, "type", "veth",
                  "peer", "name", f"{right}-down", "netns", right)  # fmt: skip
            for node, interface, address in (
                (left, f"{left}-up", f"10.9.{i}.1"),
                (right, f"{right}-down", f"10.9.{i}.2"),
            ):
                _tool("ip", "-n", node, "addr", "add", f"{address}/24", "dev", interface)
                _tool("ip", "-n", node, "link", "set", interface, "mtu", str(spec.mtu_bytes), "up")
                _shape(NamespaceHost(node, address, (interface,)), interface, spec)
        for i, name in enumerate(names):
            for j in range(len(specs)):
                if j > i:
                    _tool("ip", "-n", name, "route", "add", f"10.9.{j}.0/24", "via", f"10.9.{i}.2")
                elif j < i - 1:
                    _tool("ip", "-n", name, "route", "add", f"10.9.{j}.0/24", "via", f"10.9.{i - 1}.1")
        routers = {
            name: NamespaceHost(name, f"10.9.{i}.2", (f"{name}-down", f"{name}-up"))
            for i, name in enumerate(names[1:-1])
        }
        yield {
            first: NamespaceHost(first, "10.9.0.1", (f"{first}-up",)),
            **routers,
            last: NamespaceHost(last, f"10.9.{len(specs) - 1}.2", (f"{last}-down",)),
        }
