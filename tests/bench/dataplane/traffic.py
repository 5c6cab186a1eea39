"""The XDP programs that make and count packets, and what runs them.

Packets are made in the kernel by BPF_PROG_TEST_RUN on live frames, as xdp-trafficgen does: some ten million a second,
and no system call a packet. Frames longer than a page are not possible there; those are sent with sendmmsg(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import queue
import signal
import socket
import struct
import tempfile
import threading
import time
from ipaddress import IPv4Address
from pathlib import Path
from typing import Protocol

import numpy as np

from emulator.errors import GatewayError
from gateway.offload.build import compile_source
from gateway.offload.libbpf import BpfObject, checked, library, possible_cpus
from gateway.offload.maps import BpfMap
from gateway.offload.steering import Attachment
from tests.bench.dataplane.bed import GENERATOR_PRIORITY
from tests.support.dataplane_reference import ones_complement
from tests.support.netns_hosts import NamespaceHost

SOURCES = Path(__file__).resolve().parent / "programs"
FLOWS = 64
FIRST_RATE = 50_000.0
"""Packets/s until a generator is told otherwise: few enough for whoever has to get to know the flows."""
FIRST_PORT, PORT = 20_000, 9
"""Source ports are counted up from the first one; the other one is the destination's."""
_LIVE_FRAMES = 1 << 1
_MOST_BATCH, _PACED_BATCH = 256, 64
_MOST_LIVE_BYTES = 3000
_FORGIVEN_S = 20e-6
_PACE = np.dtype([("interval_ps", "=u8"), ("next_ps", "=u8"), ("sent", "=u8")])
_ARRIVED = np.dtype([("packets", "=u8")])
_SOL_PACKET, _PACKET_QDISC_BYPASS = 263, 20


