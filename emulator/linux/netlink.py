"""Raw netlink requests and attributes, for counters that are read thousands of times in a run."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from types import TracebackType

NETLINK_ROUTE, NETLINK_SOCK_DIAG = 0, 4
_NLM_F_REQUEST, _NLM_F_DUMP, _NLM_F_ACK, _NLM_F_MULTI = 1, 0x300, 4, 2
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_RECEIVE_BYTES = 1 << 18
_TYPE_MASK = 0x3FFF
"""Without the bits for nesting and byte order."""


def attribute(kind: int, value: bytes) -> bytes:
    """One netlink attribute with its padding."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes in *data*, in order; stops at the first that does not fit."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4 or at + length > len(data):
            return
        yield kind & _TYPE_MASK, data[at + 4 : at + length]
        at += (length + 3) & ~3


class Netlink:
    """A netlink socket in the network namespace that the calling thread is in; stays there.

    Args:
        family: For example `NETLINK_ROUTE`.
    """

    def __init__(self, family: int) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        self._socket.bind((0, 0))
        self._sequence = 0

    def _send(self, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        length = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(length, kind, _NLM_F_REQUEST | flags, self._sequence, 0) + body)

    def _messages(self) -> Iterator[tuple[int, int, bytes]]:
        """Kind, flags and body of the answers to the last request, in one datagram."""
        data = self._socket.recv(_RECEIVE_BYTES)
        at = 0
        while at + _HEADER.size <= len(data):
            length, kind, flags, sequence, _port = _HEADER.unpack_from(data, at)
            if length < _HEADER.size:
                return
            body = data[at + _HEADER.size : at + length]
            if sequence == self._sequence:
                if kind == _NLMSG_ERROR:
                    error = -struct.unpack_from("=i", body)[0]
                    if error:
                        raise OSError(error, os.strerror(error))
                yield kind, flags, body
            at += (length + 3) & ~3

    def get(self, kind: int, body: bytes) -> bytes:
        """Ask for one object and return the body of the answer.

        Raises:
            OSError: The kernel refuses.
        """
        self._send(kind, 0, body)
        while True:
            for _kind, _flags, answer in self._messages():
                return answer

    def change(self, kind: int, flags: int, body: bytes) -> None:
        """Ask for a change and wait until it is done.

        Raises:
            OSError: The kernel refuses.
        """
        self._send(kind, flags | _NLM_F_ACK, body)
        while True:
            for got, _flags, _answer in self._messages():
                if got == _NLMSG_ERROR:
                    return

    def dump(self, kind: int, body: bytes) -> list[bytes]:
        """Ask for all objects and return the bodies of the answers.

        Raises:
            OSError: The kernel refuses.
        """
        self._send(kind, _NLM_F_DUMP, body)
        answers: list[bytes] = []
        while True:
            for got, flags, answer in self._messages():
                if got == _NLMSG_DONE:
                    return answers
                answers.append(answer)
                if not flags & _NLM_F_MULTI:
                    return answers

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> Netlink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
