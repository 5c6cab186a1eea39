"""A switch that answers what it is asked with whatever it is told to, under the right number."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from tests.support.raw_http import connect

_HEADER = struct.Struct("!BBHI")
HELLO, ECHO_REQUEST, ECHO_REPLY, FEATURES, MULTIPART, BARRIER, ROLE = 0, 2, 3, 5, 18, 20, 24
_SILENCE_S = 0.1
"""Who is asked nothing for so long has nothing more to say."""


def message(kind: int, xid: int, body: bytes = b"", version: int = 4) -> bytes:
    """An OpenFlow message."""
    return _HEADER.pack(version, kind, 8 + len(body), xid) + body


class LyingSwitch:
    """Connects, and talks until the controller closes, asks nothing more, or has asked so often.

    Args:
        address: The controller.
        dpid: Which switch it says to be.
        lie: Makes the body of a multipart reply, without its header, for a type.
    """

    def __init__(self, address: str, dpid: int, lie: Callable[[int], bytes]) -> None:
        self._address = address
        self._dpid = dpid
        self._lie = lie
        self.told = 0

    def talk(self, most: int) -> None:
        """Answer at most so many questions."""
        with connect(self._address) as sock, suppress(OSError):
            sock.settimeout(_SILENCE_S)
            sock.sendall(message(HELLO, 1))
            received = b""
            while self.told < most:
                chunk = sock.recv(65_536)
                if not chunk:
                    return
                received += chunk
                while len(received) >= 8:
                    _, kind, size, xid = _HEADER.unpack_from(received)
                    if len(received) < size:
                        break
                    self._answer(sock, kind, xid, received[8:size])
                    received = received[size:]

    def _answer(self, sock: socket.socket, kind: int, xid: int, body: bytes) -> None:
        if kind == FEATURES:
            sock.sendall(message(6, xid, struct.pack("!QIBB2xII", self._dpid, 256, 254, 0, 0x4F, 0)))
        elif kind == ECHO_REQUEST:
            sock.sendall(message(ECHO_REPLY, xid, body))
        elif kind == BARRIER:
            sock.sendall(message(21, xid))
        elif kind == ROLE:
            sock.sendall(message(25, xid, body))
        elif kind == MULTIPART:
            (what,) = struct.unpack_from("!H", body)
            self.told += 1
            sock.sendall(message(19, xid, struct.pack("!HH4x", what, 0) + self._lie(what)))