class _RunOptions(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("data_in", ctypes.c_char_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("context_in", ctypes.c_void_p),
        ("context_out", ctypes.c_void_p),
        ("context_size_in", ctypes.c_uint32),
        ("context_size_out", ctypes.c_uint32),
        ("result", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
    )


_folder: tempfile.TemporaryDirectory[str] | None = None


def compiled(name: str) -> Path:
    """The programs of ``programs/<name>.bpf.c``, compiled once in a process.

    Raises:
        MissingCapability: There is no compiler.
        CommandError: It refuses.
    """
    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="icgw-bench-")
    target = Path(_folder.name) / f"{name}.bpf.o"
    if not target.exists():
        compile_source(SOURCES / f"{name}.bpf.c", target)
    return target


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def frame(
    frame_bytes: int, source_mac: str, target_mac: str, source: str, target: str, source_port: int = FIRST_PORT
) -> bytes:
    """A UDP packet in a frame of this length (without check sequence), all checksums right."""
    ends = IPv4Address(source).packed + IPv4Address(target).packed
    length = frame_bytes - 14
    ip = bytearray(struct.pack("!BBHHHBBH", 0x45, 0, length, 1, 0, 64, 17, 0) + ends)
    ip[10:12] = struct.pack("!H", ones_complement(bytes(ip)))
    data = bytes(length - 28)
    udp = bytearray(struct.pack("!HHHH", source_port, PORT, length - 20, 0))
    pseudo = ends + struct.pack("!BBH", 0, 17, length - 20)
    udp[6:8] = struct.pack("!H", ones_complement(pseudo + udp + data) or 0xFFFF)
    return _mac(target_mac) + _mac(source_mac) + b"\x08\x00" + bytes(ip) + bytes(udp) + data


class Sink(Protocol):
    """Counts what arrives at a host's interface and drops it at once."""

    def packets(self) -> int:
        """How many arrived so far."""
        ...

    def close(self) -> None:
        """Take it away."""
        ...


class FrameSink:
    """For frames that come from XDP: an XDP program, before the kernel makes anything of them."""

    def __init__(self, host: NamespaceHost, interface: str) -> None:
        self._host = host
        self._programs = load(0)
        self._counts = BpfMap(self._programs.map_fd("arrivals"), "=u4", _ARRIVED, possible_cpus())
        try:
            with host.namespace():
                self._attachment = Attachment(interface, self._programs.program_fd("sink"))
        except BaseException:
            self._programs.close()
            raise

    def packets(self) -> int:
        """See `Sink.packets`."""
        return int(self._counts.get(0)["packets"].sum())

    def close(self) -> None:
        """See `Sink.close`."""
        with self._host.namespace():
            self._attachment.detach()
        self._programs.close()


class PacketSink:
    """For the kernel's own packets: a rule where they come in. An XDP program would have each copied for it."""

    def __init__(self, host: NamespaceHost, interface: str) -> None:
        self._host = host
        self._interface = interface
        chain = f"type filter hook ingress device {interface} priority 0;"
        host.run(["nft", f"add table netdev sink; add chain netdev sink arriving {{ {chain} }}"])
        host.run(["nft", f"add rule netdev sink arriving udp dport {PORT} drop"])

    def packets(self) -> int:
        """See `Sink.packets`; the interface counts all that arrives, and nothing else does."""
        with self._host.namespace():
            lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
        return next(int(line.split()[2]) for line in lines if line.split()[0] == f"{self._interface}:")

    def close(self) -> None:
        """See `Sink.close`."""
        self._host.run(["nft", "delete table netdev sink"])


def load(egress: int, header: bytes = b"") -> BpfObject:
    """The programs, for an egress by its interface's number."""
    settings = struct.pack("=IIH", egress, FLOWS, socket.htons(PORT)) + header.ljust(42, b"\0")
    return BpfObject(compiled("traffic"), ("generate", "redirect", "sink"), settings=settings)


class Generator:
    """Sends one kind of packet out of an interface, in a thread of its own, until it is stopped.

    Args:
        host: Who sends.
        interface: Its interface.
        packet: What is sent, with `FLOWS` source ports.
        cpu: Where it runs.
        paced: It is to keep to rates; else it is to be as fast as can be.
    """

    def __init__(self, host: NamespaceHost, interface: str, packet: bytes, cpu: int, *, paced: bool) -> None:
        self._host = host
        self._interface = interface
        self._packet = packet
        self._cpu = cpu
        self._batch = _PACED_BATCH if paced else _MOST_BATCH
        self._ended = False
        self._failure: BaseException | None = None
        self._made: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._sender: _Live | _Many | None = None
        # Only the thread that it is for can be interrupted by a signal, and only if somebody handles it.
        self._before = signal.signal(signal.SIGUSR1, lambda *_: None)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._made.get()
        if self._sender is None:
            self.stop()

    def _run(self) -> None:
        try:
            task = threading.get_native_id()
            os.sched_setaffinity(task, {self._cpu})
            os.sched_setscheduler(task, os.SCHED_FIFO, os.sched_param(GENERATOR_PRIORITY))
            with self._host.namespace():
                if len(self._packet) <= _MOST_LIVE_BYTES:
                    self._sender = _Live(self._interface, self._packet, self._batch)
                else:
                    self._sender = _Many(self._interface, self._packet)
                self._made.put(None)
                while not self._ended:
                    self._sender.send()
        except BaseException as error:  # noqa: BLE001 stop() raises it in the thread that is waited for
            self._failure = error
            self._made.put(None)

    def pace(self, rate: float | None) -> None:
        """Go on at a rate.

        Args:
            rate: Packets/s; None: as fast as can be.
        """
        if self._sender is not None:
            self._sender.pace(rate)

    @property
    def sent(self) -> int:
        """Packets so far; at other rates they are counted anew."""
        return 0 if self._sender is None else self._sender.sent()

    def stop(self) -> None:
        """Stop, and give everything back."""
        self._ended = True
        while self._thread.is_alive():
            signal.pthread_kill(self._thread.ident or 0, signal.SIGUSR1)
            self._thread.join(0.02)
        signal.signal(signal.SIGUSR1, self._before)
        if self._sender is not None:
            self._sender.close()
        if self._failure is not None:
            raise self._failure


class _Live:
    """The kernel makes the packets, and recycles as many of their pages as there are packets in a batch."""

    def __init__(self, interface: str, packet: bytes, batch: int) -> None:
        self._packet = packet
        self._batch = batch
        self._programs = load(socket.if_nametoindex(interface), packet[:42])
        self._pace = BpfMap(self._programs.map_fd("paces"), "=u4", _PACE)
        self.pace(FIRST_RATE)

    def send(self) -> None:
        options = _RunOptions(ctypes.sizeof(_RunOptions), self._packet, None, len(self._packet))
        options.repeat, options.flags, options.batch_size = (1 << 31) - 1, _LIVE_FRAMES, self._batch
        result = library().bpf_prog_test_run_opts(self._programs.program_fd("generate"), ctypes.byref(options))
        if result < 0 and -result != errno.EINTR:
            checked(result, "the generator cannot send")

    def pace(self, rate: float | None) -> None:
        interval = 0 if rate is None else round(1e12 / rate)
        self._pace.put(0, np.array((interval, 0, 0), _PACE))

    def sent(self) -> int:
        return int(self._pace.get(0)["sent"])

    def close(self) -> None:
        self._programs.close()


class _Many:
    """Sends the same long packets over and over, with one system call for many."""

    _COUNT = 16

    def __init__(self, interface: str, packet: bytes) -> None:
        self._rate: float | None = FIRST_RATE
        self._due = 0.0
        self._sent = 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            self._socket.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, 32, 1 << 26)
            self._socket.bind((interface, 0))
        except OSError as error:
            self._socket.close()
            raise GatewayError(f"the generator cannot send on {interface}: {error.strerror}") from None
        packets = [with_port(packet, FIRST_PORT + number % FLOWS) for number in range(self._COUNT)]
        self._data = np.frombuffer(b"".join(packets), np.uint8)
        at = self._data.ctypes.data + np.arange(self._COUNT) * len(packet)
        self._vectors = np.zeros(self._COUNT, [("base", "=u8"), ("length", "=u8")])
        self._vectors["base"], self._vectors["length"] = at, len(packet)
        self._messages = np.zeros((self._COUNT, 8), "=u8")
        self._messages[:, 2] = self._vectors.ctypes.data + np.arange(self._COUNT) * 16
        self._messages[:, 3] = 1
        self._libc = ctypes.CDLL(None, use_errno=True)

    def send(self) -> None:
        """For a while."""
        for _ in range(256):
            rate = self._rate
            if rate is not None:
                now = time.monotonic()
                if now < self._due:
                    continue
                self._due = max(self._due, now - _FORGIVEN_S) + self._COUNT / rate
            done = self._libc.sendmmsg(
                self._socket.fileno(), ctypes.c_void_p(self._messages.ctypes.data), self._COUNT, socket.MSG_DONTWAIT
            )
            if done < 0 and ctypes.get_errno() not in (errno.EAGAIN, errno.ENOBUFS, errno.EINTR):
                raise GatewayError(f"the generator cannot send: {os.strerror(ctypes.get_errno())}")
            self._sent += max(0, done)

    def pace(self, rate: float | None) -> None:
        self._rate, self._sent = rate, 0

    def sent(self) -> int:
        return self._sent

    def close(self) -> None:
        self._socket.close()


def with_port(packet: bytes, port: int) -> bytes:
    """The same packet from another source port."""
    changed = bytearray(packet)
    step = port - int.from_bytes(packet[34:36], "big")
    changed[34:36] = port.to_bytes(2, "big")
    total = (~int.from_bytes(packet[40:42], "big") & 0xFFFF) + step
    changed[40:42] = (~((total & 0xFFFF) + (total >> 16)) & 0xFFFF).to_bytes(2, "big")
    return bytes(changed)
