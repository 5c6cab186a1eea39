"""Checks of parameters that every topology makes: one clear line that names the parameter."""

from __future__ import annotations

from dataclasses import fields

from emulator.errors import TopologyError
from emulator.model.fabric import Aqm, LinkSpec
from emulator.units import parse_share

DEFAULT_RATE_BPS = 100_000_000_000
DEFAULT_DELAY_NS = 500
"""About 100 m of fibre at 5 ns/m."""
DEFAULT_MTU_BYTES = 9000
DEFAULT_BDP_RTT_NS = 100_000


def count(key: str, value: int, *, least: int, most: int) -> int:
    """Check a number of things.

    Raises:
        TopologyError: Not an integer, or out of range; names the parameter *key*.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TopologyError(f"{value!r} is not a whole number", key=key)
    if not least <= value <= most:
        raise TopologyError(f"{value} is out of range: {least} to {most}", key=key)
    return value


def link_spec(**properties: int | float | bool | str | Aqm | None) -> LinkSpec:
    """Make a `LinkSpec` from numbers in base units.

    Raises:
        TopologyError: A value of the wrong type or out of range; names the parameter.
    """
    for key, value in properties.items():
        _check_type(key, value)
    aqm = properties.pop("aqm", Aqm.DROP_TAIL)
    try:
        policy = Aqm(aqm)
    except ValueError:
        known = " or ".join(repr(one.value) for one in Aqm)
        raise TopologyError(f"{aqm!r} is no queue management: {known}", key="aqm") from None
    threshold = properties.get("ecn_threshold_packets")
    if isinstance(threshold, int) and threshold < 1:
        raise TopologyError(f"{threshold} is out of range: at least 1", key="ecn_threshold_packets")
    return LinkSpec(aqm=policy, **properties)  # type: ignore[arg-type]


def storage_share(value: object) -> object:
    """A part of a line from a command line: text with a unit, such as ``30%``, or a number, which stays as it is.

    Raises:
        UnitError: The text has no unit, or another one.
    """
    return parse_share(value) / 1_000_000 if isinstance(value, str) else value


_FLOATS = {"queue_bdp", "storage_share"}
_OPTIONAL = {"queue_packets", "storage_share"}
_FLAGS = {"true_packets"}
_NAMES = {field.name for field in fields(LinkSpec)}


def _check_type(key: str, value: object) -> None:
    if key not in _NAMES:
        raise TypeError(key)
    if key == "aqm" or (key in _OPTIONAL and value is None):
        return
    if key in _FLAGS:
        good, wanted = isinstance(value, bool), "true or false"
    elif key in _FLOATS:
        good, wanted = isinstance(value, (int, float)) and not isinstance(value, bool), "a number"
    else:
        good, wanted = isinstance(value, int) and not isinstance(value, bool), "a whole number"
    if not good:
        raise TopologyError(f"{value!r} is not {wanted}", key=key)
