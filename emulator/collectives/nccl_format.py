"""Results in the words and columns of nccl-tests, version 2.19, so that people can lay theirs beside them.

Times are in µs, bandwidths in GB/s (10⁹ bytes), sizes those of the larger of what all ranks send and receive together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.collectives.cost import bandwidths
from emulator.collectives.schedule import Collective

JSON_VERSION = 2
_PER_RANK = (Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL)
_ROOTED = (Collective.BROADCAST, Collective.REDUCE)
_FIRST = "# {:>10s}  {:>12s}  {:>8s}  {:>6s}  {:>6s}"
_MEASURED = "  {:>7s}  {:>6s}  {:>6s}"
_COLUMNS = _FIRST + 2 * (_MEASURED + "  {:>6s}") + " "
_PLACES = _FIRST + "           out-of-place                       in-place          "


@dataclass(frozen=True)
class Timing:
    """One measurement.

    Attributes:
        time_ns: How long a collective took, on average over its repetitions.
        wrong: Numbers that are not what they should be, on all ranks; None: not looked at.
    """

    time_ns: float
    wrong: int | None = 0


@dataclass(frozen=True)
class Line:
    """One size.

    Attributes:
        collective: What was done.
        ranks: By how many.
        size_bytes: Of the buffer.
        in_place: With the result where the input was; None: not measured.
        out_of_place: With the result elsewhere; None: not measured.
        item_bytes: Size of a number.
        type_name: Its type.
        reduced_by: How numbers are reduced, if they are.
        root: For broadcast and reduce.
    """

    collective: Collective
    ranks: int
    size_bytes: int
    in_place: Timing | None = None
    out_of_place: Timing | None = None
    item_bytes: int = 4
    type_name: str = "float"
    reduced_by: str = "sum"
    root: int = 0

    @property
    def count(self) -> int:
        """Numbers, of one rank where every rank has a part of the buffer."""
        return self.size_bytes // self.item_bytes // (self.ranks if self.collective in _PER_RANK else 1)

    @property
    def operation(self) -> str:
        """How numbers are reduced."""
        return self.reduced_by if self.collective.reduces else "none"

    @property
    def root_text(self) -> str:
        """The root, or -1 where there is none."""
        return f"{self.root if self.collective in _ROOTED else -1:6d}"

    def bandwidths(self, timing: Timing) -> tuple[float, float]:
        """Algorithm and bus bandwidth of a measurement in GB/s."""
        return bandwidths(self.collective, self.ranks, self.size_bytes, timing.time_ns)


def program(collective: Collective) -> str:
    """The program of nccl-tests that measures a collective."""
    return f"{collective.value}_perf"


def header() -> str:
    """The lines above the rows."""
    names = ("size", "count", "type", "redop", "root", *(("time", "algbw", "busbw", "#wrong") * 2))
    units = ("(B)", "(elements)", "", "", "", *(("(us)", "(GB/s)", "(GB/s)", "") * 2))
    lines = ("#", _PLACES.format(*5 * ("",)), _COLUMNS.format(*names), _COLUMNS.format(*units))
    return "".join(f"{one}\n" for one in lines)


def row(line: Line) -> str:
    """The row of one size."""
    first = f"{line.size_bytes:12d}  {line.count:12d}  {line.type_name:>8s}  {line.operation:>6s}  {line.root_text}"
    return first + _body(line, line.out_of_place) + _body(line, line.in_place) + "\n"


def footer(lines: Sequence[Line]) -> str:
    """The lines below the rows."""
    wrong, busbw = _wrong(lines), _mean_busbw(lines)
    kind = program(lines[0].collective) if lines else "none"
    return (
        f"# {'Out of bounds values':<20s} : {wrong} {'FAILED' if wrong else 'OK'}\n"
        f"# {'Avg bus bandwidth':<20s} : {busbw:g} \n"
        "#\n"
        f"# Collective test concluded: {kind}\n"
    )


def to_json(lines: Sequence[Line]) -> dict[str, Any]:
    """The same as nccl-tests write with ``-J``, without what only they know of their machine."""
    wrong = _wrong(lines)
    return {
        "version": JSON_VERSION,
        "results": [
            {
                "size": line.size_bytes,
                "count": line.count,
                "type": line.type_name,
                "redop": line.operation,
                "root": line.root_text,
                "out_of_place": _timing(line, line.out_of_place),
                "in_place": _timing(line, line.in_place),
            }
            for line in lines
        ],
        "out_of_bounds": {"count": wrong, "okay": "false" if wrong else "true"},
        "average_bus_bandwidth": {"bandwidth": round(_mean_busbw(lines), 6), "okay": "unchecked"},
    }


def _timing(line: Line, timing: Timing | None) -> dict[str, float | None] | None:
    if timing is None:
        return None
    algbw, busbw = line.bandwidths(timing)
    return {
        "time": round(timing.time_ns / 1000, 6),
        "alg_bw": round(algbw, 6),
        "bus_bw": round(busbw, 6),
        "nwrong": None if timing.wrong is None else float(timing.wrong),
    }


def _body(line: Line, timing: Timing | None) -> str:
    if timing is None:
        return " " * 32
    algbw, busbw = line.bandwidths(timing)
    numbers = (float_text(timing.time_ns / 1000, 7), float_text(algbw, 6), float_text(busbw, 6))
    return _MEASURED.format(*numbers) + ("    N/A" if timing.wrong is None else f"  {timing.wrong:6g}")


def float_text(value: float, width: int) -> str:
    """A number with as many decimals, up to two, as its column has room for."""
    digits, bound = 0, 1
    while value >= bound:
        digits, bound = digits + 1, bound * 10
    for decimals, room in ((2, width - 2), (1, width - 1), (0, width + 1)):
        if digits < room:
            return f"{value:{width}.{decimals}f}"
    return f"{value:{width}.1e}" if width >= 7 else f"{value:{width}.0e}"


def _timings(lines: Iterable[Line]) -> list[tuple[Line, Timing]]:
    return [(line, one) for line in lines for one in (line.out_of_place, line.in_place) if one is not None]


def _wrong(lines: Iterable[Line]) -> int:
    return sum(timing.wrong or 0 for _, timing in _timings(lines))


def _mean_busbw(lines: Iterable[Line]) -> float:
    found = [line.bandwidths(timing)[1] for line, timing in _timings(lines)]
    return sum(found) / len(found) if found else 0.0
