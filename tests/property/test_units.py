"""Units: writing and reading are inverse, and parsing never fails in an unexpected way."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import UnitError
from emulator.units import format_rate, format_size, format_time, parse_rate, parse_share, parse_size, parse_time

amounts = st.integers(min_value=0, max_value=10**21)


@given(amounts)
def test_round_trips(value: int) -> None:
    """What is written is read back to the same number, for every quantity."""
    assert parse_rate(format_rate(value)) == value
    assert parse_time(format_time(value)) == value
    assert parse_size(format_size(value)) == value


@given(st.text(max_size=40))
def test_only_unit_errors_escape(text: str) -> None:
    """No text makes a parser fail with anything but a `UnitError`."""
    for parse in (parse_rate, parse_time, parse_size, parse_share):
        with contextlib.suppress(UnitError):
            assert parse(text) >= 0


@given(st.from_regex(r"[+-]?[0-9_.eE]{1,60} ?(ns|Gbit/s|KiB|%)", fullmatch=True))
def test_odd_numbers(text: str) -> None:
    """Numbers that look almost right either parse to a whole amount or are refused."""
    for parse in (parse_rate, parse_time, parse_size, parse_share):
        with contextlib.suppress(UnitError):
            assert isinstance(parse(text), int)
