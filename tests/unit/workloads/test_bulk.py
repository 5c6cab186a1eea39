"""Endless flows from one process, on this machine's own loopback: they go on, and the kernel says how far they are."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from emulator.linux.tcp_info import own_connection
from emulator.workloads.bulk import BulkFlows

NS_PER_MS = 1_000_000
DESCRIPTORS = Path("/proc/self/fd")


def pairs(count: int, undo: ExitStack) -> tuple[list[socket.socket], list[socket.socket]]:
    """Connected sockets, all non-blocking."""
    listener = undo.enter_context(socket.create_server(("127.0.0.1", 0)))
    senders, receivers = [], []
    for _ in range(count):
        senders.append(undo.enter_context(socket.create_connection(listener.getsockname())))
        receivers.append(undo.enter_context(listener.accept()[0]))
    for one in (*senders, *receivers):
        one.setblocking(False)
    return senders, receivers


def test_flows_begin_when_they_are_told_to_and_go_on() -> None:
    """A flow that has not begun delivers nothing, one that has delivers more and more; descriptors are given back."""
    before = len(list(DESCRIPTORS.iterdir()))
    with ExitStack() as undo:
        senders, receivers = pairs(3, undo)
        with BulkFlows(senders, receivers, 1 << 18) as flows:
            flows.begin(senders[:2])
            flows.run_until(time.monotonic_ns() + 20 * NS_PER_MS)
            first = flows.received_bytes()
            assert first[0] > 0
            assert first[1] > 0
            assert first[2] == 0
            flows.begin(senders[2:])
            while min(after - early for early, after in zip(first, flows.received_bytes(), strict=True)) < 1 << 24:
                flows.run_until(time.monotonic_ns() + NS_PER_MS)
            assert len(flows.retransmits()) == 3
    assert len(list(DESCRIPTORS.iterdir())) == before


def test_a_broken_connection_is_an_error() -> None:
    """If the other end goes away, that is not taken for silence."""
    with ExitStack() as undo:
        senders, receivers = pairs(1, undo)
        with BulkFlows(senders, receivers, 1 << 18) as flows:
            flows.begin(senders)
            senders[0].shutdown(socket.SHUT_RDWR)
            with pytest.raises(OSError, match="Broken pipe"):
                flows.run_until(time.monotonic_ns() + 10_000 * NS_PER_MS)


def test_counts_are_those_of_the_socket() -> None:
    """What one end sent is what the other received."""
    with ExitStack() as undo:
        [sender], [receiver] = pairs(1, undo)
        sender.send(b"12345")
        receiver.setblocking(True)
        assert receiver.recv(5) == b"12345"
        assert own_connection(receiver).bytes_received == 5
        assert own_connection(sender).bytes_received == 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, pytest.raises(OSError, match="not"):
        own_connection(datagrams)
