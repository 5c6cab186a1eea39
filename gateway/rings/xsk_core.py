"""An AF_XDP port without system calls: frames between pool, rings and batches. In tests a kernel is played for it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gateway.rings import xsk_abi as abi
from gateway.rings.batch import Batch, Fragments, Numbers
from gateway.rings.copies import CopyLedger
from gateway.rings.frames import LENT, Accounting
from gateway.rings.index import Consumer, Producer, RingMemory
from gateway.rings.port import PortCounters
from gateway.rings.umem import Umem

_LEAST_FRAME_BYTES = 14
_MAX_PIECES = 18
"""Most pieces that the kernel makes of a packet: one, and MAX_SKB_FRAGS."""

_NONE: Numbers = np.empty(0, dtype=np.int64)


class XskRings:
    """The four rings: those of a socket, or of a kernel that is played in a test."""

    def __init__(self, rx: RingMemory, tx: RingMemory, fill: RingMemory, completion: RingMemory) -> None:
        self.rx = Consumer(rx)
        self.tx = Producer(tx)
        self.fill = Producer(fill)
        self.completion = Consumer(completion)

    def close(self) -> None:
        """Let go of the mappings."""
        for ring in (self.rx, self.tx, self.fill, self.completion):
            ring.close()


class XskCore:
    """Everything that a port does but system calls: frames between pool, rings and batches.

    Args:
        umem: The memory.
        rings: The four rings.
        stamped: The XDP program puts the time of arrival into the 8 bytes before each frame.
        long_frames: Frames may come in several pieces.
    """

    def __init__(self, umem: Umem, rings: XskRings, copies: CopyLedger, *, stamped: bool, long_frames: bool) -> None:
        self._pool = umem.pool
        self._rings = rings
        self._receiver, self._sender = umem.pool.add_port()
        self._stamped = stamped
        self._long = long_frames
        self._headroom = umem.plan.headroom_bytes + abi.PACKET_HEADROOM_BYTES
        self._words = umem.memory.view(np.int64)
        self.copies = copies
        self.counters = PortCounters()

    def receive(self, limit: int) -> Batch:
        """See `Port.receive`."""
        rings = self._rings
        if self._long:
            limit = max(limit, _MAX_PIECES)
        offsets, raw_lengths, options = rings.rx.read(limit)
        fragments = None
        count = len(offsets)
        if not count:
            self.refill()
            return Batch(self._pool, offsets, _NONE)
        places, lengths = offsets, raw_lengths.astype(np.int64)
        if self._long and (options & abi.XDP_PKT_CONTD).any():
            count, offsets, lengths, fragments = _join(offsets, lengths, (options & abi.XDP_PKT_CONTD) != 0)
            places = places[:count]
        self._pool.hand_over(places, self._receiver, LENT)
        rings.rx.consume(count)
        self.refill()
        self.counters.rx_frames += len(offsets)
        self.counters.rx_bytes += int(lengths.sum())
        arrivals = self._words[(offsets >> 3) - 1] if self._stamped else None
        return Batch(self._pool, offsets, lengths, arrivals, fragments)

    def refill(self) -> None:
        """Offer free frames to the kernel for what arrives."""
        fill = self._rings.fill
        room = fill.room()
        if room:
            frames = self._pool.take(room, self._receiver)
            if len(frames):
                fill.push(frames)

    def reap(self) -> None:
        """Take back what was sent."""
        completion = self._rings.completion
        (done,) = completion.read(completion.waiting())
        if len(done):
            self._pool.give(done, self._sender)
            completion.consume(len(done))

    def enqueue(self, batch: Batch) -> int:
        """Write descriptors into the transmit ring; see `Port.send`."""
        self.reap()
        if batch.owner is not self._pool:
            return self._enqueue_copies(batch)
        if batch.fragments is not None:
            return self._enqueue_pieces(batch)
        tx = self._rings.tx
        count = min(len(batch), tx.room())
        offsets, lengths = batch.offsets[:count], batch.lengths[:count]
        fitting = self._pool.fits(offsets, lengths)
        fitting &= lengths >= _LEAST_FRAME_BYTES
        if not fitting.all():
            # The kernel would swallow the descriptor, and its frame would be lost to us for ever.
            self._refuse(batch.take(slice(count)).take(~fitting))
            offsets, lengths = offsets[fitting], lengths[fitting]
        self._pool.hand_over(offsets, LENT, self._sender)
        if self._long:
            tx.push(offsets, lengths, np.zeros(len(offsets), dtype=np.uint32))
        else:
            tx.push(offsets, lengths)
        self._count_sent(len(offsets), lengths, len(batch) - count)
        return count

    def _refuse(self, batch: Batch) -> None:
        batch.release()
        self.counters.tx_refused += len(batch)

    def _count_sent(self, frames: int, lengths: Numbers, left: int) -> None:
        self.counters.tx_frames += frames
        self.counters.tx_bytes += int(lengths.sum())
        self.counters.tx_full += left

    def _enqueue_pieces(self, batch: Batch) -> int:
        """The same for frames of several pieces, of which either all enter the ring or none."""
        fragments = batch.fragments
        if fragments is None:
            return 0
        tx = self._rings.tx
        count = int(np.searchsorted(np.cumsum(1 + fragments.counts), tx.room(), side="right"))
        taken = batch.take(slice(count))
        pieces = taken.fragments or fragments
        heads = pieces.heads(taken.offsets, taken.lengths)
        fitting = self._pool.fits(taken.offsets, heads) & (heads >= _LEAST_FRAME_BYTES)
        fitting &= (pieces.counts < _MAX_PIECES) & (self._long | (pieces.counts == 0))
        if not fitting.all():
            self._refuse(taken.take(~fitting))
            taken, heads = taken.take(fitting), heads[fitting]
            pieces = taken.fragments or fragments
        total = len(taken) + len(pieces.offsets)
        # Heads go where the pieces of those before end; the further pieces take all other places, in order.
        ends = np.cumsum(1 + pieces.counts)
        at_heads = ends - 1 - pieces.counts
        at_rest = np.ones(total, dtype=bool)
        at_rest[at_heads] = False
        offsets, lengths = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
        offsets[at_heads], lengths[at_heads] = taken.offsets, heads
        offsets[at_rest], lengths[at_rest] = pieces.offsets, pieces.lengths
        options = np.full(total, abi.XDP_PKT_CONTD, dtype=np.uint32)
        options[ends - 1] = 0
        self._pool.hand_over(offsets, LENT, self._sender)
        tx.push(offsets, lengths, options)
        self._count_sent(len(taken), taken.lengths, len(batch) - count)
        return count

    def _enqueue_copies(self, batch: Batch) -> int:
        """Frames of another memory: into frames of ours, by the function that counts copies."""
        tx, pool = self._rings.tx, self._pool
        count = min(len(batch), tx.room(), pool.free)
        taken = batch.take(slice(count))
        room_bytes = pool.frame_bytes - self._headroom
        fitting = (taken.lengths >= _LEAST_FRAME_BYTES) & (taken.lengths <= room_bytes)
        if taken.fragments is not None:
            fitting &= taken.fragments.counts == 0
        if not fitting.all():
            self._refuse(taken.take(~fitting))
            taken = taken.take(fitting)
        offsets = pool.take(len(taken), self._sender) + self._headroom
        self.copies.move("between memories", pool.memory, offsets, taken.memory, taken.offsets, taken.lengths)
        taken.release()
        if self._long:
            tx.push(offsets, taken.lengths, np.zeros(len(offsets), dtype=np.uint32))
        else:
            tx.push(offsets, taken.lengths)
        self._count_sent(len(taken), taken.lengths, len(batch) - count)
        return count

    def accounting(self) -> Accounting:
        """See `Port.accounting`. Frames move on meanwhile, so each is looked for where it comes last first."""
        rings = self._rings
        rx, fill = rings.rx.waiting(), rings.fill.waiting()
        completion, tx = rings.completion.waiting(), rings.tx.waiting()
        held = self._pool.held_by(self._receiver) + self._pool.held_by(self._sender)
        return Accounting(fill, rx, tx, completion, held - fill - rx - tx - completion)

    def reclaim(self) -> None:
        """Take back all frames, when the kernel has let go of them."""
        self._pool.reclaim(self._receiver)
        self._pool.reclaim(self._sender)


def _join(
    offsets: Numbers, lengths: Numbers, goes_on: npt.NDArray[np.bool_]
) -> tuple[int, Numbers, Numbers, Fragments]:
    """Make frames of pieces.

    Returns:
        How many pieces make up whole frames, and of these frames the offsets, lengths and further pieces.
    """
    whole = np.flatnonzero(~goes_on)
    count = int(whole[-1]) + 1 if len(whole) else 0
    ends = whole + 1
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    counts = ends - starts
    rest = np.ones(count, dtype=bool)
    rest[starts] = False
    totals = np.add.reduceat(lengths[:count], starts) if count else _NONE
    heads = offsets[starts]
    pieces = Fragments(counts - 1, offsets[:count][rest], lengths[:count][rest], heads + lengths[starts])
    return count, heads, totals, pieces
