"""Field types of the scenario schema: text with a unit on the outside, exact integers on the inside."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from emulator.errors import UnitError
from emulator.units import parse_rate, parse_share, parse_size, parse_time

MAX_INTEGER = 2**63 - 1
LEAST_INTERVAL_NS, MOST_INTERVAL_NS = 10**6, 3600 * 10**9


def shorten(value: object, limit: int = 60) -> str:
    """A value as one short line for an error message."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def refuse(reason: str) -> PydanticCustomError:
    """The exception with which a validator refuses a value; the reason is shown as it is."""
    return PydanticCustomError("refused", "{reason}", {"reason": reason})


def _quantity(parse: Callable[[str], int]) -> PlainValidator:
    def validate(value: Any) -> int:
        try:
            number = parse(value)
        except UnitError as error:
            raise refuse(error.reason) from None
        if number > MAX_INTEGER:
            raise refuse(f"{shorten(value)} is out of range")
        return number

    return PlainValidator(validate)


def at_least(minimum: int, text: str) -> AfterValidator:
    """Refuse a quantity below a minimum; *text* is the minimum with its unit."""

    def validate(value: int) -> int:
        if value < minimum:
            raise refuse(f"must be at least {text}")
        return value

    return AfterValidator(validate)


def at_most(maximum: int, text: str) -> AfterValidator:
    """Refuse a quantity above a maximum; *text* is the maximum with its unit."""

    def validate(value: int) -> int:
        if value > maximum:
            raise refuse(f"must be at most {text}")
        return value

    return AfterValidator(validate)


def _schema(description: str, *examples: object, **more: object) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "description": description, "examples": list(examples), **more})


Rate = Annotated[
    int, _quantity(parse_rate), _schema("A data rate with its unit.", "100 Gbit/s", "400 Gbit/s", "160 GB/s")
]
Time = Annotated[int, _quantity(parse_time), _schema("A duration with its unit.", "5 us", "250 ns", "1.5 ms", "60 s")]


def _interval(value: int) -> int:
    if value and not LEAST_INTERVAL_NS <= value <= MOST_INTERVAL_NS:
        raise refuse("must be 1 ms to 1 h, or 0 s for never")
    return value


Interval = Annotated[Time, AfterValidator(_interval)]
"""From one round of something to the next."""
Size = Annotated[
    int, _quantity(parse_size), _schema("An amount of data with its unit.", "9000 B", "4 KiB", "1 GiB", "1 TB")
]
Share = Annotated[int, _quantity(parse_share), _schema("A share with its unit.", "0 %", "0.1 %", "50 ppm")]

Part = Annotated[
    float,
    _quantity(parse_share),
    AfterValidator(lambda ppm: ppm / 1_000_000),
    _schema("A part of a whole with its unit.", "30 %", "50 %"),
]

_QUEUE = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>BDP|bdp|packets?)\s*")


def _queue(value: Any) -> dict[str, int | float]:
    match = _QUEUE.fullmatch(value) if isinstance(value, str) else None
    if match is None or len(match["number"]) > 20:
        raise refuse(f"{shorten(value)} is not a queue: write it like '1 BDP' or '1000 packets'")
    if match["unit"].lower() == "bdp":
        return {"queue_bdp": float(match["number"])}
    if "." in match["number"]:
        raise refuse(f"{shorten(value)} is not a whole number of packets")
    return {"queue_packets": int(match["number"])}


Queue = Annotated[
    dict[str, int | float],
    PlainValidator(_queue),
    _schema(
        "Packets that may wait for the line, or the same in bandwidth-delay products.",
        "1 BDP",
        "0.2 BDP",
        "1000 packets",
        pattern=r"^\s*\d+(\.\d+)?\s*(BDP|bdp|packets?)\s*$",
    ),
]


_PACKETS = re.compile(r"\s*(?P<number>\d{1,9})\s*packets?\s*")


def _packets(value: Any) -> int:
    match = _PACKETS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refuse(f"{shorten(value)} is not a number of packets: write it like '65 packets'")
    return int(match["number"])


Packets = Annotated[
    int,
    PlainValidator(_packets),
    _schema("A number of packets.", "65 packets", "1000 packets", pattern=r"^\s*\d+\s*packets?\s*$"),
]


