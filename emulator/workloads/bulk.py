"""Endless TCP flows from one process, however many: nothing is copied, and what each delivered is read from the kernel.

Senders give the kernel pages of one file in memory (`sendfile`), receivers have it throw away what came (`MSG_TRUNC`).
Both are woken once for a good part of a window, not for every packet.
"""

from __future__ import annotations

import mmap
import os
import select
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

from emulator.linux.epoll import Poller
from emulator.linux.tcp_info import own_connection

_FILE_BYTES = 4 << 20
_ROOM_BYTES = 64 << 20
"""Address space for what is thrown away; it is never touched, so it takes no memory."""

_WAKE_SHARE = 4
"""A receiver is woken when this part of its buffer is full."""


class BulkFlows:
    """Flows that send as much as they can, from when they `begin`, while `run_until` lasts; a context manager.

    Args:
        senders: Sending ends of open connections, non-blocking.
        receivers: Their receiving ends, in the same order.
        buffer_bytes: Size of the receivers' buffers.
    """

    def __init__(self, senders: Sequence[socket.socket], receivers: Sequence[socket.socket], buffer_bytes: int) -> None:
        self._senders = {one.fileno(): one for one in senders}
        self._receivers = {one.fileno(): one for one in receivers}
        self._undo = ExitStack()
        self._poller = self._undo.enter_context(Poller())
        self._file = os.memfd_create("bulk")
        self._undo.callback(os.close, self._file)
        os.truncate(self._file, _FILE_BYTES)
        self._room = self._undo.enter_context(mmap.mmap(-1, _ROOM_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        for one in receivers:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, max(1, buffer_bytes // _WAKE_SHARE))
            self._poller.register(one.fileno(), select.EPOLLIN)

    def begin(self, senders: Sequence[socket.socket]) -> None:
        """Let some flows send, which have not until now."""
        for one in senders:
            self._poller.register(one.fileno(), select.EPOLLOUT)

    def run_until(self, end_ns: int) -> None:
        """Keep flows going until a moment (CLOCK_MONOTONIC).

        Raises:
            OSError: A connection broke.
        """
        while (left_ns := end_ns - time.monotonic_ns()) > 0:
            for descriptor in self._poller.wait(left_ns):
                if descriptor in self._senders:
                    self._send(descriptor)
                else:
                    self._receive(descriptor)

    def received_bytes(self) -> list[int]:
        """What each flow has delivered so far, in the order of the receivers."""
        return [own_connection(one).bytes_received for one in self._receivers.values()]

    def retransmits(self) -> list[int]:
        """Segments that each flow sent again so far."""
        return [own_connection(one).retransmits for one in self._senders.values()]

    def _send(self, descriptor: int) -> None:
        try:
            while os.sendfile(descriptor, self._file, 0, _FILE_BYTES) == _FILE_BYTES:
                pass
        except BlockingIOError:
            return

    def _receive(self, descriptor: int) -> None:
        try:
            self._receivers[descriptor].recv_into(self._room, _ROOM_BYTES, socket.MSG_TRUNC)
        except BlockingIOError:
            return

    def __enter__(self) -> BulkFlows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()
