"""Output like that of nccl-tests, held against lines that people published."""

from __future__ import annotations

import pytest

from emulator.collectives.nccl_format import Line, Timing, float_text, footer, header, program, row, to_json
from emulator.collectives.schedule import Collective

PUBLISHED = (
    "#\n"
    "#                                                              out-of-place                       in-place"
    "          \n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw"
    "   busbw  #wrong \n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)"
    "  (GB/s)         \n"
)


def test_header_is_theirs() -> None:
    """Character by character, blanks at the ends of lines included."""
    assert header() == PUBLISHED


@pytest.mark.parametrize(
    ("line", "published"),
    [
        (
            Line(Collective.ALL_REDUCE, 16, 134217728, Timing(8860420), Timing(8776810)),
            "   134217728      33554432     float     sum      -1"
            "  8776.81   15.29   28.67       0  8860.42   15.15   28.40       0\n",
        ),
        (
            Line(Collective.ALL_REDUCE, 16, 2147483648, Timing(141004000), Timing(141223000)),
            "  2147483648     536870912     float     sum      -1"
            "   141223   15.21   28.51       0   141004   15.23   28.56       0\n",
        ),
        (
            Line(Collective.ALL_GATHER, 2, 1073741824, Timing(25806700), Timing(27211000)),
            "  1073741824     134217728     float    none      -1"
            "  27211.0   39.46   19.73       0  25806.7   41.61   20.80       0\n",
        ),
    ],
)  # fmt: skip
def test_rows_are_theirs(line: Line, published: str) -> None:
    """From sizes, ranks and times, everything else in the row follows."""
    assert row(line) == published


def test_footer() -> None:
    """The mean is over all measurements, in place or not; wrong numbers are a failure."""
    lines = [
        Line(Collective.BROADCAST, 4, 4096, Timing(4096.0), Timing(2048.0)),
        Line(Collective.BROADCAST, 4, 8192, Timing(8192.0, wrong=3)),
    ]
    assert footer(lines) == (
        "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 1.33333 \n#\n"
        "# Collective test concluded: broadcast_perf\n"
    )
    assert "0 OK\n" in footer(lines[:1])
    assert footer([]).splitlines()[0] == "# Out of bounds values : 0 OK"


@pytest.mark.parametrize(
    ("kind", "count", "redop", "root", "factor"),
    [
        (Collective.ALL_REDUCE, 1024, "sum", "    -1", 1.5),
        (Collective.REDUCE_SCATTER, 256, "sum", "    -1", 0.75),
        (Collective.ALL_GATHER, 256, "none", "    -1", 0.75),
        (Collective.ALL_TO_ALL, 256, "none", "    -1", 0.75),
        (Collective.BROADCAST, 1024, "none", "     2", 1.0),
        (Collective.REDUCE, 1024, "sum", "     2", 1.0),
    ],
)
def test_json(kind: Collective, count: int, redop: str, root: str, factor: float) -> None:
    """Keys, counts by rank, factors of bus bandwidth and their way to write truth."""
    data = to_json([Line(kind, 4, 4096, Timing(1000.0, wrong=None), root=2)])
    assert data == {
        "version": 2,
        "results": [
            {
                "size": 4096,
                "count": count,
                "type": "float",
                "redop": redop,
                "root": root,
                "out_of_place": None,
                "in_place": {"time": 1.0, "alg_bw": 4.096, "bus_bw": round(4.096 * factor, 6), "nwrong": None},
            }
        ],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": round(4.096 * factor, 6), "okay": "unchecked"},
    }
    assert program(kind) == f"{kind.value}_perf"


def test_what_was_not_measured_is_left_blank() -> None:
    """As theirs: 32 blanks without an out-of-place result, N/A without a check."""
    assert row(Line(Collective.REDUCE, 2, 8, Timing(1e3, None))) == (
        "           8             2     float     sum       0" + 32 * " " + "     1.00    0.01    0.01    N/A\n"
    )


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (0.0, 7, "   0.00"),
        (9.999, 7, "  10.00"),
        (9999.4, 7, "9999.40"),
        (12345.67, 7, "12345.7"),
        (123456.7, 7, " 123457"),
        (1234567.0, 7, "1234567"),
        (12345678.0, 7, "1.2e+07"),
        (999.99, 6, "999.99"),
        (1234.5, 6, "1234.5"),
        (1234567.0, 6, " 1e+06"),
    ],
)
def test_numbers_fit_their_columns(value: float, width: int, text: str) -> None:
    """Two decimals while there is room, then one, then none, then an exponent."""
    assert float_text(value, width) == text
    assert len(text) == width


def test_no_time_is_no_bandwidth() -> None:
    """A time of zero gives zero, not a division by it."""
    assert Line(Collective.ALL_REDUCE, 2, 8, Timing(0)).bandwidths(Timing(0)) == (0.0, 0.0)
