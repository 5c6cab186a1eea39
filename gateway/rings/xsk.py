"""An AF_XDP port: one queue of one interface, its four rings mapped, its frames in a memory that ports share.

What is received is a list of descriptors (place, length) in the receive ring; forwarding writes them into the transmit
ring of another port on the same memory. Where the bytes lie never changes and user space never copies them. All rings
are read and written in batches by numpy. Sent frames come back through the completion ring into the pool, from which
the fill ring offers them for new arrivals.

A queue has two sockets, one that receives and one that sends. The kernel wakes who waits for a socket whenever a frame
that it sent is done with; on the sending socket nobody ever waits, and a tenth of the time that sending takes is saved.

An XDP program must redirect the queue's packets to the socket (see `gateway.offload`). Who needs this: CAP_NET_RAW,
and CAP_IPC_LOCK or enough RLIMIT_MEMLOCK for the memory.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from emulator.errors import GatewayError
from gateway.interface import check_interface, mac_address
from gateway.rings import xsk_abi as abi
from gateway.rings.batch import Batch
from gateway.rings.busy import FEW, BusyPoll
from gateway.rings.copies import CopyLedger, Crossing
from gateway.rings.frames import Accounting
from gateway.rings.index import RingMemory
from gateway.rings.port import PortCounters
from gateway.rings.umem import Umem
from gateway.rings.xsk_core import XskCore, XskRings

_SO_SNDBUFFORCE = 32
_SEND_BUFFER_BYTES = 1 << 28
"""Frames on their way through the kernel are charged to the socket; the rings are to be the limit."""

_TRY_AGAIN = frozenset({errno.EAGAIN, errno.EBUSY, errno.ENOBUFS})
_DOWN = frozenset({errno.ENETDOWN, errno.ENXIO})


class Mode(str, Enum):
    """How bytes get between device and memory."""

    AUTO = "auto"
    """Without a copy if the driver can, else with one."""
    COPY = "copy"
    ZERO_COPY = "zero_copy"


_MODE_FLAGS = {Mode.AUTO: 0, Mode.COPY: abi.XDP_COPY, Mode.ZERO_COPY: abi.XDP_ZEROCOPY}


@dataclass(frozen=True)
class RingSizes:
    """Entries of the four rings, powers of two. The fill ring is the queue for arrivals, the transmit ring that out."""

    rx: int = 2048
    tx: int = 2048
    fill: int = 2048
    completion: int = 2048


class XskPort:
    """See the module.

    Args:
        umem: The memory; ports on one memory forward between each other without a copy.
        interface: Name of an Ethernet interface in this network namespace.
        queue: Which of its queues.
        sizes: Entries of the rings.
        mode: How the bytes get into the memory and out; that of the first port on a memory is that of all.
        stamped: The XDP program stamps arrivals.
        long_frames: Take packets that are longer than a frame, in pieces; needs Linux 6.6.
        busy_poll: While much arrives, poll the queue where its frames are handled; see `BusyPoll`.

    Raises:
        GatewayError: The kernel refuses.
        MissingCapability: It cannot be polled so.
    """

    def __init__(
        self,
        umem: Umem,
        interface: str,
        queue: int = 0,
        sizes: RingSizes | None = None,
        *,
        mode: Mode = Mode.AUTO,
        stamped: bool = False,
        long_frames: bool = False,
        busy_poll: bool = False,
        copies: CopyLedger | None = None,
    ) -> None:
        self.interface = interface
        self.queue = queue
        self.sizes = sizes or RingSizes()
        self._umem = umem
        self._maps: list[mmap.mmap] = []
        self._sockets: list[socket.socket] = []
        self._busy: BusyPoll | None = None
        try:
            self._receiver, self._sender = self._new_socket(), self._new_socket()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                self.mac = mac_address(probe, interface)
            index = socket.if_nametoindex(interface)
            if busy_poll:
                self._busy = BusyPoll(index, queue)
            umem.register(self._receiver)
            rings = self._make_rings()
            flags = _MODE_FLAGS[mode] | abi.XDP_USE_NEED_WAKEUP | (abi.XDP_USE_SG if long_frames else 0)
            umem.bind(self._receiver, flags, index, queue)
            abi.bind(self._sender, abi.XDP_SHARED_UMEM, index, queue, self._receiver.fileno())
            self.crossing = Crossing.NONE if abi.is_zero_copy(self._receiver) else Crossing.COPY
        except OSError as error:
            self._close_sockets()
            raise GatewayError(f"AF_XDP on {interface}, queue {queue}: {error.strerror or error}") from None
        except BaseException:
            self._close_sockets()
            raise
        self._rings = rings
        self.core = XskCore(umem, rings, copies or CopyLedger(), stamped=stamped, long_frames=long_frames)
        self.core.refill()

    def _new_socket(self) -> socket.socket:
        try:
            sock = socket.socket(abi.AF_XDP, socket.SOCK_RAW, 0)
        except OSError as error:
            reason = "run as root of its namespace" if error.errno == errno.EPERM else error.strerror
            raise GatewayError(f"no AF_XDP socket on {self.interface}: {reason}") from None
        self._sockets.append(sock)
        return sock

    def _close_sockets(self) -> None:
        if self._busy is not None:
            self._busy.close()
        for sock in reversed(self._sockets):
            self._umem.unbind(sock)
            sock.close()

    def _make_rings(self) -> XskRings:
        receiver, sender, sizes = self._receiver, self._sender, self.sizes
        abi.set_ring_size(receiver, abi.XDP_UMEM_FILL_RING, sizes.fill)
        abi.set_ring_size(receiver, abi.XDP_UMEM_COMPLETION_RING, sizes.completion)
        abi.set_ring_size(receiver, abi.XDP_RX_RING, sizes.rx)
        abi.set_ring_size(sender, abi.XDP_TX_RING, sizes.tx)
        with contextlib.suppress(OSError):
            abi.set_send_budget(sender, sizes.tx)
        with contextlib.suppress(OSError):
            sender.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_BUFFER_BYTES)
        rx, _, fill, completion = abi.mmap_offsets(receiver)
        tx = abi.mmap_offsets(sender)[1]
        return XskRings(
            self._map(receiver, rx, sizes.rx, abi.DESCRIPTOR, abi.PGOFF_RX),
            self._map(sender, tx, sizes.tx, abi.DESCRIPTOR, abi.PGOFF_TX),
            self._map(receiver, fill, sizes.fill, abi.ADDRESS, abi.PGOFF_FILL),
            self._map(receiver, completion, sizes.completion, abi.ADDRESS, abi.PGOFF_COMPLETION),
        )

    def _map(
        self, sock: socket.socket, at: abi.RingOffsets, size: int, kind: np.dtype[Any], page_offset: int
    ) -> RingMemory:
        length = at.entries + size * kind.itemsize
        mapping = mmap.mmap(sock.fileno(), length, mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=page_offset)
        self._maps.append(mapping)
        memory = np.frombuffer(mapping, dtype=np.uint8)
        return RingMemory(memory, at.producer, at.consumer, at.flags, at.entries, size, kind)

    @property
    def counters(self) -> PortCounters:
        """See `Port.counters`."""
        return self.core.counters

    @property
    def copies(self) -> CopyLedger:
        """See `Port.copies`."""
        return self.core.copies

    def fileno(self) -> int:
        """See `Port.fileno`."""
        return self._receiver.fileno()

    def receive(self, limit: int) -> Batch:
        """See `Port.receive`."""
        busy = self._busy
        if busy is not None and busy.active:
            self._gather(busy, limit)
        batch = self.core.receive(limit)
        if self._rings.fill.needs_wakeup():
            self._wake(self._poll)
        if busy is not None:
            busy.received(len(batch))
        return batch

    def _gather(self, busy: BusyPoll, limit: int) -> None:
        """Poll the queue until there is a whole batch, or no more waits."""
        rx = self._rings.rx
        waiting = rx.waiting()
        while waiting < limit:
            self._wake(busy.poll)
            before, waiting = waiting, rx.waiting()
            if waiting - before < FEW:
                if waiting or not busy.yields:
                    return
                # The kernel's thread may still hold the queue, and lets go of it as soon as it runs.
                busy.yields -= 1
                os.sched_yield()
            self.core.refill()

    def _poll(self) -> None:
        self._receiver.recv(0, socket.MSG_DONTWAIT)

    def send(self, batch: Batch) -> int:
        """See `Port.send`."""
        count = self.core.enqueue(batch)
        self._kick()
        return count

    def flush(self) -> bool:
        """See `Port.flush`."""
        core, rings = self.core, self._rings
        core.reap()
        core.refill()
        if rings.tx.waiting():
            self._kick()
            core.reap()
        return not rings.tx.waiting()

    def _kick(self) -> None:
        """Let the kernel send, until it has taken all or takes no more."""
        tx = self._rings.tx
        waiting = tx.waiting()
        while waiting and tx.needs_wakeup():
            self._wake(lambda: self._sender.send(b"", socket.MSG_DONTWAIT))
            before, waiting = waiting, tx.waiting()
            if waiting == before:
                return
            if waiting:
                self.core.reap()

    def _wake(self, call: Callable[[], object]) -> None:
        """Make a system call that carries no data, only a wake-up."""
        self.core.counters.wakeups += 1
        try:
            call()
        except OSError as error:
            if error.errno not in _TRY_AGAIN and error.errno not in _DOWN:
                raise GatewayError(f"AF_XDP on {self.interface}: {error.strerror}") from None

    def check(self) -> None:
        """See `Port.check`."""
        check_interface(self._receiver, self.interface)

    def accounting(self) -> Accounting:
        """See `Port.accounting`."""
        return self.core.accounting()

    def statistics(self) -> abi.Statistics:
        """What the kernel counts for the two sockets."""
        received, sent = abi.statistics(self._receiver), abi.statistics(self._sender)
        return replace(received, tx_invalid=sent.tx_invalid, tx_empty=sent.tx_empty)

    def lost_frames(self) -> int:
        """See `Port.lost_frames`."""
        counted = self.statistics()
        return counted.rx_dropped + counted.rx_ring_full

    def as_json(self) -> dict[str, Any]:
        """See `Port.as_json`."""
        return {
            "kind": "af_xdp",
            "interface": self.interface,
            "queue": self.queue,
            "crossing": self.crossing.value,
            "rings": asdict(self.sizes),
            "busy_poll": None if self._busy is None else self._busy.as_json(),
            "lost_frames": self.lost_frames(),
            "kernel": asdict(self.statistics()),
            "counters": self.counters.as_json(),
            "accounting": asdict(self.accounting()),
        }

    def close(self) -> None:
        """Close the sockets; all frames that the kernel had are free again."""
        self._rings.close()
        for mapping in self._maps:
            mapping.close()
        self._close_sockets()
        self.core.reclaim()
