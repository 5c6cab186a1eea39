"""Just enough of netlink: messages are built as bytes, sent many at a time, and refusals keep the kernel's own words.

Why not a library: interfaces of a fabric come by the thousand, and one system call for hundreds of requests is what
makes that cheap; netem's 64-bit attributes are not encoded by the usual ones; and ``mn`` runs on the system's Python,
which has the standard library only. What is encoded here is compared with pyroute2 in the tests.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from emulator.errors import LinkError

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_SETLINK = 16, 17, 18, 19
RTM_NEWADDR = 20
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEIGH = 28
RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38

CREATE = 0x400 | 0x200
"""Flags of a request that makes something new: NLM_F_CREATE, NLM_F_EXCL."""

REPLACE = 0x400 | 0x100
"""Of one that takes the place of what is there, if anything is, at once: NLM_F_CREATE, NLM_F_REPLACE."""

ROUTE, NEXT_HOP = struct.Struct("=BBBBBBBBI"), struct.Struct("=HBBi")
"""`struct rtmsg` and `struct rtnexthop`."""

RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PREFSRC, RTA_MULTIPATH = 1, 4, 5, 7, 9
MAIN_TABLE, ONLINK = 254, 4

_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_ACK_TLVS = 0x200
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_ERRNO = struct.Struct("=i")
NESTED = 0x8000
"""Put on the type of attributes that are rows of attributes, where the kernel asks for it (NLA_F_NESTED)."""

_TYPE_MASK = 0x3FFF
_SOL_NETLINK, _CAP_ACK, _EXT_ACK, _STRICT_CHECK = 270, 10, 11, 12
_RECEIVE_BYTES = 1 << 16
"""More than the 32 KiB that the kernel puts into one datagram of answers."""

_QUEUE_BYTES = 1 << 20
_CHUNK = 128
"""Requests per system call: if all are refused, 128 explanations of about 1 KiB fit into the usual receive buffer."""


class _Space(threading.local):
    """Where answers are received; one for each thread, as there may be a socket for each of ten thousand namespaces."""

    def __init__(self) -> None:
        self.buffer = bytearray(_RECEIVE_BYTES)


_SPACE = _Space()


class KernelRefused(LinkError):
    """The kernel refused a request.

    Attributes:
        what: What was asked for.
        errno: The kernel's error number.
        said: The kernel's own explanation, or the error number's text.
    """

    def __init__(self, what: str, errno: int, said: str) -> None:
        super().__init__(f"{what}: the kernel says: {said}")
        self.what = what
        self.errno = errno
        self.said = said


def attribute(kind: int, payload: bytes) -> bytes:
    """Encode one attribute, padded to four bytes."""
    length = 4 + len(payload)
    return _ATTRIBUTE.pack(length, kind) + payload + b"\0" * (-length % 4)


def text(kind: int, value: str) -> bytes:
    """Encode a text attribute with its closing zero."""
    return attribute(kind, value.encode() + b"\0")


def u32(kind: int, value: int) -> bytes:
    """Encode a 32-bit attribute."""
    return attribute(kind, struct.pack("=I", value))


def u64(kind: int, value: int) -> bytes:
    """Encode a 64-bit attribute."""
    return attribute(kind, struct.pack("=Q", value))


def attribute_list(data: bytes, offset: int = 0) -> list[tuple[int, bytes]]:
    """Decode a row of attributes as (type, payload), in order."""
    found = []
    end = len(data)
    while offset + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < 4 or offset + length > end:
            break
        found.append((kind & _TYPE_MASK, data[offset + 4 : offset + length]))
        offset += length + (-length % 4)
    return found


def attributes(data: bytes, offset: int = 0) -> dict[int, bytes]:
    """Decode a row of attributes; of several with the same type the last one stays."""
    return dict(attribute_list(data, offset))


def picked(data: bytes, wanted: Container[int], offset: int = 0) -> dict[int, bytes]:
    """Decode some attributes of a long row: what is not wanted is only stepped over."""
    found = {}
    end = len(data) - 3
    while offset < end:
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < 4:
            break
        if kind & _TYPE_MASK in wanted:
            found[kind & _TYPE_MASK] = data[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


@dataclass(frozen=True)
class Request:
    """One message to the kernel.

    Attributes:
        kind: Message type, such as `RTM_NEWLINK`.
        body: Fixed header and attributes.
        what: What it does, for the error line: ``link a--b: create``.
        flags: Besides NLM_F_REQUEST.
    """

    kind: int
    body: bytes
    what: str
    flags: int = 0


def message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    """Frame a body as a netlink message, padded to four bytes."""
    length = _HEADER.size + len(body)
    return _HEADER.pack(length, kind, flags, sequence, 0) + body + b"\0" * (-length % 4)


def messages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Split received data into (kind, flags, sequence, body)."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, kind, flags, sequence, _port = _HEADER.unpack_from(data, offset)
        if length < _HEADER.size:
            return
        yield kind, flags, sequence, data[offset + _HEADER.size : offset + length]
        offset += length + (-length % 4)


class NetlinkSocket:
    """A netlink socket in the network namespace that the calling thread is in when it is made.

    The socket stays in that namespace, whichever one the thread goes to afterwards.

    Args:
        protocol: Netlink family.
    """

    def __init__(self, protocol: int = socket.NETLINK_ROUTE) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._sequence = 0
        for option in (_CAP_ACK, _EXT_ACK, _STRICT_CHECK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        # As far as the machine allows; see _CHUNK.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE_BYTES)

    def execute(self, requests: Sequence[Request]) -> None:
        """Carry out requests in order, hundreds to a system call.

        Raises:
            KernelRefused: The first that the kernel refused; the later ones of its batch were carried out all the same.
        """
        for start in range(0, len(requests), _CHUNK):
            self._execute_chunk(requests[start : start + _CHUNK])

    def _execute_chunk(self, chunk: Sequence[Request]) -> None:
        first = self._sequence + 1
        last = self._sequence + len(chunk)
        self._sequence = last
        # Refusals are reported for every request, success only where it is asked for: at the last one.
        data = b"".join(
            message(one.kind, _REQUEST | one.flags | (_ACK if number == last else 0), number, one.body)
            for number, one in enumerate(chunk, first)
        )
        self._socket.send(data)
        refused: KernelRefused | None = None
        while True:
            for kind, flags, sequence, body in messages(self._receive()):
                if kind != _ERROR or not first <= sequence <= last:
                    continue
                errno = -_ERRNO.unpack_from(body)[0]
                if errno and refused is None:
                    refused = KernelRefused(chunk[sequence - first].what, errno, _explanation(errno, flags, body))
                if sequence == last:
                    if refused is not None:
                        raise refused
                    return

    def _receive(self) -> bytes:
        # Into memory that is there already: a fresh buffer each time costs more than the call.
        length = self._socket.recv_into(_SPACE.buffer)
        return bytes(memoryview(_SPACE.buffer)[:length])

    def dump(self, kind: int, body: bytes, what: str) -> list[bytes]:
        """Ask for everything of a kind and return the answers' bodies.

        Raises:
            KernelRefused: The kernel refused.
        """
        return self._ask(Request(kind, body, what), _DUMP)

    def get(self, request: Request) -> bytes:
        """Ask for a single thing and return the answer's body.

        Raises:
            KernelRefused: It does not exist.
        """
        return self._ask(request, 0)[0]

    def _ask(self, request: Request, flags: int) -> list[bytes]:
        self._sequence += 1
        mine = self._sequence
        self._socket.send(message(request.kind, _REQUEST | request.flags | flags, mine, request.body))
        found: list[bytes] = []
        while True:
            for kind, answer_flags, sequence, body in messages(self._receive()):
                if sequence != mine:
                    continue
                if kind == _ERROR:
                    errno = -_ERRNO.unpack_from(body)[0]
                    raise KernelRefused(request.what, errno, _explanation(errno, answer_flags, body))
                if kind == _DONE:
                    return found
                found.append(body)
                if not flags & _DUMP:
                    return found

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def __enter__(self) -> NetlinkSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _explanation(errno: int, flags: int, body: bytes) -> str:
    """The kernel's sentence, if it sent one: error number, the request's header, then attributes."""
    if flags & _ACK_TLVS:
        said = attributes(body, _ERRNO.size + _HEADER.size).get(1)
        if said:
            return said.rstrip(b"\0").decode(errors="replace")
    return os.strerror(errno)
