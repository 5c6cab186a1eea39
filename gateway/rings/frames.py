"""A memory cut into frames of one length, and who owns each of them.

A frame is always in exactly one hand: free, lent to the data plane, or given to the kernel to receive into or to send
from. Every change of hands is checked: whoever gives away what it does not have, or gives it away twice, is told so at
once, because a frame with two owners would be overwritten while it is being sent. What the kernel's rings hold can be
counted from outside (`Accounting`); here is what must come out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.errors import GatewayError
from gateway.rings.batch import Memory, Numbers

FREE, LENT = 0, 1
_FIRST_PORT = 2
_MAX_PORTS = 126


class FrameError(GatewayError):
    """A frame is given away by who does not have it: a defect of the caller, found before it does harm."""


@dataclass(frozen=True)
class Accounting:
    """Where all frames of a pool are, seen from one port or, added up, from all of them.

    Attributes:
        fill: Given to the kernel to receive into, and not yet taken by it.
        rx: Received, and not yet looked at.
        tx: Given to the kernel to send, and not yet taken by it.
        completion: Sent, and not yet taken back.
        kernel: In the kernel's hands, in no ring: being received into or sent from.
    """

    fill: int = 0
    rx: int = 0
    tx: int = 0
    completion: int = 0
    kernel: int = 0

    @property
    def frames(self) -> int:
        """All of them."""
        return self.fill + self.rx + self.tx + self.completion + self.kernel

    def __add__(self, other: Accounting) -> Accounting:
        return Accounting(
            self.fill + other.fill,
            self.rx + other.rx,
            self.tx + other.tx,
            self.completion + other.completion,
            self.kernel + other.kernel,
        )


class FramePool:
    """Frames of one memory.

    Args:
        memory: The memory, one-dimensional; its length is a multiple of *frame_bytes*.
        frame_bytes: Length of a frame, a power of two.
        reserved_bytes: What is kept at each frame's beginning for other things than a frame's headers.

    Attributes:
        count: Frames in all.
        frame_bytes: Length of a frame.
    """

    def __init__(self, memory: Memory, frame_bytes: int, reserved_bytes: int = 0) -> None:
        if frame_bytes & (frame_bytes - 1) or len(memory) % frame_bytes:
            raise GatewayError(f"{len(memory)} bytes cannot be cut into frames of {frame_bytes} bytes")
        self._memory = memory
        self.frame_bytes = frame_bytes
        self._reserved = reserved_bytes
        self.count = len(memory) // frame_bytes
        self._shift = frame_bytes.bit_length() - 1
        # A stack of the free frames' offsets: the frame that was used last is used next, while caches know it.
        self._free: Numbers = np.arange(self.count, dtype=np.int64)[::-1] * frame_bytes
        self._free_count = self.count
        self._owners: npt.NDArray[np.uint8] = np.zeros(self.count, dtype=np.uint8)
        self._marks: Numbers = np.zeros(self.count, dtype=np.int64)
        self._numbers: Numbers = np.arange(self.count, dtype=np.int64)
        self._ports = 0

    @property
    def memory(self) -> Memory:
        """See `gateway.rings.batch.Lender`."""
        return self._memory

    @property
    def free(self) -> int:
        """Frames that nobody has."""
        return self._free_count

    @property
    def lent(self) -> int:
        """Frames that the data plane has."""
        return int(np.count_nonzero(self._owners == LENT))

    def held_by(self, owner: int) -> int:
        """Frames in the hands of an owner."""
        return int(np.count_nonzero(self._owners == owner))

    def add_port(self) -> tuple[int, int]:
        """Enter a port.

        Returns:
            The owner's number of what the port receives into, and of what it sends from.
        """
        if self._ports == _MAX_PORTS:
            raise GatewayError(f"more than {_MAX_PORTS} ports on one memory")
        receiver = _FIRST_PORT + 2 * self._ports
        self._ports += 1
        return receiver, receiver + 1

    def _move(self, offsets: Numbers, source: int, target: int) -> None:
        numbers = offsets >> self._shift
        owners = self._owners
        try:
            right = owners[numbers] == source
        except IndexError:
            raise FrameError(
                f"there is no frame at {int(offsets.max())}: the memory has {len(self._memory)} B"
            ) from None
        if not right.all() or (len(offsets) and int(offsets.min()) < 0):
            wrong = int(numbers[~right][0]) if not right.all() else int(numbers.min())
            raise FrameError(f"frame {wrong} is given away by {_name(source)}, but {_name(int(owners[wrong]))} has it")
        # Each frame is marked with its place in the list; one that comes twice keeps only the mark of the last.
        order = self._numbers[: len(numbers)]
        self._marks[numbers] = order
        if (self._marks[numbers] != order).any():
            twice = int(numbers[self._marks[numbers] != order][0])
            raise FrameError(f"frame {twice} is given away twice at once by {_name(source)}")
        owners[numbers] = target

    def lend(self, limit: int) -> Numbers:
        """Offsets of up to *limit* free frames, lent from now on."""
        return self.take(limit, LENT)

    def take(self, limit: int, owner: int) -> Numbers:
        """Offsets of up to *limit* free frames, which *owner* has from now on."""
        count = min(limit, self._free_count)
        rest = self._free_count - count
        taken = self._free[rest : self._free_count].copy()
        self._free_count = rest
        self._owners[taken >> self._shift] = owner
        return taken

    def give(self, offsets: Numbers, owner: int) -> None:
        """Let *owner* give frames back; *offsets* are places anywhere inside of them.

        Raises:
            FrameError: It does not have one of them.
        """
        self._move(offsets, owner, FREE)
        end = self._free_count + len(offsets)
        self._free[self._free_count : end] = offsets & -self.frame_bytes
        self._free_count = end

    def hand_over(self, offsets: Numbers, source: int, target: int) -> None:
        """Let frames go from one hand into another.

        Raises:
            FrameError: *source* does not have one of them.
        """
        self._move(offsets, source, target)

    def release(self, offsets: Numbers) -> None:
        """See `gateway.rings.batch.Lender`."""
        self.give(offsets, LENT)

    def headroom(self, offsets: Numbers) -> Numbers:
        """See `gateway.rings.batch.Lender`."""
        return (offsets & (self.frame_bytes - 1)) - self._reserved

    def reclaim(self, owner: int) -> int:
        """Free all that an owner has which is no more; how many frames that were."""
        numbers = np.flatnonzero(self._owners == owner)
        self.give(numbers * self.frame_bytes, owner)
        return len(numbers)

    def fits(self, offsets: Numbers, lengths: Numbers) -> npt.NDArray[np.bool_]:
        """Which frames have at least one byte and end within the piece of memory that they begin in."""
        ends = (offsets & (self.frame_bytes - 1)) + lengths
        fitting: npt.NDArray[np.bool_] = (lengths > 0) & (ends <= self.frame_bytes)
        return fitting


def _name(owner: int) -> str:
    if owner == FREE:
        return "nobody"
    if owner == LENT:
        return "the data plane"
    port, sending = divmod(owner - _FIRST_PORT, 2)
    return f"port {port}'s {'sending' if sending else 'receiving'} side"
