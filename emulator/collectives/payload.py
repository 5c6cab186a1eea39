"""The numbers that ranks work on, and what must come out.

Every rank's input is a window of one long row of random numbers, each rank's beginning one number later than the
rank's before: inputs differ everywhere, and hundreds of ranks need no more memory than one. They are whole numbers
small enough that sums are exact in the given type whatever the order, so results are right or wrong, never nearly
right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.collectives.schedule import Collective, Integers, Schedule
from emulator.errors import ScenarioError

Numbers = npt.NDArray[Any]

_PORTION = 1 << 20
"""Items that are worked on at a time, so that little memory is needed for what is in between."""


@dataclass(frozen=True)
class DataType:
    """A type of numbers under the name that nccl-tests give it.

    Attributes:
        name: The name.
        dtype: The same in NumPy.
        exact: Sums up to here are exact; None: they wrap around, which is exact too.
    """

    name: str
    dtype: np.dtype[Any]
    exact: int | None


DATA_TYPES: Mapping[str, DataType] = {
    one.name: one
    for one in (
        DataType("int8", np.dtype(np.int8), None),
        DataType("uint8", np.dtype(np.uint8), None),
        DataType("int32", np.dtype(np.int32), None),
        DataType("uint32", np.dtype(np.uint32), None),
        DataType("int64", np.dtype(np.int64), None),
        DataType("uint64", np.dtype(np.uint64), None),
        DataType("half", np.dtype(np.float16), 1 << 11),
        DataType("float", np.dtype(np.float32), 1 << 24),
        DataType("double", np.dtype(np.float64), 1 << 53),
    )
}

OPERATIONS: Mapping[str, Callable[..., Numbers]] = {"sum": np.add, "min": np.minimum, "max": np.maximum}
"""How two ranks' numbers become one."""


@dataclass(frozen=True)
class Payload:
    """The numbers of one collective of one size.

    Attributes:
        inputs: Each rank's input; empty where ranks have parts of `truth` instead.
        truth: The whole buffer as it must be in the end wherever a rank has to have it.
        combine: What is done with two ranks' numbers, with the result in ``out``.
    """

    inputs: tuple[Numbers, ...]
    truth: Numbers
    combine: Callable[..., Numbers]


def payload(
    schedule: Schedule,
    edges: Integers,
    data_type: str,
    operation: str,
    seed: int,
    windows: Sequence[int] | None = None,
) -> Payload:
    """Draw the numbers of a collective.

    Args:
        schedule: What is done.
        edges: Where its chunks begin in the buffer, and the end, in bytes.
        data_type: One of `DATA_TYPES`.
        operation: One of `OPERATIONS`.
        seed: Of the numbers.
        windows: Where in the row each rank's input begins, each somewhere else, so that a rank keeps its input when
            others leave; None: where its number says.

    Raises:
        ScenarioError: More ranks than sums in this type can be exact for.
    """
    kind = DATA_TYPES[data_type]
    items = int(edges[-1]) // kind.dtype.itemsize
    starts = list(range(schedule.ranks)) if windows is None else list(windows)
    span = max(starts) + 1
    if kind.exact is None:
        most = int(np.iinfo(kind.dtype).max)
    else:
        most = kind.exact // schedule.ranks
        if most < 2:
            raise ScenarioError(f"sums of {schedule.ranks} numbers are not exact as {data_type}", key="datatype")
    row = _random(items + span, most, kind.dtype, seed)
    if not schedule.collective.reduces:
        # Data that one rank has is nobody else's: the row itself is what everyone is to have.
        return Payload((), row[:items], OPERATIONS[operation])
    inputs = tuple(row[start : start + items] for start in starts)
    return Payload(inputs, _combined(row, items, starts, operation), OPERATIONS[operation])


def initial_owner(schedule: Schedule) -> Integers:
    """The rank that has each chunk in the beginning, where only one has it.

    Raises:
        ScenarioError: All have it: buffers are reduced.
    """
    chunks = np.arange(schedule.chunks)
    if schedule.collective is Collective.BROADCAST:
        return np.full(schedule.chunks, schedule.root, dtype=np.int64)
    if schedule.collective is Collective.ALL_TO_ALL:
        return chunks // schedule.ranks
    if schedule.owners is None:
        raise ScenarioError(f"{schedule.name}: all ranks have all chunks", key="algorithm")
    return schedule.owners


def _random(items: int, most: int, dtype: np.dtype[Any], seed: int) -> Numbers:
    """Whole numbers below a bound."""
    generator = np.random.Generator(np.random.SFC64(seed))
    row = np.empty(items, dtype=dtype)
    bound = min(most, 1 << 15)
    for start in range(0, items, _PORTION):
        part = row[start : start + _PORTION]
        part[:] = generator.integers(0, bound, size=len(part), dtype=np.int16 if bound <= 1 << 15 else np.int32)
    return row


def _combined(row: Numbers, items: int, starts: Sequence[int], operation: str) -> Numbers:
    """What all windows come to, item by item."""
    truth = np.empty(items, dtype=row.dtype)
    span = max(starts) + 1
    absent = sorted(set(range(span)) - set(starts))
    for begin in range(0, items, _PORTION):
        end = min(items, begin + _PORTION)
        window = row[begin : end + span - 1]
        if operation == "sum":
            # Differences of running sums; whole numbers in 64 bits are exact, or wrap as those of the type do.
            sums = np.concatenate([[0], np.cumsum(window.astype(np.int64))])
            total = sums[span:] - sums[:-span]
            for start in absent:
                total -= window[start : start + end - begin].astype(np.int64)
            with np.errstate(over="ignore"):
                truth[begin:end] = total.astype(row.dtype)
        else:
            truth[begin:end] = window[starts[0] : starts[0] + end - begin]
            for start in starts[1:]:
                OPERATIONS[operation](truth[begin:end], window[start : start + end - begin], out=truth[begin:end])
    return truth
