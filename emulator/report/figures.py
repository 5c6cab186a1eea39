"""Numbers for people: a value and its unit as short text, with four significant digits. Records keep the exact ones."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.results.records import Record

_SCALES: dict[str, Sequence[tuple[float, str]]] = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")),
    "bit/s": ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s")),
    "B/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")),
    "B": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
}

_DIGITS = 4
_MINUTE_NS, _MINUTES_FROM_NS = 60e9, 600e9
_THIN_SPACE = "\u202f"


def significant(value: float) -> str:
    """A number with four significant digits and no exponent where it can be avoided; whole numbers stay whole."""
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 10**_DIGITS):
        return grouped(int(value)) if abs(value) < 10**15 else f"{value:.4g}"
    magnitude = abs(value)
    if magnitude >= 10**_DIGITS:
        return grouped(round(value)) if magnitude < 1e15 else f"{value:.4g}"
    if magnitude < 1e-4:
        return f"{value:.3g}"
    text = f"{value:.{_DIGITS}g}"
    return f"{value:.7f}".rstrip("0").rstrip(".") if "e" in text else text


def grouped(value: int) -> str:
    """A whole number with its digits in groups of three: thin spaces, from five digits on."""
    return f"{value:,}".replace(",", _THIN_SPACE) if abs(value) >= 10_000 else str(value)


def with_unit(value: float, unit: str) -> str:
    """A value with its unit, scaled to a readable size: ``33.4 µs``, ``99.5 Gbit/s``."""
    if unit == "1":
        return significant(value)
    scales = _SCALES.get(unit)
    if scales is None:
        return f"{significant(value)} {unit}"
    if unit == "ns" and abs(value) >= _MINUTES_FROM_NS:
        return f"{significant(value / _MINUTE_NS)} min"
    factor, name = next((scale for scale in scales if abs(value) >= scale[0]), scales[-1])
    return f"{significant(value / factor if factor != 1 else value)} {name}"


def ratio(numerator: float, denominator: float) -> str:
    """How many times larger one value is than the other: ``12.3×``; empty if that cannot be said."""
    if denominator <= 0 or numerator < 0:
        return ""
    times = numerator / denominator
    return f"{times:.2f}×" if times < 10 else f"{times:.1f}×" if times < 100 else f"{grouped(round(times))}×"


def percent(share: float) -> str:
    """A share as per cent: ``92.4 %``."""
    return f"{significant(share * 100)} %"


def scale_of(values: Sequence[float], unit: str) -> tuple[float, str]:
    """Factor and unit for an axis that shows all the values: divide by the factor."""
    sizes = [abs(value) for value in values if value]
    # The middle on a logarithmic scale, so that neither end gets too many digits.
    middle = (min(sizes) * max(sizes)) ** 0.5 if sizes else 0.0
    scales = _SCALES.get(unit, ((1.0, "" if unit == "1" else unit),))
    return next((scale for scale in scales if middle >= scale[0]), scales[-1])


def figure(record: Record) -> str:
    """A record's value with its unit."""
    return with_unit(record.value, record.unit)
