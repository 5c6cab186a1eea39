"""Reading and writing a few bytes of many frames at once, wherever they lie in one mapped memory.

A memory is looked at as overlapping records, one beginning at every byte. Indexing that view with the frames' positions
is one copy of one record for each frame, and storing through it is one store for each: about 5 ns a frame, however the
frames are aligned.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

LEAD_BYTES = 2
"""A window begins so many bytes before the frame: then an untagged IP header is aligned to 8 bytes in it."""
WINDOW_BYTES = 64
WINDOW_WORDS = WINDOW_BYTES // 8

_BIG_ENDIAN: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype(">u2"), 4: np.dtype(">u4"), 8: np.dtype(">u8")}
_RECORD: dict[int, np.dtype[Any]] = {}


def word(value: int) -> Words:
    """A constant to compute with: an array without dimensions takes half the time of a number."""
    return np.array(value, np.uint64)


def integer(value: int) -> Ints:
    """The same, signed."""
    return np.array(value, np.int64)


_LEAD, _NOTHING = integer(LEAD_BYTES), integer(0)


def _record(size_bytes: int) -> np.dtype[Any]:
    dtype = _RECORD.get(size_bytes)
    if dtype is None:
        dtype = _RECORD[size_bytes] = np.dtype(f"V{size_bytes}")
    return dtype


def records(memory: Bytes, size_bytes: int) -> NDArray[np.void]:
    """All pieces of *size_bytes* of a memory, one beginning at every byte; it must be at least so long."""
    return np.ndarray((memory.size - size_bytes + 1,), _record(size_bytes), memory, 0, (1,))


def check_batch(memory: Bytes, offsets: Ints, lengths: Ints) -> Ints:
    """Make sure that all frames lie in the memory, and say where they end.

    Raises:
        ValueError: The caller broke the contract.
    """
    if offsets.size != lengths.size:
        raise ValueError(f"{offsets.size} offsets, but {lengths.size} lengths")
    ends = offsets + lengths
    # As an unsigned number, a sum of two that are not negative is right, and one that wrapped is huge.
    if np.count_nonzero(ends.view(np.uint64) > word(memory.size)) or np.count_nonzero((offsets | lengths) < _NOTHING):
        raise ValueError(f"a frame lies outside of its memory of {memory.size} bytes")
    return ends


def windows(memory: Bytes, positions: Ints) -> Words:
    """The first bytes of frames as 8 rows of 64-bit numbers, from `LEAD_BYTES` before each position.

    What lies outside of the memory reads as zero; what lies outside of a frame is whatever is there.
    """
    size = memory.size
    starts = positions - _LEAD
    if size >= WINDOW_BYTES and not np.count_nonzero(starts.view(np.uint64) > word(size - WINDOW_BYTES)):
        raw = records(memory, WINDOW_BYTES)[starts]
    else:
        at = starts[:, None] + np.arange(WINDOW_BYTES)
        inside = (at >= 0) & (at < size)
        found = np.zeros(at.shape, np.uint8)
        found[inside] = memory[at[inside]]
        raw = found.view(_record(WINDOW_BYTES))
    rows = np.ascontiguousarray(raw.view(np.uint64).reshape(-1, WINDOW_WORDS).T)
    return rows.byteswap(inplace=True) if sys.byteorder == "little" else rows


def read(memory: Bytes, positions: Ints, size_bytes: int) -> Ints:
    """Big-endian unsigned numbers of 1, 2 or 4 bytes at each position; all of them must lie in the memory."""
    if not positions.size:
        return np.zeros(0, np.int64)
    view = np.ndarray((memory.size - size_bytes + 1,), _BIG_ENDIAN[size_bytes], memory, 0, (1,))
    return view[positions].astype(np.int64)


def read_words(memory: Bytes, positions: Ints) -> Words:
    """Big-endian unsigned numbers of 8 bytes at each position; all of them must lie in the memory."""
    if not positions.size:
        return np.zeros(0, np.uint64)
    view = np.ndarray((memory.size - 7,), _BIG_ENDIAN[8], memory, 0, (1,))
    return view[positions].astype(np.uint64)


def write(memory: Bytes, positions: Ints, values: NDArray[Any], size_bytes: int) -> None:
    """Store big-endian numbers of 1, 2, 4 or 8 bytes at each position; all of them must lie in the memory."""
    if positions.size:
        dtype = _BIG_ENDIAN[size_bytes]
        # Stores that convert while they scatter take several times as long.
        np.ndarray((memory.size - size_bytes + 1,), dtype, memory, 0, (1,))[positions] = values.astype(dtype)


def move(memory: Bytes, sources: Ints, targets: Ints, size_bytes: int) -> None:
    """Copy pieces of *size_bytes* within the memory; source and target of one frame may overlap."""
    if sources.size:
        view = records(memory, size_bytes)
        view[targets] = view[sources]


def constant(value: int, dtype: type[np.generic] = np.int64, size: int = 1 << 16) -> NDArray[Any]:
    """A long array of one value that nobody can write to; its slices stand for columns that are the same all along."""
    array = np.full(size, value, dtype)
    array.flags.writeable = False
    return array
