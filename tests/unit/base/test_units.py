"""Quantities: what is accepted, what is refused and how it is said."""

import pytest

from emulator.errors import UnitError
from emulator.units import parse_rate, parse_share, parse_size, parse_time


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100 Gbit/s", 100 * 10**9),
        ("100Gbps", 100 * 10**9),
        ("160 GB/s", 1280 * 10**9),
        ("1.6 Tbit/s", 1_600_000_000_000),
        ("1 Gibit/s", 2**30),
        ("9600 bit/s", 9600),
        ("1_000 bit/s", 1000),
        ("1e3 Mbit/s", 10**9),
    ],
)
def test_rates(text: str, value: int) -> None:
    """Bits and bytes, decimal and binary prefixes."""
    assert parse_rate(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_time, "5 us", 5000),
        (parse_time, "5 µs", 5000),
        (parse_time, "5 μs", 5000),
        (parse_time, "1.5 ms", 1_500_000),
        (parse_time, "0 ns", 0),
        (parse_time, "2 h", 7200 * 10**9),
        (parse_size, "4 KiB", 4096),
        (parse_size, "1 TB", 10**12),
        (parse_size, "9000 B", 9000),
        (parse_share, "0.1 %", 1000),
        (parse_share, "50 ppm", 50),
        (parse_share, "100 %", 1_000_000),
    ],
)
def test_others(parse, text: str, value: int) -> None:
    """Times, sizes and shares."""
    assert parse(text) == value


@pytest.mark.parametrize("parse", [parse_rate, parse_time, parse_size, parse_share])
@pytest.mark.parametrize(
    "text", [5, 5.0, None, True, [], "", " ", "5", "us", "five us", "5 5 us", "nan s", "inf s", "٥ us"]
)
def test_without_number_or_unit(parse, text: object) -> None:
    """Anything that is not a number with a unit is refused, whatever its type."""
    with pytest.raises(UnitError, match=r"has no unit|is not a|unknown unit"):
        parse(text)


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_time, "0.3 ns", "not a whole number of nanoseconds"),
        (parse_time, "-1 us", "negative"),
        (parse_time, "1e99 s", "out of range"),
        (parse_time, "5 parsec", "unknown unit 'parsec'"),
        (parse_rate, "5 us", "unknown unit 'us'"),
        (parse_rate, "5 gbit/s", "unknown unit"),
        (parse_rate, "0.1 bit/s", "whole number of bit/s"),
        (parse_size, "5 Gb", "unknown unit"),
        (parse_size, "0.5 B", "whole number of bytes"),
        (parse_share, "101 %", "more than 100 %"),
    ],
)
def test_refused(parse, text: str, said: str) -> None:
    """A wrong, inexact or negative quantity is named in the message."""
    with pytest.raises(UnitError, match=said) as caught:
        parse(text)
    assert text in str(caught.value)
