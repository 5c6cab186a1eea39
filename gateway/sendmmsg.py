"""Sending many pieces of one mapped memory by one system call, without touching them: sendmmsg(2)."""

from __future__ import annotations

import ctypes
import errno
import mmap
import socket

from gateway.port import BATCH, Sent


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_size_t), ("length", ctypes.c_size_t))


class _Msghdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("iov", ctypes.c_void_p),
        ("iov_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Mmsghdr(ctypes.Structure):
    _fields_ = (("header", _Msghdr), ("sent_bytes", ctypes.c_uint))


_libc = ctypes.CDLL(None, use_errno=True)
_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM})


class SendBatch:
    """Messages that are pieces of a mapping, sent over one connected or bound socket.

    Args:
        fd: The socket.
        memory: The mapping; `close` must be called before it is closed.
    """

    def __init__(self, fd: int, memory: mmap.mmap) -> None:
        self._fd = fd
        self._pin = ctypes.c_char.from_buffer(memory)
        self._base = ctypes.addressof(self._pin)
        self._iovecs = (_Iovec * BATCH)()
        self._messages = (_Mmsghdr * BATCH)()
        self._send = _libc.sendmmsg
        for iovec, message in zip(self._iovecs, self._messages, strict=True):
            message.header.iov = ctypes.addressof(iovec)
            message.header.iov_count = 1
        self._slots = list(self._iovecs)

    def place(self, index: int, start: int, end: int) -> None:
        """Let message *index* be the bytes from *start* to *end* of the mapping."""
        iovec = self._slots[index]
        iovec.base = self._base + start
        iovec.length = end - start

    def send(self, count: int) -> tuple[int, Sent]:
        """Send the first *count* messages in order, without waiting.

        Returns:
            How many were sent, and what became of the one behind them (`Sent.DONE`: there is none).
        """
        sent: int = self._send(self._fd, self._messages, count, socket.MSG_DONTWAIT)
        if sent == count:
            return sent, Sent.DONE
        if sent < 0:
            code = ctypes.get_errno()
            return 0, Sent.NO_ROOM if code in _NO_ROOM else Sent.REFUSED
        # The kernel keeps the reason why it stopped to itself; the caller goes on with the rest and learns it.
        return sent, Sent.DONE

    def close(self) -> None:
        """Let go of the mapping."""
        self._slots.clear()
        del self._pin
