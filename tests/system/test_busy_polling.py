"""Queues that are polled by who receives from them, on veth in namespaces: virtual kernels have no io_uring."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gateway.rings.batch import Batch
from gateway.rings.busy import IN_A_ROW, KEPT_OFF, LITTLE, MANY, BusyPoll, is_possible
from gateway.rings.napi import NapiControl, NapiSettings
from gateway.rings.umem import Umem, UmemPlan
from gateway.rings.xsk import RingSizes, XskPort
from tests.support.rings_bed import Bed, bed, may_make_namespaces
from tests.support.rings_guest import XskPair, forward, frame, received

SIZES = RingSizes(512, 512, 512, 512)
PATIENCE_S = 20
OWN = NapiSettings(3, 40_000)


pytestmark = pytest.mark.skipif(
    not (is_possible() and may_make_namespaces()), reason="needs root, io_uring and Linux 6.13"
)


@pytest.fixture
def built() -> Iterator[Bed]:
    """The usual bed."""
    with bed() as one:
        yield one


def settings(built: Bed, port: XskPort, new: NapiSettings | None = None) -> NapiSettings:
    """When the kernel polls a port's queue; changed first, if that is wanted."""
    with built.gw.namespace(), contextlib.closing(NapiControl()) as control:
        number = control.of_queue(socket.if_nametoindex(port.interface), port.queue)
        if new is not None:
            control.write(number, new)
        return control.read(number)


def polled(built: Bed) -> int:
    """Packets that came in by polls of who receives, in the gateway's namespace."""
    with built.gw.namespace():
        text = Path("/proc/thread-self/net/netstat").read_text(encoding="ascii")
    names, values = (line.split() for line in text.splitlines()[:2])
    return int(values[names.index("BusyPollRxPackets")])


def send(sock: socket.socket, first: int, count: int) -> list[bytes]:
    """So many frames, numbered."""
    sent = [frame(first + i, 60 + i % 50) for i in range(count)]
    for data in sent:
        sock.send(data)
    return sent


def wait_for(port: XskPort, count: int) -> None:
    """Wait until so many frames are in the receive ring, whoever brings them there."""
    deadline = time.monotonic() + PATIENCE_S
    while port.accounting().rx < count:
        assert time.monotonic() < deadline, "they do not come"
        os.sched_yield()


def test_much_is_polled_for_and_comes_in_order(built: Bed) -> None:
    """A large batch begins it, and a small one ends it, with the settings that were before; no frame is lost."""
    left, right = built.raw(built.left, "lh"), built.raw(built.right, "rh")
    with left, right, XskPair(built, UmemPlan(2048), SIZES, busy_poll=True) as pair:
        ingress, egress = pair.ports
        settings(built, ingress, OWN)
        number, kept_off = 0, False
        deadline = time.monotonic() + PATIENCE_S
        while polled(built) < 1 or not kept_off:
            assert time.monotonic() < deadline, "nobody polls"
            sent = send(left, number, MANY + number % 40)
            number += len(sent)
            if not ingress.as_json()["busy_poll"]["active"]:
                wait_for(ingress, len(sent))  # what came in two pieces would be two small batches
            done = 0
            while done < len(sent):
                batch = ingress.receive(512)
                kept_off |= settings(built, ingress) == KEPT_OFF
                assert egress.send(batch) == len(batch)
                done += len(batch)
            assert received(right, len(sent)) == sent
            assert egress.flush()
        assert kept_off
        sent = send(left, number, LITTLE - 1)
        forward(ingress, egress, LITTLE - 1)
        assert received(right, LITTLE - 1) == sent
        assert settings(built, ingress) == OWN
        # Nobody asks any more: the kernel tells of what comes.
        for turn in range(20):
            sent = send(left, turn, 1)
            forward(ingress, egress, 1)
            assert received(right, 1) == sent
        assert ingress.lost_frames() == 0
        accounts = [port.accounting() for port in pair.ports]
        assert pair.umem.pool.free + pair.umem.pool.lent + sum(account.frames for account in accounts) == 2048


@pytest.mark.parametrize("before", [OWN, KEPT_OFF], ids=["others'", "left by a killed process"])
def test_settings_are_put_back_when_a_port_closes(built: Bed, before: NapiSettings) -> None:
    """In the middle of it, too; what a process left that was killed is not taken for anybody's wish."""
    left = built.raw(built.left, "lh")
    built.gw.run(["ethtool", "-K", "gl", "gro", "on"])
    with left:
        with XskPair(built, UmemPlan(2048), SIZES, busy_poll=True) as pair:
            ingress = pair.ports[0]
            settings(built, ingress, before)
            for number in range(IN_A_ROW):
                assert not ingress.as_json()["busy_poll"]["active"], number
                send(left, 0, MANY)
                wait_for(ingress, MANY)
                ingress.receive(512).release()
                # Nothing at all, as between two batches, does not matter; a small batch would.
                assert number == IN_A_ROW - 1 or not len(ingress.receive(512))
            assert ingress.as_json()["busy_poll"] == {"active": True, "refused": False, "begun": 1}
        assert settings(built, ingress) == (OWN if before == OWN else NapiSettings(0, 0))


def test_queues_have_poll_loops_of_their_own() -> None:
    """The second of two queues is polled and kept off without the first one."""
    with bed(queues=2) as built:
        with built.left.namespace():
            umem = Umem(UmemPlan(1024))
            sender = XskPort(umem, "lh", 1, SIZES)
        with XskPair(built, UmemPlan(4096), SIZES, queue=1, busy_poll=True) as pair:
            for _ in range(IN_A_ROW):
                offsets = umem.pool.lend(MANY)
                for place in offsets.tolist():
                    umem.memory[place : place + 60] = np.frombuffer(frame(1), dtype=np.uint8)
                assert sender.send(Batch(umem.pool, offsets, np.full(MANY, 60))) == MANY
                wait_for(pair.ports[0], MANY)
                pair.ports[0].receive(512).release()
                sender.flush()
            assert settings(built, pair.ports[0]) == KEPT_OFF
            pair.ports[0].queue = 0
            assert settings(built, pair.ports[0]) == NapiSettings(0, 0)
        sender.close()
        umem.close()


def test_a_queue_that_is_none_stays_the_kernels(built: Bed) -> None:
    """Nothing is polled, and nobody is told of an error in the middle of forwarding."""
    with built.gw.namespace():
        busy = BusyPoll(socket.if_nametoindex("gl"), 7)
        with contextlib.closing(busy):
            busy.begin()
            assert busy.as_json() == {"active": False, "refused": True, "begun": 0}
