"""The offload as a whole: program, maps and interfaces, and how a daemon adopts what another one left running.

Everything has a name in a BPF file system, in a folder of the daemon's own::

    <folder>/<hash of the sources>/flows, flow_counters, outcomes, devices, own      the maps that all interfaces share
                                  /if<index>/program, sockets                        one for each interface

A daemon that dies leaves program and maps as they are: known flows go on, the rest goes to the stack. The next daemon
finds the names, checks that the interfaces still run these very programs, and takes the flows over. Objects of other
sources are not adopted but replaced, without a packet in between that sees no program.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

from emulator.errors import GatewayError
from gateway.offload import libbpf
from gateway.offload.bpffs import claim_folder, make_folder, remove_folder
from gateway.offload.build import digest, object_path
from gateway.offload.flows import FlowTable
from gateway.offload.libbpf import BpfObject
from gateway.offload.maps import BpfMap
from gateway.offload.records import COUNT, FLOW, KEY, OUTCOMES
from gateway.offload.steering import Attachment, Hook, OwnAddresses, interface_index

_SHARED = ("flows", "flow_counters", "outcomes", "devices", "own")
_SIZED = ("flows", "flow_counters")
_PROGRAM = "offload"


class _Interface:
    """One interface's program, with its sockets' map."""

    def __init__(self, name: str, folder: Path, shared: dict[str, int], entries: dict[str, int], hook: Hook) -> None:
        self.name = name
        self.index = interface_index(name)
        self.folder = folder / f"if{self.index}"
        self.adopted = False
        self._descriptors: list[int] = []
        before = self._find_before(folder.parent)
        if before is not None and before.parent == self.folder:
            self._program = program = self._keep(libbpf.get_pinned(before))
            self.sockets_fd = self._keep(libbpf.get_pinned(self.folder / "sockets"))
            self._attachment = Attachment(name, program, hook, replaces=program)
            self.maps = {map_name: self._keep(libbpf.get_pinned(folder / map_name)) for map_name in _SHARED}
            self.adopted = True
            return
        loaded = BpfObject(object_path(_PROGRAM), (_PROGRAM,), entries=entries, reuse=shared)
        try:
            self.maps = {map_name: self._keep(os.dup(loaded.map_fd(map_name))) for map_name in _SHARED}
            self.sockets_fd = self._keep(os.dup(loaded.map_fd("sockets")))
            self._program = program = self._keep(os.dup(loaded.program_fd(_PROGRAM)))
            replaces = None if before is None else self._keep(libbpf.get_pinned(before))
            self._attachment = Attachment(name, program, hook, replaces)
            try:
                remove_folder(self.folder)
                self.folder.mkdir(parents=True)
                libbpf.pin(self.sockets_fd, self.folder / "sockets")
                libbpf.pin(program, self.folder / "program")
            except BaseException:
                self.withdraw()
                raise
        finally:
            loaded.close()

    def _keep(self, fd: int) -> int:
        self._descriptors.append(fd)
        return fd

    def _find_before(self, root: Path) -> Path | None:
        """The name of the program that the interface runs, if it is one that a daemon of this folder left."""
        running = libbpf.attached_xdp(self.index)
        for path in sorted(root.glob(f"*/if{self.index}/program")) if running else ():
            fd = libbpf.get_pinned(path)
            number = libbpf.program_number(fd)
            os.close(fd)
            if number == running:
                return path
        return None

    def runs(self) -> bool:
        return libbpf.attached_xdp(self.index) == libbpf.program_number(self._program)

    def leave(self) -> None:
        self._attachment.leave()
        for fd in self._descriptors:
            os.close(fd)
        self._descriptors.clear()

    def withdraw(self) -> None:
        with contextlib.suppress(GatewayError):
            self._attachment.detach()
        remove_folder(self.folder)
        self.leave()


class Offload:
    """See the module.

    Args:
        interfaces: Their names, in this network namespace. Their peers must take redirected frames: on veth, another
            program or GRO at the other end.
        folder: The daemon's own folder in a BPF file system; one is mounted there if there is none.
        capacity: Flows at most (an adopted map keeps its size).
        own: The host's own addresses.
        hook: Where the program sees packets.

    Attributes:
        adopted: Whether flows of another daemon were taken over.
        flows: The table.

    Raises:
        GatewayError: The kernel refuses, or an interface has a program of somebody else.
    """

    def __init__(
        self,
        interfaces: Sequence[str],
        folder: Path,
        capacity: int = 65_536,
        own: Iterable[IPv4Address | IPv6Address] = (),
        hook: Hook = Hook.DRIVER,
    ) -> None:
        make_folder(folder)
        self._lock = claim_folder(folder)
        self._root = folder
        self._folder = folder / digest()
        self._interfaces: dict[str, _Interface] = {}
        self._shared: dict[str, int] = {}
        self.adopted = False
        try:
            self._folder.mkdir(exist_ok=True)
            self._shared = self._open_shared()
            self.adopted = bool(self._shared)
            for name in interfaces:
                entries = dict.fromkeys(_SIZED, capacity)
                one = _Interface(name, self._folder, self._shared, entries, hook)
                self._interfaces[name] = one
                if not self._shared:
                    self._share(one.maps)
            self._set_up(capacity, own)
            self._remove_others()
        except BaseException as error:
            for one in self._interfaces.values():
                if not one.adopted:
                    one.withdraw()
            if not self.adopted:
                remove_folder(self._folder)
            self.leave()
            if isinstance(error, OSError):
                raise GatewayError(f"{error.filename or folder}: {error.strerror}") from None
            raise

    def _remove_others(self) -> None:
        """Remove what earlier daemons of this folder left, of other sources or on interfaces that are not ours."""
        ours = {one.folder for one in self._interfaces.values()}
        for path in sorted(self._root.glob("*/if*/program")):
            if path.parent not in ours:
                _take_off(path)
                remove_folder(path.parent)
        for old in self._root.iterdir():
            if old != self._folder and old.is_dir():
                remove_folder(old)

    def _open_shared(self) -> dict[str, int]:
        """The maps of before, if all of them are there."""
        found: dict[str, int] = {}
        if all((self._folder / name).exists() for name in _SHARED):
            for name in _SHARED:
                found[name] = libbpf.get_pinned(self._folder / name)
        return found

    def _share(self, maps: dict[str, int]) -> None:
        for name, fd in maps.items():
            path = self._folder / name
            path.unlink(missing_ok=True)
            libbpf.pin(fd, path)
            self._shared[name] = os.dup(fd)

    def _set_up(self, capacity: int, own: Iterable[IPv4Address | IPv6Address]) -> None:
        shared, cpus = self._shared, libbpf.possible_cpus()
        capacity = libbpf.map_entries(shared["flows"]) if self.adopted else capacity
        self._outcomes = BpfMap(shared["outcomes"], "=u4", "=u8", cpus)
        devices = BpfMap(shared["devices"], "=u4", "=u4")
        for one in self._interfaces.values():
            devices.put(one.index, one.index)
        self.set_own(own)
        self.flows = FlowTable(
            BpfMap(shared["flows"], KEY, FLOW), BpfMap(shared["flow_counters"], "=u4", COUNT, cpus), capacity, cpus
        )
        if self.adopted:
            self.flows.adopt(time.monotonic_ns())

    def set_own(self, own: Iterable[IPv4Address | IPv6Address]) -> None:
        """The host's own addresses are others now."""
        OwnAddresses(self._shared["own"]).set(own)

    def add_socket(self, interface: str, queue: int, fd: int) -> None:
        """Give packets of an interface's queue that the program does not forward to a socket, until it is closed."""
        if not BpfMap(self._interfaces[interface].sockets_fd, "=u4", "=u4").put(queue, fd):
            raise GatewayError(f"queue {queue} of {interface} cannot have a socket")

    def remove_socket(self, interface: str, queue: int) -> None:
        """Let the stack have what the program does not forward."""
        BpfMap(self._interfaces[interface].sockets_fd, "=u4", "=u4").delete(queue)

    def index(self, interface: str) -> int:
        """Index of an interface."""
        return self._interfaces[interface].index

    def outcomes(self) -> dict[str, int]:
        """What the program did with packets so far, and why others went to the daemon."""
        _, values = self._outcomes.all()
        return {name: int(total) for name, total in zip(OUTCOMES, values.sum(axis=1).tolist(), strict=True)}

    def check(self) -> None:
        """Make sure that the interfaces still run the program.

        Raises:
            GatewayError: One does not: its packets come no more.
        """
        for one in self._interfaces.values():
            if not one.runs():
                raise GatewayError(f"somebody took the gateway's XDP program off {one.name}")

    def leave(self) -> None:
        """Let everything go on without us."""
        for one in self._interfaces.values():
            one.leave()
        for fd in self._shared.values():
            os.close(fd)
        self._interfaces.clear()
        self._shared.clear()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def withdraw(self) -> None:
        """Take the programs off, and leave nothing behind."""
        for one in self._interfaces.values():
            one.withdraw()
        self._interfaces.clear()
        remove_folder(self._folder)
        self.leave()

    def as_json(self) -> dict[str, Any]:
        """All figures as plain data."""
        return {
            "adopted": self.adopted,
            "interfaces": list(self._interfaces),
            "outcomes": self.outcomes(),
            **self.flows.as_json(),
        }


def _take_off(path: Path) -> None:
    """Take a program off the interface for which it has this name, if that runs it."""
    index, fd = int(path.parent.name.removeprefix("if")), libbpf.get_pinned(path)
    try:
        with contextlib.suppress(GatewayError):  # the interface may be gone
            if libbpf.attached_xdp(index) == libbpf.program_number(fd):
                for flags in (libbpf.XDP_FLAGS_DRV_MODE, libbpf.XDP_FLAGS_SKB_MODE):
                    libbpf.attach_xdp(index, -1, flags, fd)
    finally:
        os.close(fd)
