"""What the kernel knows of TCP connections (`TCP_INFO` over `sock_diag`), without touching their programs."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from emulator.linux.netlink import NETLINK_SOCK_DIAG, Netlink, attributes

_SOCK_DIAG_BY_FAMILY = 20
_INET_DIAG_INFO = 2
_ESTABLISHED, _LISTEN = 1, 10
_MESSAGE_BYTES = 72
"""Size of `struct inet_diag_msg`, after which attributes follow."""
_INODE_OFFSET = 68
_RTT_OFFSET, _TOTAL_RETRANSMITS_OFFSET, _BYTES_OFFSET = 68, 100, 120
"""Places in `struct tcp_info`: rtt, total_retrans, and bytes_acked followed by bytes_received."""


@dataclass(frozen=True)
class Connection:
    """One established connection as seen at one end.

    Attributes:
        local_port, remote_port: Its ports.
        bytes_acked: Payload that the other end acknowledged.
        bytes_received: Payload that arrived in order here.
        retransmits: Segments that this end sent again.
        rtt_us: Smoothed round-trip time.
        inode: Of its socket.
    """

    local_port: int
    remote_port: int
    bytes_acked: int
    bytes_received: int
    retransmits: int
    rtt_us: int
    inode: int


@dataclass(frozen=True)
class OwnConnection:
    """A connection of this process, as the kernel sees the end that a socket is.

    Attributes:
        bytes_received: Payload that arrived in order here.
        retransmits: Segments that this end sent again.
    """

    bytes_received: int
    retransmits: int


def own_connection(one: socket.socket) -> OwnConnection:
    """What the kernel knows of a TCP connection of this process.

    Raises:
        OSError: It is not TCP, or closed.
    """
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_OFFSET + 16)
    received = struct.unpack_from("=Q", info, _BYTES_OFFSET + 8)[0]
    return OwnConnection(received, struct.unpack_from("=I", info, _TOTAL_RETRANSMITS_OFFSET)[0])


class TcpReader:
    """Reads the TCP connections of the network namespace in which it was opened."""

    def __init__(self) -> None:
        self._netlink = Netlink(NETLINK_SOCK_DIAG)

    def _dump(self, states: int, extensions: int) -> list[bytes]:
        body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, extensions, 0, states)
        answers = []
        for family in (socket.AF_INET, socket.AF_INET6):
            # iperf3 listens on a dual-stack socket, so connections over IPv4 may be in the other family.
            request = bytes([family]) + body[1:] + bytes(48)
            answers += self._netlink.dump(_SOCK_DIAG_BY_FAMILY, request)
        return answers

    def listening_ports(self) -> set[int]:
        """Ports on which something listens."""
        return {int.from_bytes(answer[4:6], "big") for answer in self._dump(1 << _LISTEN, 0)}

    def connections(self) -> list[Connection]:
        """All established connections."""
        found = []
        for answer in self._dump(1 << _ESTABLISHED, 1 << (_INET_DIAG_INFO - 1)):
            info = dict(attributes(answer[_MESSAGE_BYTES:])).get(_INET_DIAG_INFO, b"")
            if len(info) < _BYTES_OFFSET + 16:
                continue
            acked, received = struct.unpack_from("=QQ", info, _BYTES_OFFSET)
            found.append(
                Connection(
                    int.from_bytes(answer[4:6], "big"),
                    int.from_bytes(answer[6:8], "big"),
                    acked,
                    received,
                    struct.unpack_from("=I", info, _TOTAL_RETRANSMITS_OFFSET)[0],
                    struct.unpack_from("=I", info, _RTT_OFFSET)[0],
                    struct.unpack_from("=I", answer, _INODE_OFFSET)[0],
                )
            )
        return found

    def close(self) -> None:
        """Close the socket."""
        self._netlink.close()
