"""Numbers for people."""

from __future__ import annotations

import pytest

from emulator.report.figures import percent, ratio, scale_of, significant, with_unit


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (33_412.345, "ns", "33.41 µs"),
        (0, "ns", "0 ns"),
        (-450, "ns", "-450 ns"),
        (999, "ns", "999 ns"),
        (1000, "ns", "1 µs"),
        (90e9, "ns", "90 s"),
        (1380e9, "ns", "23 min"),
        (99_512_000_000, "bit/s", "99.51 Gbit/s"),
        (1.28e12, "bit/s", "1.28 Tbit/s"),
        (400_000_000, "B", "400 MB"),
        (0.00001234, "1", "1.23e-05"),
        (0.02049, "1", "0.02049"),
        (123456, "1", "123\u202f456"),
        (1234.5, "1", "1234"),
        (12345.6, "1/s", "12\u202f346 1/s"),
        (5.0, "1", "5"),
    ],
)
def test_with_unit(value: float, unit: str, text: str) -> None:
    """Four significant digits, a readable prefix, thin spaces in long numbers, no exponent where it can be avoided."""
    assert with_unit(value, unit) == text


def test_shares_and_ratios() -> None:
    """Shares are per cent; a ratio that cannot be said is empty."""
    assert percent(0.9345) == "93.45 %"
    assert [ratio(*pair) for pair in ((1, 3), (12, 1), (123, 1), (1, 0), (-1, 1))] == ["0.33×", "12.0×", "123×", "", ""]
    assert significant(0.1 + 0.2) == "0.3"


def test_scale_of_an_axis() -> None:
    """The unit suits the middle of the values on a logarithmic scale."""
    assert scale_of([20_000, 1_500_000], "ns") == (1e3, "µs")
    assert scale_of([], "ns") == (1, "ns")
    assert scale_of([0.5, 0.9], "1") == (1.0, "")
