"""Batches: frames that lie in a memory, as arrays. What the pure functions of the data plane are given."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Memory = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Index = slice | Numbers | npt.NDArray[np.bool_]


class Lender(Protocol):
    """Whoever owns the memory that frames of a batch lie in."""

    @property
    def memory(self) -> Memory:
        """All of it, one-dimensional."""
        ...

    def release(self, offsets: Numbers) -> None:
        """Take lent frames back; *offsets* are places anywhere inside of them.

        Raises:
            FrameError: A frame is not lent, or is given back twice.
        """
        ...

    def headroom(self, offsets: Numbers) -> Numbers:
        """Bytes before each of these places that a frame there may grow into."""
        ...


class Fragments:
    """Frames that do not fit one piece of memory: the further pieces of each frame of a batch, in order.

    Attributes:
        counts: Further pieces of each frame; 0 for most.
        offsets: Where each further piece lies, frame after frame.
        lengths: Its length in bytes.
        heads_end: Where each frame's first piece ends. Its start is the batch's offset.
    """

    __slots__ = ("counts", "heads_end", "lengths", "offsets")

    def __init__(self, counts: Numbers, offsets: Numbers, lengths: Numbers, heads_end: Numbers) -> None:
        self.counts = counts
        self.offsets = offsets
        self.lengths = lengths
        self.heads_end = heads_end

    def take(self, index: Index) -> Fragments:
        """Those of some frames."""
        ends = np.cumsum(self.counts)
        counts = self.counts[index]
        starts = (ends - self.counts)[index]
        # For each chosen frame the run start, start+1, ... of its pieces.
        runs = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        return Fragments(counts, self.offsets[runs], self.lengths[runs], self.heads_end[index])

    def heads(self, offsets: Numbers, lengths: Numbers) -> Numbers:
        """Lengths of the first pieces of frames that begin at *offsets* and have these *lengths*."""
        return np.where(self.counts > 0, self.heads_end - offsets, lengths)


class Batch:
    """Frames of one memory.

    The arrays are the batch's own and may be written: a step that puts a header before a frame lowers its offset and
    raises its length, within the room that its piece of memory has.

    Attributes:
        owner: Who lent the frames.
        memory: The memory they lie in.
        offsets: Where each begins.
        lengths: Their lengths in bytes, without preamble and check sequence.
        arrivals_ns: When they arrived, if the port knows, on the port's clock.
        fragments: Further pieces of frames that are longer than a piece of memory; None: all are in one piece.
        virtio: Where the kernel's ``virtio_net_hdr`` of each lies, if the port has them.
        captured: Where each frame began when that header was right.
    """

    __slots__ = ("arrivals_ns", "captured", "fragments", "lengths", "memory", "offsets", "owner", "virtio")

    def __init__(
        self,
        owner: Lender,
        offsets: Numbers,
        lengths: Numbers,
        arrivals_ns: Numbers | None = None,
        fragments: Fragments | None = None,
        virtio: Numbers | None = None,
        captured: Numbers | None = None,
    ) -> None:
        self.owner = owner
        self.memory = owner.memory
        self.offsets = offsets
        self.lengths = lengths
        self.arrivals_ns = arrivals_ns
        self.fragments = fragments
        self.virtio = virtio
        self.captured = offsets.copy() if captured is None and virtio is not None else captured

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, index: Index) -> Batch:
        """Some of the frames: a range, their numbers, or a mask."""
        return Batch(
            self.owner,
            self.offsets[index],
            self.lengths[index],
            None if self.arrivals_ns is None else self.arrivals_ns[index],
            None if self.fragments is None else self.fragments.take(index),
            None if self.virtio is None else self.virtio[index],
            None if self.captured is None else self.captured[index],
        )

    def places(self) -> Numbers:
        """Offsets of all pieces of memory that the frames take up."""
        if self.fragments is None:
            return self.offsets
        return np.concatenate((self.offsets, self.fragments.offsets))

    def heads(self) -> Numbers | None:
        """Lengths of the frames' first pieces; None: all are in one piece."""
        return None if self.fragments is None else self.fragments.heads(self.offsets, self.lengths)

    def release(self) -> None:
        """Give all frames back."""
        self.owner.release(self.places())

    def frame(self, number: int) -> bytes:
        """A copy of one frame, for tests and messages; not counted."""
        start = int(self.offsets[number])
        if self.fragments is None or not self.fragments.counts[number]:
            return self.memory[start : start + int(self.lengths[number])].tobytes()
        one = self.fragments.take(np.array([number]))
        pieces = [self.memory[start : int(one.heads_end[0])].tobytes()]
        pieces += [
            self.memory[at : at + length].tobytes()
            for at, length in zip(one.offsets.tolist(), one.lengths.tolist(), strict=True)
        ]
        return b"".join(pieces)
