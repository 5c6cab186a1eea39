"""Topologies from the words of a command line: ``icgw,gpus=4,delay=5us`` as Mininet splits them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from emulator.errors import TopologyError, UnitError
from emulator.model.fabric import Fabric
from emulator.units import parse_rate, parse_share, parse_size, parse_time
from topologies import FABRICS, checks

_UNITS: dict[str, Callable[[str], int]] = {
    "_bps": parse_rate,
    "_ns": parse_time,
    "_bytes": parse_size,
    "_ppm": parse_share,
}

LINE_WORDS = frozenset(
    {
        "rate", "edge_rate", "uplink_rate", "delay", "zone_delay", "uplink_delay",
        "queue_packets", "queue_bdp", "bdp_rtt", "loss", "aqm", "storage_share",
    }
)  # fmt: skip
"""Parameters, without their unit, that only a shaped link can have."""

WORD_PARAMETERS = frozenset({"fanouts", "oversubscription", "shape"})
"""Parameters that are text even if it looks like a number."""


def fabric_from_words(name: str, positional: Sequence[object], named: Mapping[str, object]) -> Fabric:
    """Build a topology.

    Args:
        name: Of the topology.
        positional: Values in the order of the function's parameters.
        named: Values by parameter, with its unit in the name (``delay_ns=5000``) or in the value (``delay=5us``).

    Raises:
        TopologyError: Unknown parameter, given twice, or impossible value; names the parameter.
    """
    function = FABRICS[name]
    parameters = list(inspect.signature(function).parameters)
    if len(positional) > len(parameters):
        raise TopologyError(f"{name} takes at most {len(parameters)} values: {', '.join(parameters)}")
    values: dict[str, object] = {}
    given = [*zip(parameters, positional, strict=False), *named.items()]
    for word, text in given:
        key, value = _resolve(name, word, text, parameters)
        if key in WORD_PARAMETERS:
            value = str(value)  # Mininet makes a number of a word that is one
        if key in values:
            raise TopologyError("is given twice", key=word)
        values[key] = value
    return function(**values)


def asks_for_shaping(name: str, positional: Sequence[object], named: Mapping[str, object]) -> bool:
    """Whether the words for a topology ask for something that only a shaped link can have."""
    by_position = list(inspect.signature(FABRICS[name]).parameters)[: len(positional)]
    return any(_bare(word) in LINE_WORDS for word in (*by_position, *named))


def _bare(word: str) -> str:
    for suffix in _UNITS:
        if word.endswith(suffix):
            return word[: -len(suffix)]
    return word


def _resolve(name: str, word: str, value: object, parameters: Sequence[str]) -> tuple[str, object]:
    if word in parameters:
        if word == "true_packets":
            value = {"true": True, "false": False, "1": True, "0": False}.get(str(value).lower(), value)
        elif word == "storage_share":
            value = _parsed(word, value, checks.storage_share)
        return word, value
    for suffix, parse in _UNITS.items():
        if word + suffix in parameters:
            return word + suffix, _parsed(word, value, parse)
    known = ", ".join(map(_bare, parameters))
    raise TopologyError(f"{name} has no such parameter: it takes {known}", key=word)


def _parsed(word: str, value: object, parse: Callable[[Any], object]) -> object:
    try:
        return parse(value)
    except UnitError as error:
        raise TopologyError(error.reason, key=word) from None
