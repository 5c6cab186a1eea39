"""TCP connections between ranks, opened from one process: each end in its own host's network namespace."""

from __future__ import annotations

import resource
import select
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from emulator.collectives.messages import Connection
from emulator.engine.host import HostHandle
from emulator.errors import WorkloadError
from emulator.linux.epoll import Poller
from emulator.units import NS_PER_S

_PORT = 29_500
"""Where ranks listen; the port that PyTorch's launcher uses."""
_FIRST_SOURCE_PORT = 30_000
_PORTS = 30_000
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_PATIENCE_NS = 30 * NS_PER_S
_SPARE_FILES = 256


AddressesOf = Callable[[Connection], tuple[str, str]]
"""From which address to which a connection goes."""


class Links:
    """Open connections; close them by leaving the block of `opened`.

    Attributes:
        senders, receivers: The two ends of each connection, non-blocking.
    """

    def __init__(self, senders: Sequence[socket.socket], receivers: Sequence[socket.socket]) -> None:
        self.senders = senders
        self.receivers = receivers


@contextmanager
def opened(
    hosts: Sequence[HostHandle],
    connections: Sequence[Connection],
    congestion: str,
    buffer_bytes: int,
    what: str,
    addresses: AddressesOf | None = None,
    generation: int = 0,
) -> Iterator[Links]:
    """Open connections between ranks and close them afterwards.

    Args:
        hosts: Of each rank.
        connections: Who sends to whom.
        congestion: Linux congestion control.
        buffer_bytes: Of each socket, for sending and for receiving.
        what: Workload, for messages.
        addresses: Of the two ends of each connection; None: their hosts' only ones.
        generation: 0 or 1: connections of either may stand while others are opened.

    Raises:
        WorkloadError: A rank cannot reach another one, or the kernel refuses a setting.
    """
    between = addresses or (lambda connection: (hosts[connection[0]].ip, hosts[connection[1]].ip))
    _allow_files(2 * len(connections) + len(hosts) + _SPARE_FILES, what)
    with ExitStack() as undo:
        try:
            listeners = _listen(hosts, connections, addresses is not None, _PORT + generation, buffer_bytes, undo)
            senders = _connect(hosts, connections, between, _PORT + generation, congestion, buffer_bytes, undo)
            yield Links(senders, _accept(hosts, connections, listeners, senders, undo, what))
        except OSError as error:
            raise WorkloadError(f"workload {what}: cannot connect ranks: {error}") from error


def _allow_files(wanted: int, what: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
    except (ValueError, OSError):
        raise WorkloadError(
            f"workload {what}: it needs {wanted} open files, and this process may have only {hard}"
        ) from None


def _abort_on_close(one: socket.socket) -> None:
    """Leave nothing behind when closed: a port in TIME_WAIT could not be taken again."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _listen(
    hosts: Sequence[HostHandle],
    connections: Sequence[Connection],
    several: bool,
    port: int,
    buffer_bytes: int,
    undo: ExitStack,
) -> dict[int, socket.socket]:
    counts: dict[int, int] = {}
    for _, target, _ in connections:
        counts[target] = counts.get(target, 0) + 1
    listeners = {}
    for rank, count in sorted(counts.items()):
        with hosts[rank].namespace():
            one = undo.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What is accepted has the listener's buffers from its first packet on.
        one.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer_bytes)
        one.bind(("" if several else hosts[rank].ip, port))
        one.listen(count)
        listeners[rank] = one
    return listeners


def _connect(
    hosts: Sequence[HostHandle],
    connections: Sequence[Connection],
    addresses: AddressesOf,
    port: int,
    congestion: str,
    buffer_bytes: int,
    undo: ExitStack,
) -> list[socket.socket]:
    made: dict[int, socket.socket] = {}
    by_source: dict[int, list[int]] = {}
    for number, (source, _, _) in enumerate(connections):
        by_source.setdefault(source, []).append(number)
    for source, numbers in sorted(by_source.items()):
        with hosts[source].namespace():
            for number in numbers:
                made[number] = undo.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        for place, number in enumerate(numbers):
            one = made[number]
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
            one.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, buffer_bytes)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _abort_on_close(one)
            # Ports of our own choice: hashes over them, and so ways through the network, are the same on every run.
            near, far = addresses(connections[number])
            one.bind((near, _FIRST_SOURCE_PORT + place % _PORTS))
            one.connect_ex((far, port))
    return [made[number] for number in range(len(connections))]


def _accept(
    hosts: Sequence[HostHandle],
    connections: Sequence[Connection],
    listeners: dict[int, socket.socket],
    senders: Sequence[socket.socket],
    undo: ExitStack,
    what: str,
) -> list[socket.socket]:
    """The receiving ends, told by the address that they come from."""
    waiting: dict[int, dict[tuple[str, int], int]] = {}
    for number, (_, target, _) in enumerate(connections):
        waiting.setdefault(target, {})[senders[number].getsockname()] = number
    found: dict[int, socket.socket] = {}
    ranks = {one.fileno(): rank for rank, one in listeners.items()}
    with Poller() as poll:
        for descriptor in ranks:
            poll.register(descriptor, select.EPOLLIN)
        while len(found) < len(connections):
            ready = poll.wait(_PATIENCE_NS)
            if not ready:
                source, target, _ = connections[min(set(range(len(connections))) - set(found))]
                there = hosts[target]
                raise WorkloadError(
                    f"workload {what}: {hosts[source].name} cannot connect to {there.name} ({there.ip})"
                )
            for descriptor in ready:
                one, address = listeners[ranks[descriptor]].accept()
                undo.enter_context(one)
                one.setblocking(False)
                _abort_on_close(one)
                expected = waiting[ranks[descriptor]]
                if address in expected:
                    found[expected.pop(address)] = one
    _settle(hosts, connections, senders)
    return [found[number] for number in range(len(connections))]


def _settle(hosts: Sequence[HostHandle], connections: Sequence[Connection], senders: Sequence[socket.socket]) -> None:
    """Make sure that every sender is connected.

    Raises:
        OSError: One is not.
    """
    left = {one.fileno(): number for number, one in enumerate(senders)}
    with Poller() as poll:
        for descriptor in left:
            poll.register(descriptor, select.EPOLLOUT | select.EPOLLONESHOT)
        while left:
            ready = poll.wait(_PATIENCE_NS)
            if not ready:
                source, target, _ = connections[min(left.values())]
                raise TimeoutError(f"{hosts[source].name} is not connected to {hosts[target].name}")
            for descriptor in ready:
                del left[descriptor]
