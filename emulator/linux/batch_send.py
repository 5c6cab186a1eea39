"""Many UDP packets with one system call, each with the time at which it is to leave (`SO_TXTIME`, `sendmmsg`)."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import time

import numpy as np
import numpy.typing as npt

_LIBC = ctypes.CDLL(None, use_errno=True)
_SO_NO_CHECK, _SO_TXTIME = 11, 61
_SO_SNDBUFFORCE = 32
_MAX_BATCH = 1024
"""Linux's UIO_MAXIOV: most messages in one call."""

_NO_WAY = (errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH)
"""The host's own interface is down, or the route with it."""

_MESSAGE = np.dtype(
    [
        ("name", "=u8"),
        ("name_length", "=u4"),
        ("_pad0", "=u4"),
        ("vectors", "=u8"),
        ("vector_count", "=u8"),
        ("control", "=u8"),
        ("control_length", "=u8"),
        ("flags", "=u4"),
        ("_pad1", "=u4"),
        ("sent", "=u4"),
        ("_pad2", "=u4"),
    ]
)
"""`struct mmsghdr` on 64-bit machines."""
_VECTOR = np.dtype([("base", "=u8"), ("length", "=u8")])
_CONTROL = np.dtype([("length", "=u8"), ("level", "=u4"), ("type", "=u4"), ("time_ns", "=u8")])

SEQUENCE_BYTES = 8
"""Every packet starts with its number, 64 bits in network byte order."""


class TimedSender:
    """A connected UDP socket that hands packets with departure times to the kernel, in batches.

    The packets must leave through an `fq` queue (see `emulator.workloads.pacer`), which holds each until its time.
    The socket's buffer bounds how many wait there: `send` blocks when it is full, so nothing ever spins.

    Args:
        target: Address and port.
        payload_bytes: UDP payload of each packet; below `SEQUENCE_BYTES` the number is cut short.
        buffer_bytes: Kernel memory that waiting packets may take.
        source_port: Own port, so that hashes over the header fields are the same on every run.
        first_number: Number of the first packet.
    """

    def __init__(
        self,
        target: tuple[str, int],
        payload_bytes: int,
        buffer_bytes: int,
        source_port: int,
        first_number: int = 0,
    ) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, buffer_bytes)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_TXTIME, struct.pack("=iI", time.CLOCK_MONOTONIC, 0))
            self._socket.bind(("", source_port))
            self._socket.connect(target)
        except BaseException:
            self._socket.close()
            raise
        self._numbers = np.zeros(_MAX_BATCH, dtype=">u8")
        self._padding = np.zeros(max(1, payload_bytes - SEQUENCE_BYTES), dtype=np.uint8)
        self._vectors = np.zeros((_MAX_BATCH, 2), dtype=_VECTOR)
        self._controls = np.zeros(_MAX_BATCH, dtype=_CONTROL)
        self._messages = np.zeros(_MAX_BATCH, dtype=_MESSAGE)
        index = np.arange(_MAX_BATCH, dtype=np.uint64)
        self._vectors["base"][:, 0] = self._numbers.ctypes.data + SEQUENCE_BYTES * index
        self._vectors["length"][:, 0] = min(payload_bytes, SEQUENCE_BYTES)
        self._vectors["base"][:, 1] = self._padding.ctypes.data
        self._vectors["length"][:, 1] = max(0, payload_bytes - SEQUENCE_BYTES)
        self._controls["length"] = _CONTROL.itemsize
        self._controls["level"] = socket.SOL_SOCKET
        self._controls["type"] = _SO_TXTIME
        self._messages["vectors"] = self._vectors.ctypes.data + 2 * _VECTOR.itemsize * index
        self._messages["vector_count"] = 2
        self._messages["control"] = self._controls.ctypes.data + _CONTROL.itemsize * index
        self._messages["control_length"] = _CONTROL.itemsize
        self._next_number = first_number

    def send(self, departures_ns: npt.NDArray[np.int64]) -> None:
        """Hand over one packet for each departure time (CLOCK_MONOTONIC); blocks while the buffer is full.

        Raises:
            OSError: The kernel refuses, for example because nothing is bound to the target's port.
        """
        for start in range(0, len(departures_ns), _MAX_BATCH):
            times = departures_ns[start : start + _MAX_BATCH]
            count = len(times)
            self._numbers[:count] = np.arange(self._next_number, self._next_number + count)
            self._controls["time_ns"][:count] = times
            self._hand_over(count)
            self._next_number += count

    def _hand_over(self, count: int) -> None:
        done = 0
        while done < count:
            at = self._messages.ctypes.data + done * _MESSAGE.itemsize
            sent = _LIBC.sendmmsg(self._socket.fileno(), ctypes.c_void_p(at), count - done, 0)
            if sent < 0:
                error = ctypes.get_errno()
                if error == errno.EINTR:
                    continue
                if error not in _NO_WAY:
                    raise OSError(error, os.strerror(error))
                sent = 1  # lost, as a packet is that meets a broken link further on
            done += sent

    def close(self) -> None:
        """Close the socket; packets that were handed over still leave at their times."""
        self._socket.close()
