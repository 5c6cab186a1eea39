"""Packet captures with nanosecond timestamps, one pcap file for each interface.

Times are CLOCK_REALTIME of the emulated machine. A packet that arrives is stamped on arrival; one that leaves is
stamped when the emulated line lets go of it, which is when it arrives at the other end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from emulator.errors import EngineError
from emulator.linux.packet_filter import keep_all
from emulator.linux.ring import PacketBatch, PacketRing
from emulator.linux.timer import Timer
from emulator.measure.vantage import Vantage
from emulator.measure.worker import Worker
from emulator.units import NS_PER_S

_MAGIC_NANOSECONDS = 0xA1B23C4D
_LINK_ETHERNET = 1
_ADDRESSES_BYTES = 12
_TAG_BYTES = 4
_EMPTY_EVERY_NS = 5_000_000
_RETIRE_MS = 10
DEFAULT_SNAP_BYTES = 256


def pcap_header(snap_bytes: int) -> bytes:
    """The header of a pcap file with nanosecond timestamps and Ethernet frames."""
    return struct.pack("=IHHiIII", _MAGIC_NANOSECONDS, 2, 4, 0, 0, snap_bytes, _LINK_ETHERNET)


def pcap_packets(batch: PacketBatch) -> Iterator[bytes]:
    """The packets of a batch as they stand in such a file, with their VLAN tags, which take 4 bytes more."""
    for time_ns, length, tag, frame in zip(
        batch.times_ns.tolist(), batch.lengths_bytes.tolist(), batch.tags.tolist(), batch.frames(), strict=True
    ):
        seconds, nanoseconds = divmod(time_ns, NS_PER_S)
        if tag:
            length += _TAG_BYTES
            frame = frame[:_ADDRESSES_BYTES] + tag.to_bytes(_TAG_BYTES, "big") + frame[_ADDRESSES_BYTES:]
        yield struct.pack("=IIII", seconds, nanoseconds, len(frame), length) + frame


class PacketCapture:
    """Writes what passes interfaces, both ways, into ``<interface>.pcap``; a context manager.

    Args:
        vantages: Interfaces to watch.
        folder: Existing folder for the files.
        snap_bytes: How much of each packet is kept.

    Raises:
        EngineError: An interface is missing or may not be watched, or a file cannot be made.
    """

    def __init__(self, vantages: Sequence[Vantage], folder: Path, snap_bytes: int = DEFAULT_SNAP_BYTES) -> None:
        if not 14 <= snap_bytes <= 262_144:
            raise EngineError(f"a capture of {snap_bytes} bytes a packet is impossible: 14 to 262144")
        self.files: dict[str, Path] = {}
        self._watched: list[tuple[str, PacketRing, BinaryIO]] = []
        self._undo = ExitStack()
        interface = ""
        try:
            for vantage in vantages:
                for interface in vantage.interfaces:
                    with vantage.enter():
                        ring = PacketRing(interface, keep_all(snap_bytes), outgoing=True, retire_ms=_RETIRE_MS)
                    self._undo.callback(ring.close)
                    path = folder / f"{interface}.pcap"
                    file = self._undo.enter_context(path.open("wb"))
                    file.write(pcap_header(snap_bytes))
                    self.files[interface] = path
                    self._watched.append((interface, ring, file))
        except OSError as error:
            self._undo.close()
            raise EngineError(f"cannot capture on {interface}: {error.strerror or error}") from error
        self._worker = Worker("capture", self._empty)

    def _empty(self) -> int:
        for _interface, ring, file in self._watched:
            for batch in ring.ready():
                file.write(b"".join(pcap_packets(batch)))
        return _EMPTY_EVERY_NS

    def start(self) -> None:
        """Begin to write; packets are kept since this object was made."""
        self._worker.start()

    def stop(self) -> None:
        """Write what is still in the rings and close the files.

        Raises:
            EngineError: Packets were missed, or a file could not be written.
        """
        error = self._worker.stop()
        try:
            if error is not None:
                raise EngineError(f"capturing failed: {error}") from error
            with Timer() as timer:
                # The kernel hands over a block that is not full only after a while.
                timer.wait(3 * _RETIRE_MS * 1_000_000)
            self._empty()
            for interface, ring, _file in self._watched:
                if missed := ring.dropped():
                    raise EngineError(f"the capture on {interface} missed {missed} packets")
        except OSError as failure:
            raise EngineError(f"cannot write a capture: {failure.strerror or failure}") from failure
        finally:
            self._undo.close()

    def __enter__(self) -> PacketCapture:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
