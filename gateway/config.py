"""A daemon's input files, checked: ``station.json`` and ``neighbours.json``."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Any

from emulator.errors import ScenarioError
from emulator.model.profile import StationModel

_MAC = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}")
_MAX_TIME_NS = 3600 * 10**9
_MAX_RATE = 10**15
_MAX_QUEUE = 10**7


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"duplicate key {key!r}")
        seen[key] = value
    return seen


def read_object(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Raises:
        ScenarioError: It cannot be read, is not JSON, not an object, or names a key twice.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique_keys)
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except json.JSONDecodeError as error:
        raise ScenarioError(f"not JSON: {error.msg}", file=str(path), line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"not usable: {error}", file=str(path)) from None
    if not isinstance(data, dict):
        raise ScenarioError("not a JSON object", file=str(path))
    return data


def station_mac(value: object) -> bytes:
    """The Ethernet address of one station, 6 bytes.

    Raises:
        ValueError: It is none; says why.
    """
    if not isinstance(value, str) or not _MAC.fullmatch(value):
        raise ValueError(f"{value!r} is not an Ethernet address like 02:00:0a:00:00:01")
    raw = bytes.fromhex(value.replace(":", ""))
    if raw[0] & 1:
        raise ValueError(f"{value} is a group address, not a host's")
    return raw


def load_station(path: Path) -> StationModel:
    """Read a station's parameters: the fields of `StationModel`, all of them.

    Raises:
        ScenarioError: Names the file, the key and what is wrong with it.
    """
    data = read_object(path)
    names = [field.name for field in fields(StationModel)]
    for key in data:
        if key not in names:
            raise ScenarioError(f"unknown key: a station has {', '.join(names)}", file=str(path), key=key)
    for key in names:
        if key not in data:
            raise ScenarioError("is missing", file=str(path), key=key)

    def whole(key: str, least: int, most: int, *, optional: bool = False) -> int | None:
        value = data[key]
        if value is None and optional:
            return None
        if type(value) is not int or not least <= value <= most:
            raise ScenarioError(
                f"{value!r} is not a whole number from {least} to {most}{' or null' if optional else ''}",
                file=str(path),
                key=key,
            )
        return value

    if not isinstance(data["source"], str):
        raise ScenarioError(f"{data['source']!r} is not a text", file=str(path), key="source")
    return StationModel(
        latency_ns=whole("latency_ns", 0, _MAX_TIME_NS) or 0,
        packet_rate=whole("packet_rate", 1, _MAX_RATE, optional=True),
        bit_rate_bps=whole("bit_rate_bps", 1, _MAX_RATE, optional=True),
        queue_packets=whole("queue_packets", 0, _MAX_QUEUE) or 0,
        source=data["source"],
    )


def load_neighbours(path: Path) -> dict[IPv4Address, bytes]:
    """Read the neighbours: an object of Ethernet addresses by IPv4 address.

    Raises:
        ScenarioError: Names the file, the entry and what is wrong with it.
    """
    neighbours: dict[IPv4Address, bytes] = {}
    for ip, mac in read_object(path).items():
        try:
            address = IPv4Address(ip)
        except AddressValueError:
            raise ScenarioError("is not an IPv4 address", file=str(path), key=ip) from None
        try:
            neighbours[address] = station_mac(mac)
        except ValueError as error:
            raise ScenarioError(str(error), file=str(path), key=ip) from None
    return neighbours
