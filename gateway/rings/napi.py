"""How the kernel's poll loop of one queue (NAPI) is woken: read and changed over generic netlink (Linux 6.13)."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_GENERIC = 16
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
_NAPI_GET, _NAPI_SET = 11, 14
_INDEX, _ID, _DEFERRALS, _TIMEOUT = 1, 2, 5, 6
_QUEUE_GET, _QUEUE_ID, _QUEUE_INDEX, _QUEUE_TYPE, _QUEUE_NAPI = 10, 1, 2, 3, 4
_REQUEST, _ACK, _DUMP, _ERROR, _DONE = 1, 4, 0x300, 2, 3
_HEADER = struct.Struct("=IHHII")
_GENERIC_HEADER = struct.Struct("=BBH")
_ATTRIBUTE = struct.Struct("=HH")
_ANSWER_BYTES = 1 << 16
_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class NapiSettings:
    """When a queue's poll loop runs.

    Attributes:
        deferrals: After so many polls in vain its interrupt is switched on again; until then a timer wakes it.
        timeout_ns: The timer's.
    """

    deferrals: int
    timeout_ns: int


class NapiControl:
    """A netlink socket in the network namespace of the calling thread.

    Raises:
        OSError: The kernel does not have this.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _GENERIC)
        self._sequence = 0
        try:
            self._socket.settimeout(_TIMEOUT_S)
            name = _attribute(_FAMILY_NAME, b"netdev\0")
            (self._family,) = struct.unpack_from("=H", self._ask(_CONTROL, _GET_FAMILY, name)[_FAMILY_ID])
        except BaseException:
            self._socket.close()
            raise

    def of_queue(self, interface_index: int, queue: int) -> int:
        """The number of the poll loop of a receive queue.

        Raises:
            OSError: The kernel does not tell.
        """
        index = _attribute(_QUEUE_INDEX, struct.pack("=I", interface_index))
        queues = [
            one for one in self._all(self._family, _QUEUE_GET, index) if not int.from_bytes(one[_QUEUE_TYPE], "little")
        ]
        for one in queues:
            if int.from_bytes(one[_QUEUE_ID], "little") == queue and _QUEUE_NAPI in one:
                return int.from_bytes(one[_QUEUE_NAPI], "little")
        # Drivers that do not say it (veth) make them in the order of the queues.
        index = _attribute(_INDEX, struct.pack("=I", interface_index))
        loops = sorted(int.from_bytes(one[_ID], "little") for one in self._all(self._family, _NAPI_GET, index))
        if len(loops) != len(queues) or queue >= len(queues):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return loops[queue]

    def read(self, napi: int) -> NapiSettings:
        """The settings of a poll loop, by its number.

        Raises:
            OSError: The kernel refuses.
        """
        answer = self._ask(self._family, _NAPI_GET, _attribute(_ID, struct.pack("=I", napi)))
        deferrals, timeout_ns = (int.from_bytes(answer.get(key, b""), "little") for key in (_DEFERRALS, _TIMEOUT))
        return NapiSettings(deferrals, timeout_ns)

    def write(self, napi: int, settings: NapiSettings) -> None:
        """Change them.

        Raises:
            OSError: The kernel refuses.
        """
        body = _attribute(_ID, struct.pack("=I", napi))
        body += _attribute(_DEFERRALS, struct.pack("=I", settings.deferrals))
        body += _attribute(_TIMEOUT, struct.pack("=Q", settings.timeout_ns))
        self._ask(self._family, _NAPI_SET, body)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _ask(self, kind: int, command: int, attributes: bytes) -> dict[int, bytes]:
        answers = self._send(kind, command, attributes, _ACK)
        return answers[0] if answers else {}

    def _all(self, kind: int, command: int, attributes: bytes) -> list[dict[int, bytes]]:
        return self._send(kind, command, attributes, _DUMP)

    def _send(self, kind: int, command: int, attributes: bytes, flags: int) -> list[dict[int, bytes]]:
        self._sequence += 1
        body = _GENERIC_HEADER.pack(command, 1, 0) + attributes
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, self._sequence, 0) + body)
        found: list[dict[int, bytes]] = []
        while True:
            for answered, sequence, content in _messages(self._socket.recv(_ANSWER_BYTES)):
                if sequence != self._sequence:
                    continue
                if answered not in (_ERROR, _DONE):
                    found.append(dict(_attributes(content[_GENERIC_HEADER.size :])))
                    continue
                (code,) = struct.unpack_from("=i", content)
                if code:
                    raise OSError(-code, os.strerror(-code))
                return found


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, sequence number and content of each message."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, sequence, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        yield kind, sequence, data[at + _HEADER.size : at + length]
        at += length + -length % 4


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind, data[at + _ATTRIBUTE.size : at + length]
        at += length + -length % 4