def _pattern(pattern: str, wanted: str) -> PlainValidator:
    compiled = re.compile(pattern)

    def validate(value: Any) -> str:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or not compiled.fullmatch(text):
            raise refuse(f"{shorten(value)} is {wanted}")
        return text

    return PlainValidator(validate)


_SIZES = r"\d{1,6}(x\d{1,6}){0,5}"
_RATIOS = r"\d{1,6}(\.\d{1,6}|/[1-9]\d{0,5})?(x\d{1,6}(\.\d{1,6}|/[1-9]\d{0,5})?){0,5}"

Sizes = Annotated[
    str,
    _pattern(_SIZES, "not sizes: write them like 8x8x4"),
    _schema("Sizes, joined by x.", "8x8x4", "16x16", pattern=f"^{_SIZES}$"),
]
Ratios = Annotated[
    str,
    _pattern(_RATIOS, "no list of ratios: write it like 1x4"),
    _schema("Ratios, joined by x.", "1x4", "2", "1x32/7", pattern=f"^{_RATIOS}$"),
]


def _ratio(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise refuse(f"{shorten(value)} is not a number, write it like 0.6")
    return float(value)


def _load(value: Any) -> float:
    load = _ratio(value)
    if not 0 < load < 1:
        raise refuse(f"{shorten(value)} is not above 0 and below 1")
    return load


Load = Annotated[
    float,
    PlainValidator(_load),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "examples": [0.3, 0.6, 0.9]}),
]


def _whole(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(f"{shorten(value)} is not a whole number")
    return value


def _boolean(value: Any) -> Any:
    if not isinstance(value, bool):
        raise refuse(f"{shorten(value)} is not true or false")
    return value


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise refuse(f"{shorten(value)} is not text")
    return value


def _not_empty(value: Any) -> Any:
    if isinstance(value, list) and not value:
        raise refuse("is empty")
    return value


def _tuple(value: Any) -> Any:
    if not isinstance(value, list):
        raise refuse(f"{shorten(value)} is not a list")
    return tuple(value)


Count = Annotated[StrictInt, Field(ge=1, le=1_000_000_000), BeforeValidator(_whole)]
"""A whole number from 1."""
Index = Annotated[StrictInt, Field(ge=0, le=MAX_INTEGER), BeforeValidator(_whole)]
"""A whole number from 0."""
Flag = Annotated[StrictBool, BeforeValidator(_boolean)]
AsText = BeforeValidator(_text)
"""Put on text fields: says so in this project's words if something is not text."""
Text = Annotated[StrictStr, Field(min_length=1, max_length=2000), AsText]

AsTuple = BeforeValidator(_tuple)
"""Put on tuple fields: YAML has lists."""
NotEmpty = BeforeValidator(_not_empty)
"""Put on list fields that need an entry. Pydantic's own check also counts entries that are wrong as missing."""
AT_LEAST_ONE: dict[str, Any] = {"minItems": 1}
"""The same in the JSON schema."""


def _name_list(value: Any) -> Any:
    return _tuple([value] if isinstance(value, str) else value)


def _depth_list(value: Any) -> Any:
    return _tuple([value] if isinstance(value, int) and not isinstance(value, bool) else value)


_ONE_OR_MORE_NAMES = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
    "examples": ["h0", ["gpu0", "gpu1"]],
}
_ONE_OR_MORE_DEPTHS = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1},
    ],
    "examples": [16, [1, 4, 16, 64]],
}

Names = Annotated[tuple[Text, ...], BeforeValidator(_name_list), NotEmpty, WithJsonSchema(_ONE_OR_MORE_NAMES)]
"""One node or several."""
Depths = Annotated[tuple[Count, ...], BeforeValidator(_depth_list), NotEmpty, WithJsonSchema(_ONE_OR_MORE_DEPTHS)]
"""One queue depth or several."""


def _pair_list(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = []
    for entry in _tuple(value):
        if not isinstance(entry, list) or len(entry) != 2 or not all(isinstance(name, str) and name for name in entry):
            raise refuse(f"{shorten(entry)} is not a pair: write it like [h0, h1]")
        pairs.append((entry[0], entry[1]))
    if not pairs:
        raise refuse("is empty")
    return tuple(pairs)


_PAIRS = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
    "examples": [[["h0", "h1"], ["h1", "h0"]]],
}

Pairs = Annotated[tuple[tuple[str, str], ...], PlainValidator(_pair_list), WithJsonSchema(_PAIRS)]
"""Sender and receiver of one or more flows."""
