"""Volumes on storage nodes: null_blk media, exported by the kernel's NVMe/TCP target, attached by its initiator.

Everything is made through configfs and ``/dev/nvme-fabrics`` by the calling process; a thread enters a node's network
namespace only while a socket is made there (configfs and devices belong to the machine, not to a namespace)::

    media   /sys/kernel/config/nullb/icgw-<n>                    one for each volume
    target  /sys/kernel/config/nvmet/subsystems/<nqn>            one for each volume
            /sys/kernel/config/nvmet/ports/<id>                  one for each storage node, bound in its namespace
    client  /dev/nvme<i>n<j>                                     connected from the initiator's namespace

A connection is never re-made by itself (the kernel would do so outside the namespace): a lost one fails its I/O.
"""

from __future__ import annotations

import os
import re
import uuid
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from threading import Lock
from types import TracebackType

from emulator.engine.host import HostHandle
from emulator.errors import WorkloadError
from emulator.linux.timer import Timer
from emulator.model.profile import MediaModel
from emulator.units import NS_PER_S

VOLUME_BYTES = 256 << 20
"""Size of a volume. Memory is used only for what is written."""
QUEUE_SIZE = 128
"""Commands in the queue; one entry always stays free."""
PORT = 4420

_CONFIG = Path("/sys/kernel/config")
_NULLB = _CONFIG / "nullb"
_NVMET = _CONFIG / "nvmet"
_FABRICS = Path("/dev/nvme-fabrics")
_CLASS = Path("/sys/class/nvme")
_APPEAR_NS = 10 * NS_PER_S
_LOOK_NS = 1_000_000
_IRQ_BY_TIMER = "2"


def _write(path: Path, text: str) -> None:
    # Kernel attributes take one write, and some can only be written: nothing is created, truncated or read.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _disconnect(controller: Path) -> None:
    # The kernel removes a controller by itself when its connection is lost.
    with suppress(FileNotFoundError):
        _write(controller / "delete_controller", "1")


def nqn(target: str, initiator: str) -> str:
    """The NVMe qualified name of an initiator's volume on a storage node."""
    return f"nqn.2024-01.net.icgw:{target}:{initiator}"


