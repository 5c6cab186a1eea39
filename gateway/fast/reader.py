"""Reading JSON objects strictly: every value is checked, unknown keys are errors, and errors name the place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, NoReturn, TypeVar

from emulator.errors import ScenarioError
from gateway.config import station_mac

T = TypeVar("T")
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Section:
    """One object of a file.

    Args:
        file: Name of the file, for messages.
        path: Where in the file the object is.
        data: The object.
        keys: Keys that it may have.

    Raises:
        ScenarioError: It is no object, or has other keys.
    """

    def __init__(self, file: str, path: str, data: object, keys: tuple[str, ...]) -> None:
        self.file = file
        self.path = path
        if not isinstance(data, dict):
            self.fail("", f"{data!r} is not an object")
        self._data: dict[str, Any] = data
        for key in data:
            if key not in keys:
                self.fail(key, f"unknown key: here are {', '.join(keys)}")

    def fail(self, key: str, reason: str) -> NoReturn:
        """Tell the user what is wrong with a key."""
        where = ".".join(part for part in (self.path, key) if part)
        raise ScenarioError(reason, file=self.file, key=where or None)

    def __contains__(self, key: str) -> bool:
        return self._data.get(key) is not None

    def raw(self, key: str) -> Any:
        """A value as it is.

        Raises:
            ScenarioError: It is missing.
        """
        if key not in self._data:
            self.fail(key, "is missing")
        return self._data[key]

    def whole(self, key: str, least: int, most: int, default: int | None = None) -> int:
        """A whole number."""
        value = self.raw(key) if default is None else self._data.get(key, default)
        if type(value) is not int or not least <= value <= most:
            self.fail(key, f"{value!r} is not a whole number from {least} to {most}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._data.get(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"{value!r} is not true or false")
        return value

    def text(self, key: str) -> str:
        """A text."""
        value = self.raw(key)
        if not isinstance(value, str) or not value:
            self.fail(key, f"{value!r} is not a text")
        return value

    def one_of(self, key: str, choices: dict[str, T], default: str | None = None) -> T:
        """One of some words."""
        value = self.raw(key) if default is None else self._data.get(key, default)
        if not isinstance(value, str) or value not in choices:
            self.fail(key, f"{value!r} is not one of {', '.join(choices)}")
        return choices[value]

    def mac(self, key: str) -> bytes:
        """The Ethernet address of one station, 6 bytes."""
        try:
            return station_mac(self.raw(key))
        except ValueError as error:
            self.fail(key, str(error))

    def address(self, key: str) -> Address:
        """An IP address."""
        return self.parsed(key, ip_address, "an IP address")

    def address4(self, key: str) -> IPv4Address:
        """An IPv4 address."""
        return self.parsed(key, IPv4Address, "an IPv4 address")

    def network(self, key: str) -> Network:
        """An IP network."""
        return self.parsed(key, ip_network, "an IP network like 10.0.0.0/8, with no bit set behind its prefix")

    def parsed(self, key: str, parse: Callable[[str], T], what: str) -> T:
        """A text that a function understands."""
        value = self.raw(key)
        if not isinstance(value, str):
            self.fail(key, f"{value!r} is not {what}")
        try:
            return parse(value)
        except ValueError:
            self.fail(key, f"{value!r} is not {what}")

    def section(self, key: str, keys: tuple[str, ...]) -> Section:
        """An object within; empty if it is not there."""
        return Section(self.file, f"{self.path}.{key}" if self.path else key, self._data.get(key, {}), keys)

    def sections(self, key: str, keys: tuple[str, ...]) -> Iterator[Section]:
        """The objects of a list; none if it is not there."""
        value = self._data.get(key, [])
        if not isinstance(value, list):
            self.fail(key, f"{value!r} is not a list")
        for number, item in enumerate(value):
            yield Section(self.file, f"{self.path}.{key}[{number}]".lstrip("."), item, keys)

    def items(self, key: str) -> Iterator[tuple[str, Any]]:
        """Keys and values of an object within, whose keys are names; none if it is not there."""
        value = self._data.get(key, {})
        if not isinstance(value, dict):
            self.fail(key, f"{value!r} is not an object")
        yield from value.items()
