"""Exact quantities: text with a unit is parsed once into integer bit/s, nanoseconds, bytes or parts per million.

A number that is not exact in the base unit (``0.3 ns``) is refused rather than rounded. Decimal prefixes are powers
of 1000, binary prefixes (``KiB``, ``Gibit/s``) powers of 1024; ``bit`` and ``B`` are never mixed up.
"""

from __future__ import annotations

import re
from fractions import Fraction

from emulator.errors import UnitError

NS_PER_S = 1_000_000_000

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIX = {**_DECIMAL, **_BINARY}

_TIME = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}

_QUANTITY = re.compile(
    r"\s*(?P<number>[+-]?(?:\d[\d_]*)(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<unit>[^\s\d].*?)?\s*", re.ASCII
)

_RATE_EXAMPLE = "'100 Gbit/s' or '160 GB/s'"
_TIME_EXAMPLE = "'5 us' or '250 ns'"
_SIZE_EXAMPLE = "'4 KiB' or '1 TB'"
_SHARE_EXAMPLE = "'0.1 %' or '50 ppm'"


def _split(text: object, what: str, example: str) -> tuple[Fraction, str]:
    if not isinstance(text, str):
        raise UnitError(f"{text!r} has no unit: a {what} is written like {example}")
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitError(f"{text!r} is not a {what}: write it like {example}")
    if not match["unit"]:
        raise UnitError(f"{text!r} has no unit: a {what} is written like {example}")
    _mantissa, _, exponent = match["number"].lower().partition("e")
    if exponent and abs(int(exponent)) > 30:
        raise UnitError(f"{text!r} is out of range for a {what}")
    return Fraction(match["number"].replace("_", "")), match["unit"]


def _exact(text: object, value: Fraction, base: str) -> int:
    if value < 0:
        raise UnitError(f"{text!r} is negative")
    if value.denominator != 1:
        raise UnitError(f"{text!r} is not a whole number of {base}")
    return int(value)


def parse_rate(text: str) -> int:
    """Parse a data rate such as ``100 Gbit/s``, ``100Gbps`` or ``160 GB/s`` into bit/s.

    Raises:
        UnitError: No unit, unknown unit, negative, or not a whole number of bit/s.
    """
    number, unit = _split(text, "rate", _RATE_EXAMPLE)
    match = re.fullmatch(r"(?P<prefix>[A-Za-z]{0,2}?)(?P<word>bit/s|bps|b/s|B/s|Bps)", unit)
    if match is None or match["prefix"] not in _PREFIX:
        raise UnitError(f"{text!r} has an unknown unit {unit!r}: a rate is written like {_RATE_EXAMPLE}")
    per_word = 8 if match["word"] in ("B/s", "Bps") else 1
    return _exact(text, number * _PREFIX[match["prefix"]] * per_word, "bit/s")


def parse_time(text: str) -> int:
    """Parse a duration such as ``5 us``, ``1.5 ms`` or ``250 ns`` into nanoseconds.

    Raises:
        UnitError: No unit, unknown unit, negative, or not a whole number of nanoseconds.
    """
    number, unit = _split(text, "time", _TIME_EXAMPLE)
    if unit not in _TIME:
        raise UnitError(f"{text!r} has an unknown unit {unit!r}: a time is written like {_TIME_EXAMPLE}")
    return _exact(text, number * _TIME[unit], "nanoseconds")


def parse_size(text: str) -> int:
    """Parse an amount of data such as ``4 KiB``, ``9000 B`` or ``1 TB`` into bytes.

    Raises:
        UnitError: No unit, unknown unit, negative, or not a whole number of bytes.
    """
    number, unit = _split(text, "size", _SIZE_EXAMPLE)
    match = re.fullmatch(r"(?P<prefix>[A-Za-z]{0,2}?)B", unit)
    if match is None or match["prefix"] not in _PREFIX:
        raise UnitError(f"{text!r} has an unknown unit {unit!r}: a size is written like {_SIZE_EXAMPLE}")
    return _exact(text, number * _PREFIX[match["prefix"]], "bytes")


def parse_share(text: str) -> int:
    """Parse a share such as ``0.1 %`` or ``50 ppm`` into parts per million (0 to 1 000 000).

    Raises:
        UnitError: No unit, unknown unit, above 100 %, or not a whole number of parts per million.
    """
    number, unit = _split(text, "share", _SHARE_EXAMPLE)
    factor = {"%": 10_000, "ppm": 1}.get(unit)
    if factor is None:
        raise UnitError(f"{text!r} has an unknown unit {unit!r}: a share is written like {_SHARE_EXAMPLE}")
    ppm = _exact(text, number * factor, "parts per million")
    if ppm > 1_000_000:
        raise UnitError(f"{text!r} is more than 100 %")
    return ppm


def _scaled(value: int, steps: list[tuple[int, str]]) -> str:
    factor, unit = next((step for step in steps if value >= step[0]), steps[-1])
    whole, rest = divmod(value, factor)
    if not rest:
        return f"{whole} {unit}"
    # Factors are powers of ten, so the zero-padded rest is the exact decimal fraction.
    return f"{whole}.{str(rest).zfill(len(str(factor)) - 1).rstrip('0')} {unit}"


def format_rate(rate_bps: int) -> str:
    """Write bit/s as text that `parse_rate` reads back to the same number."""
    return _scaled(
        rate_bps, [(10**12, "Tbit/s"), (10**9, "Gbit/s"), (10**6, "Mbit/s"), (10**3, "kbit/s"), (1, "bit/s")]
    )


def format_time(time_ns: int) -> str:
    """Write nanoseconds as text that `parse_time` reads back to the same number."""
    return _scaled(time_ns, [(10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns")])


def format_size(size_bytes: int) -> str:
    """Write bytes as text that `parse_size` reads back: in binary units where they divide evenly, else decimal."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return _scaled(size_bytes, [(10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B")])