class Storage:
    """The volumes of one fabric; a context manager that removes them all.

    Args:
        media: Latency and rate of the media.
    """

    def __init__(self, media: MediaModel) -> None:
        self._media = media
        self._undo = ExitStack()
        self._lock = Lock()
        self._ports: dict[str, Path] = {}
        self._volumes: dict[tuple[str, str], Path] = {}
        self._numbers = count()

    def volume(self, initiator: HostHandle, target: HostHandle, at: tuple[str, int] | None = None) -> Path:
        """The block device of the initiator's volume on a storage node; made and connected when first asked for.

        Args:
            initiator: Whose volume it is.
            target: The storage node.
            at: Address and port under which the initiator finds the storage node, where that is not its own.

        Raises:
            WorkloadError: The kernel lacks a part or refuses, or the target cannot be reached.
        """
        key = (initiator.name, target.name)
        with self._lock:  # workloads that start together prepare at the same time
            device = self._made(key, initiator, target, at or (target.ip, PORT))
        if not device.is_block_device():
            raise WorkloadError(f"NVMe/TCP: {initiator.name} lost the connection to its volume on {target.name}")
        return device

    def _made(self, key: tuple[str, str], initiator: HostHandle, target: HostHandle, at: tuple[str, int]) -> Path:
        if key not in self._volumes:
            self._check()
            step = "make the media"
            try:
                with ExitStack() as undo:  # so that what failed can be tried again
                    number = next(self._numbers)
                    device = self._make_media(f"icgw-{number}", undo)
                    step = f"export a volume on {target.name}"
                    self._export(initiator, target, device, number, undo)
                    step = f"connect {initiator.name} to {target.name} ({at[0]}:{at[1]})"
                    self._volumes[key] = self._connect(initiator, target, at, undo)
                    self._undo.enter_context(undo.pop_all())
            except OSError as error:
                raise WorkloadError(f"NVMe/TCP: cannot {step}: {error.strerror or error}") from error
        return self._volumes[key]

    @staticmethod
    def _check() -> None:
        for path, what in (
            (_NULLB, "null_blk media"),
            (_NVMET, "an NVMe target (nvmet, nvmet-tcp)"),
            (_FABRICS, "an NVMe/TCP initiator (nvme-tcp)"),
        ):
            if not path.exists():
                raise WorkloadError(
                    f"NVMe/TCP: this kernel offers no {what}: {path} is missing; use the virtual engine, whose kernel "
                    "has it built in"
                )

    @staticmethod
    def _make_directory(path: Path, undo: ExitStack) -> None:
        path.mkdir()
        undo.callback(path.rmdir)

    def _make_media(self, name: str, undo: ExitStack) -> Path:
        folder = _NULLB / name
        self._make_directory(folder, undo)
        settings = {
            "size": str(VOLUME_BYTES >> 20),
            "memory_backed": "1",
            "blocksize": "4096",
            "irqmode": _IRQ_BY_TIMER,
            "completion_nsec": str(self._media.latency_ns),
            "submit_queues": "1",
            "hw_queue_depth": "1024",
        }
        if self._media.rate_bytes_per_s is not None:
            settings["mbps"] = str(max(1, self._media.rate_bytes_per_s >> 20))
        for setting, value in settings.items():
            _write(folder / setting, value)
        _write(folder / "power", "1")
        undo.callback(_write, folder / "power", "0")
        return Path("/dev") / name

    def _port(self, target: HostHandle) -> Path:
        if target.name not in self._ports:
            used = {entry.name for entry in (_NVMET / "ports").iterdir()}
            number = next(number for number in range(1, 65_536) if str(number) not in used)
            port = _NVMET / "ports" / str(number)
            self._make_directory(port, self._undo)
            for setting, value in (
                ("addr_adrfam", "ipv4"),
                ("addr_trtype", "tcp"),
                ("addr_traddr", target.ip),
                ("addr_trsvcid", str(PORT)),
            ):
                _write(port / setting, value)
            self._ports[target.name] = port
        return self._ports[target.name]

    def _export(self, initiator: HostHandle, target: HostHandle, device: Path, number: int, undo: ExitStack) -> None:
        name = nqn(target.name, initiator.name)
        port = self._port(target)
        subsystem = _NVMET / "subsystems" / name
        self._make_directory(subsystem, undo)
        _write(subsystem / "attr_allow_any_host", "1")
        _write(subsystem / "attr_serial", f"icgw{number}")
        namespace = subsystem / "namespaces" / "1"
        self._make_directory(namespace, undo)
        _write(namespace / "device_path", str(device))
        _write(namespace / "enable", "1")
        undo.callback(_write, namespace / "enable", "0")
        link = port / "subsystems" / name
        # The first link makes the port listen: the socket belongs to the namespace of the thread that links.
        with target.namespace():
            link.symlink_to(subsystem)
        undo.callback(link.unlink)

    def _connect(self, initiator: HostHandle, target: HostHandle, at: tuple[str, int], undo: ExitStack) -> Path:
        identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{initiator.name}.icgw")
        options = {
            "transport": "tcp",
            "traddr": at[0],
            "trsvcid": str(at[1]),
            "nqn": nqn(target.name, initiator.name),
            "hostnqn": f"nqn.2014-08.org.nvmexpress:uuid:{identity}",
            "hostid": str(identity),
            "nr_io_queues": "1",
            "queue_size": str(QUEUE_SIZE),
            # No timers of its own, and no reconnection: both would act outside of what is measured.
            "keep_alive_tmo": "0",
            "ctrl_loss_tmo": "0",
        }
        with initiator.namespace(), _FABRICS.open("r+b", buffering=0) as file:
            file.write(",".join(f"{key}={value}" for key, value in options.items()).encode())
            answer = file.read(4096).decode()
        match = re.search(r"instance=(\d+)", answer)
        if match is None:
            raise WorkloadError(f"NVMe/TCP: the kernel answered {answer.strip()!r} to the connection to {target.name}")
        controller = _CLASS / f"nvme{match[1]}"
        undo.callback(_disconnect, controller)
        return self._wait_device(controller, target)

    @staticmethod
    def _wait_device(controller: Path, target: HostHandle) -> Path:
        """Wait until the kernel has scanned the volume; with multipath its path is called ``nvme0c0n1``."""
        with Timer() as timer:
            for _ in range(_APPEAR_NS // _LOOK_NS):
                for entry in controller.iterdir():
                    if re.fullmatch(r"nvme\d+(c\d+)?n\d+", entry.name):
                        device = Path("/dev") / re.sub(r"c\d+", "", entry.name)
                        if device.is_block_device():
                            return device
                timer.wait(_LOOK_NS)
        raise WorkloadError(f"NVMe/TCP: no volume of {target.name} appeared after the connection was made")

    def close(self) -> None:
        """Disconnect and remove everything, also when a step fails."""
        self._volumes.clear()
        self._ports.clear()
        try:
            self._undo.close()
        except OSError as error:
            raise WorkloadError(f"NVMe/TCP: cannot remove a volume: {error}") from error

    def __enter__(self) -> Storage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
