"""Many frames with one system call, from where they lie in a memory: sendmmsg(2), its structures filled by numpy."""

from __future__ import annotations

import ctypes
import errno
import os
import socket

import numpy as np

from emulator.errors import GatewayError
from gateway.rings.batch import Batch, Numbers
from gateway.rings.virtio import HEADER_BYTES

_LIBC = ctypes.CDLL(None, use_errno=True)
_MESSAGE = np.dtype(
    [
        ("name", "=u8"),
        ("name_length", "=u8"),
        ("vectors", "=i8"),
        ("vector_count", "=i8"),
        ("control", "=u8"),
        ("control_length", "=u8"),
        ("flags", "=u8"),
        ("sent", "=u8"),
    ]
)
"""`struct mmsghdr` on 64-bit machines, with the padding after its 32-bit fields in them."""
_VECTOR = np.dtype([("base", "=i8"), ("length", "=i8")])
_LIMIT = 1024
"""Linux's UIO_MAXIOV: most messages in one call."""
_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM})
_CANNOT_CARRY = frozenset({errno.EMSGSIZE, errno.EINVAL, errno.ENETDOWN, errno.ENXIO})


class FrameSender:
    """Sends frames over a packet socket that wants a ``virtio_net_hdr`` before each.

    Args:
        sock: The socket, bound.

    Attributes:
        calls: System calls so far.
        refused: Frames that the interface cannot carry.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._messages = np.zeros(_LIMIT, dtype=_MESSAGE)
        self._finished = np.zeros(HEADER_BYTES, dtype=np.uint8)
        self.calls = 0
        self.refused = 0

    def send(self, batch: Batch) -> int:
        """Send frames in order, without waiting; how many are done with, from the first."""
        done = 0
        while done < len(batch):
            part = batch.take(slice(done, done + _LIMIT))
            count = self._send(part)
            done += count
            if count < len(part):
                break
        return done

    def _send(self, batch: Batch) -> int:
        vectors, counts = _vectors(batch, self._finished)
        messages = self._messages[: len(batch)]
        ends = np.cumsum(counts)
        messages["vectors"] = vectors.ctypes.data + (ends - counts) * _VECTOR.itemsize
        messages["vector_count"] = counts
        done = 0
        while done < len(batch):
            at = ctypes.c_void_p(messages.ctypes.data + done * _MESSAGE.itemsize)
            self.calls += 1
            sent = _LIBC.sendmmsg(self._socket.fileno(), at, len(batch) - done, socket.MSG_DONTWAIT)
            if sent < 0:
                code = ctypes.get_errno()
                if code in _NO_ROOM:
                    break
                if code not in _CANNOT_CARRY:
                    raise GatewayError(f"cannot send frames: {os.strerror(code)}")
                self.refused += 1
                sent = 1
            done += sent
        return done


def _vectors(batch: Batch, finished: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> tuple[np.ndarray, Numbers]:
    """Where the pieces of each frame lie, the header first, and how many pieces each has."""
    base = batch.memory.ctypes.data
    count = len(batch)
    fragments = batch.fragments
    counts = np.full(count, 2, dtype=np.int64) if fragments is None else 2 + fragments.counts
    starts = np.cumsum(counts) - counts
    vectors = np.empty(int(counts.sum()), dtype=_VECTOR)
    vectors["base"][starts] = finished.ctypes.data if batch.virtio is None else base + batch.virtio
    vectors["length"][starts] = HEADER_BYTES
    vectors["base"][starts + 1] = base + batch.offsets
    if fragments is None:
        vectors["length"][starts + 1] = batch.lengths
        return vectors, counts
    vectors["length"][starts + 1] = fragments.heads(batch.offsets, batch.lengths)
    rest = np.ones(len(vectors), dtype=bool)
    rest[starts] = rest[starts + 1] = False
    vectors["base"][rest] = base + fragments.offsets
    vectors["length"][rest] = fragments.lengths
    return vectors, counts
