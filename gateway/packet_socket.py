"""Packet sockets (packet(7)) as data planes use them: silent until all is set up, with checksum notes, with rings."""

from __future__ import annotations

import contextlib
import mmap
import socket
import struct
from collections.abc import Iterable, Iterator

from emulator.errors import GatewayError
from emulator.linux.packet_filter import attach
from gateway.filter import Instruction
from gateway.interface import carries_super_packets, mtu_bytes

ETHERNET_BYTES = 14
VLAN_TAG_BYTES = 4
SUPER_PACKET_BYTES = 65_536
"""Longest IP packet that comes where segmentation is left to the interface."""

RING_SEND_BUFFER_BYTES = 1 << 28
"""Frames in the interface's queueing discipline are charged to the socket: the link's queue is to be the limit."""

SLOT_KERNEL, SLOT_USER, SLOT_VLAN_VALID = 0, 1, 1 << 4
"""In a slot's status word: whose it is, and that the kernel took a VLAN tag out."""

_ETH_P_ALL = 0x0003
_SOL_PACKET = 263
_PACKET_RX_RING = 5
_PACKET_STATISTICS = 6
_PACKET_AUXDATA = 8
_PACKET_VERSION = 10
_PACKET_RESERVE = 12
_PACKET_VNET_HDR = 15
_PACKET_IGNORE_OUTGOING = 23
_TPACKET_V2 = 1
_SO_SNDBUFFORCE = 32

# tpacket_auxdata: status, length, captured length, places of two headers, tag, type of the tag.
_NOTE = struct.Struct("=IIIHHHH")
NOTE_SPACE_BYTES = socket.CMSG_SPACE(_NOTE.size)
"""Room for what the kernel says of a frame besides its bytes."""


@contextlib.contextmanager
def opening(interface: str, what: str) -> Iterator[socket.socket]:
    """A packet socket that is to be set up; it is closed if that fails.

    Args:
        interface: Name of an interface in this network namespace, for messages.
        what: What is being done to it, for messages.

    Raises:
        GatewayError: There is no right to open one, or the kernel refuses what is done in the context.
    """
    try:
        # Protocol 0: nothing arrives before ring and filter are in place.
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError:
        raise GatewayError(f"no right to open a packet socket on {interface}: run as root of its namespace") from None
    try:
        yield sock
    except OSError as error:
        sock.close()
        raise GatewayError(f"cannot {what} on {interface}: {error.strerror or error}") from None
    except BaseException:
        sock.close()
        raise


def longest_frame_bytes(sock: socket.socket, interface: str) -> int:
    """The longest frame that may arrive, with its Ethernet header and without a tag."""
    packet_bytes = mtu_bytes(sock, interface)
    if carries_super_packets(sock, interface):
        packet_bytes = max(packet_bytes, SUPER_PACKET_BYTES)
    return packet_bytes + ETHERNET_BYTES


def prepare(sock: socket.socket, send_buffer_bytes: int, accept: tuple[Instruction, ...]) -> None:
    """Let a socket carry a ``virtio_net_hdr`` with each frame, and see arrivals only.

    Args:
        sock: The socket.
        send_buffer_bytes: What may be on its way out.
        accept: Classic BPF program that says which frames arrive; empty: all.
    """
    sock.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, send_buffer_bytes)
    if accept:
        attach(sock, accept)


def make_ring(
    sock: socket.socket, block_bytes: int, blocks: int, slot_bytes: int, slots: int, reserve_bytes: int = 0
) -> mmap.mmap:
    """Make a receive ring of TPACKET_V2 and map it.

    Args:
        sock: The socket.
        block_bytes: Length of each piece of kernel memory.
        blocks: Pieces.
        slot_bytes: Length of a slot.
        slots: Slots in all.
        reserve_bytes: Room before each frame, besides what the kernel needs.
    """
    sock.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
    sock.setsockopt(_SOL_PACKET, _PACKET_RESERVE, reserve_bytes)
    sock.setsockopt(_SOL_PACKET, _PACKET_RX_RING, struct.pack("=IIII", block_bytes, blocks, slot_bytes, slots))
    return mmap.mmap(sock.fileno(), block_bytes * blocks)


def begin(sock: socket.socket, interface: str) -> None:
    """Let frames arrive from now on; the socket never waits."""
    sock.setblocking(False)
    sock.bind((interface, _ETH_P_ALL))


def ask_for_tags(sock: socket.socket) -> None:
    """Let `recvmsg` say which VLAN tag the kernel took out of a frame: without that, a tagged one looks untagged."""
    sock.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)


def taken_tag(notes: Iterable[tuple[int, int, bytes]]) -> tuple[int, int] | None:
    """The Ethernet type of the tag that was taken out of a frame, and what it said; None: there was none.

    Args:
        notes: What `recvmsg` returned with the frame.
    """
    for level, kind, data in notes:
        if level == _SOL_PACKET and kind == _PACKET_AUXDATA and len(data) >= _NOTE.size:
            status, _, _, _, _, tag, tag_type = _NOTE.unpack_from(data)
            return (tag_type, tag) if status & SLOT_VLAN_VALID else None
    return None


def lost_since(sock: socket.socket) -> int:
    """Frames that arrived and found no room since this was asked last."""
    return int(struct.unpack("=II", sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1])
