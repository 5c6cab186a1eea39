"""Frames of AF_XDP memory under every interleaving of the data plane and a played kernel: none is lost or doubled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gateway.rings.batch import Batch, Fragments
from gateway.rings.frames import LENT, FrameError, FramePool
from gateway.rings.umem import Umem, UmemPlan
from tests.support.xsk_kernel import PlayedKernel

FRAMES = 24
FEW = st.integers(0, 10)
PORT = st.sampled_from([0, 1])


class FrameMachine(RuleBasedStateMachine):
    """Two ports on one memory. All rings are smaller than the memory, so everything runs full now and then."""

    @initialize(
        sizes=st.tuples(*[st.sampled_from([2, 4, 8])] * 2),
        start=st.sampled_from([0, 2**32 - 3, 2**31 - 1]),
        long_frames=st.booleans(),
    )
    def build(self, sizes: tuple[int, int], start: int, long_frames: bool) -> None:
        self.umem = Umem(UmemPlan(FRAMES))
        self.ports = [PlayedKernel(self.umem, size, start, long_frames=long_frames) for size in sizes]
        for port in self.ports:
            port.core.refill()
        self.long_frames = long_frames
        self.lent: list[Batch] = []
        self.arrived = [0, 0]
        self.got: list[list[bytes]] = [[], []]
        self.expected: list[list[bytes]] = [[], []]
        self.handed: list[list[bytes]] = [[], []]

    def teardown(self) -> None:
        if hasattr(self, "umem"):
            self.umem.close()

    # The kernel's steps
    @rule(port=PORT, count=FEW)
    def kernel_takes_fill(self, port: int, count: int) -> None:
        self.ports[port].take_fill(count)

    @rule(port=PORT, lengths=st.lists(st.sampled_from([14, 60, 1514, 1792, 1793, 3000, 5376]), min_size=1, max_size=6))
    def kernel_receives(self, port: int, lengths: list[int]) -> None:
        self.ports[port].take_fill(len(lengths))
        for length in lengths:
            if length > self.umem.plan.room_bytes and not self.long_frames:
                continue
            self.arrived[port] += 1
            number = self.arrived[port].to_bytes(4, "big")
            packet = (bytes([port + 1]) + number + bytes([length % 251] * length))[:length]
            if self.ports[port].receive(packet):
                self.got[port].append(packet)

    @rule(port=PORT, count=FEW)
    def kernel_takes_tx(self, port: int, count: int) -> None:
        self.ports[port].take_tx(count)

    @rule(port=PORT, taken=FEW, count=FEW, last_first=st.booleans())
    def kernel_completes(self, port: int, taken: int, count: int, last_first: bool) -> None:
        self.ports[port].take_tx(taken)
        self.ports[port].complete(count, last_first=last_first)

    # The data plane's steps
    @rule(port=PORT, limit=st.integers(1, 10))
    def receive(self, port: int, limit: int) -> None:
        batch = self.ports[port].core.receive(limit)
        self.handed[port] += [batch.frame(i) for i in range(len(batch))]
        assert [len(batch.frame(i)) for i in range(len(batch))] == batch.lengths.tolist()
        if len(batch):
            self.lent.append(batch)

    @rule(port=PORT, which=st.integers(0, 99), mask=st.lists(st.booleans(), min_size=10, max_size=10))
    def send(self, port: int, which: int, mask: list[bool]) -> None:
        """Send some frames of a batch, in order, through either port; the others stay lent."""
        if not self.lent:
            self.receive(port, 8)
        if not self.lent:
            return
        batch = self.lent.pop(which % len(self.lent))
        chosen = np.array((mask * (1 + len(batch) // 10))[: len(batch)])
        rest, sent = batch.take(~chosen), batch.take(chosen)
        content = [sent.frame(i) for i in range(len(sent))]
        count = self.ports[port].core.enqueue(sent)
        assert 0 <= count <= len(sent)
        self.expected[port] += content[:count]
        self.lent += [part for part in (rest, sent.take(slice(count, None))) if len(part)]

    @rule(which=st.integers(0, 99))
    def release(self, which: int) -> None:
        if self.lent:
            self.lent.pop(which % len(self.lent)).release()

    @rule(which=st.integers(0, 99))
    def give_back_twice(self, which: int) -> None:
        """Nothing happens to frames that are given away by who does not have them, but an error."""
        if self.lent:
            batch = self.lent.pop(which % len(self.lent))
            batch.release()
            with pytest.raises(FrameError):
                batch.release()

    @rule(port=PORT)
    def reap(self, port: int) -> None:
        self.ports[port].core.reap()

    @rule(port=PORT)
    def refill(self, port: int) -> None:
        self.ports[port].core.refill()

    @invariant()
    def every_frame_is_in_one_place(self) -> None:
        if not hasattr(self, "umem"):
            return
        pool = self.umem.pool
        lent = [int(place) // 2048 for batch in self.lent for place in batch.places()]
        held = [frame for port in self.ports for frame in port.frames()]
        free = (pool._free[: pool.free] // 2048).tolist()
        assert sorted(free + held + lent) == list(range(FRAMES))
        accounts = [port.core.accounting() for port in self.ports]
        assert pool.free + pool.lent + sum(account.frames for account in accounts) == FRAMES
        assert pool.lent == len(lent)
        for port, account in zip(self.ports, accounts, strict=True):
            assert account.fill == port.fill.waiting
            assert account.rx == port.rx.waiting
            assert account.tx == port.tx.waiting
            assert account.completion == port.completion.waiting
            assert account.kernel == len(port.receiving) + len(port.sending)

    @invariant()
    def bytes_are_those_that_arrived(self) -> None:
        if not hasattr(self, "umem"):
            return
        for port, kernel in enumerate(self.ports):
            assert self.handed[port] == self.got[port][: len(self.handed[port])]
            assert kernel.line == self.expected[port][: len(kernel.line)]
            assert kernel.core.copies.total_frames == 0


FrameMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=50)
TestFrames = FrameMachine.TestCase


@given(moves=st.lists(st.integers(-1, 9), max_size=12))
def test_pool_takes_only_what_is_lent(moves: list[int]) -> None:
    """A pool accepts exactly those lists of frames that are lent, each once; otherwise it changes nothing."""
    pool = FramePool(np.zeros(8 * 64, dtype=np.uint8), 64)
    lent = set((pool.lend(5) // 64).tolist())
    offsets = np.array([move * 64 + 7 for move in moves], dtype=np.int64)
    valid = len(set(moves)) == len(moves) and set(moves) <= lent
    if valid:
        pool.release(offsets)
        assert (pool.free, pool.lent) == (3 + len(moves), 5 - len(moves))
    else:
        with pytest.raises(FrameError):
            pool.release(offsets)
        assert (pool.free, pool.lent) == (3, 5)
        assert pool.held_by(LENT) == 5


@given(counts=st.lists(st.integers(0, 3), max_size=8), data=st.data())
def test_fragments_follow_their_frames(counts: list[int], data: st.DataObject) -> None:
    """Choosing frames chooses their further pieces, in the order of the choice."""
    array = np.array(counts, dtype=np.int64)
    pieces = [[10 * number + i for i in range(count)] for number, count in enumerate(counts)]
    flat = np.array([piece for some in pieces for piece in some], dtype=np.int64)
    heads = np.arange(len(counts), dtype=np.int64)
    chosen = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=8) if counts else st.just([]))
    got = Fragments(array, flat, flat + 1, heads).take(np.array(chosen, dtype=np.int64))
    assert got.offsets.tolist() == [piece for number in chosen for piece in pieces[number]]
    assert got.counts.tolist() == [counts[number] for number in chosen]
