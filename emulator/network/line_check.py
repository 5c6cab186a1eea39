"""Looks which links pass frames: one from each end to the other, as a fabric's manager sends its own over every link.

InfiniBand's does so at each sweep, by packets that say themselves which links to take; one that does not answer is
taken to be down (opensm(8)).
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from emulator.errors import LinkError
from emulator.network.construction import Construction
from emulator.network.ports import Port

WAIT_NS = 1_000_000
"""A frame that takes longer than this is lost; it may have to wait in a full queue."""

_ETHERTYPE = 0x88B5
"""For local experiments (IEEE 802)."""
_LEAST_FRAME_BYTES = 60
_AT_ONCE = 128
"""Links that are looked at together: two sockets each, and not every process may have thousands."""


def silent_links(made: Construction, numbers: Sequence[int]) -> frozenset[int]:
    """Those of some links, which have carrier, over which nothing passes in one direction or in both.

    Args:
        made: The network, whose nodes all have namespaces.
        numbers: Of the links.

    Raises:
        LinkError: A kernel does not let us send.
    """
    slices = [numbers[begin : begin + _AT_ONCE] for begin in range(0, len(numbers), _AT_ONCE)]
    return frozenset(number for some in slices for number in _silent(made, some))


def _silent(made: Construction, numbers: Sequence[int]) -> list[int]:
    from emulator.linux.epoll import Poller  # uses NumPy, which stock Mininet's Python need not have

    with ExitStack() as undo, Poller() as poll:
        ends = {
            port.interface: undo.enter_context(_packet_socket(made, port))
            for number in numbers
            for port in made.plan.links[number]
        }
        waiting: dict[int, int] = {}
        for number in numbers:
            for near, far in (made.plan.links[number], made.plan.links[number][::-1]):
                descriptor = ends[far.interface].fileno()
                waiting[descriptor] = number
                poll.register(descriptor, select.EPOLLIN)
                _send(ends[near.interface], near, far)
        while waiting:
            ready = poll.wait(WAIT_NS)
            if not ready:
                break
            for descriptor in ready:
                del waiting[descriptor]
                poll.modify(descriptor, 0)
        return list(waiting.values())


def _packet_socket(made: Construction, port: Port) -> socket.socket:
    with made.namespace(port.node).entered():
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        one.bind((port.interface, _ETHERTYPE))
    except OSError as error:
        one.close()
        raise LinkError(f"{port.interface}: cannot look whether frames pass: {error.strerror or error}") from error
    return one


def _send(sender: socket.socket, near: Port, far: Port) -> None:
    header = bytes.fromhex(far.mac.replace(":", "") + near.mac.replace(":", "")) + _ETHERTYPE.to_bytes(2, "big")
    try:
        sender.send(header.ljust(_LEAST_FRAME_BYTES, b"\0"))
    except OSError as error:
        raise LinkError(f"{near.interface}: cannot look whether frames pass: {error.strerror or error}") from error
