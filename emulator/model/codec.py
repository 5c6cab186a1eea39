"""Fabrics as JSON: how a topology travels to the controller and into a results folder."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, IPv4Network, NetmaskValueError
from typing import Any

from emulator.errors import TopologyError
from emulator.model.fabric import MAX_INTERFACE_NAME, Aqm, Fabric, Link, LinkSpec, Node, Role

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,15}", re.ASCII)
_MAC = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}", re.ASCII)
_PREFIX = re.compile(r".+/[0-9]{1,2}", re.ASCII)
_NOT_OF_HOSTS = tuple(IPv4Network(one) for one in ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3"))
_MOST_CHARS = 200
_MOST_PORT = 0xFFFF_FF00
"""OpenFlow's OFPP_MAX."""

_MOST_DPID = (1 << 64) - 1


def fabric_to_json(fabric: Fabric) -> dict[str, Any]:
    """Return a JSON object that `fabric_from_json` reads back to an equal fabric."""
    return {
        "name": fabric.name,
        "parameters": {key: str(value) for key, value in fabric.parameters.items()},
        "nodes": [
            {**asdict(node), "role": node.role.value, "ip": str(node.ip) if node.ip else None} for node in fabric.nodes
        ],
        "links": [{**asdict(link), "spec": {**asdict(link.spec), "aqm": link.spec.aqm.value}} for link in fabric.links],
    }


def fabric_from_json(data: object) -> Fabric:
    """Read a fabric back.

    Raises:
        TopologyError: It does not describe a valid fabric; ``key`` is a JSON pointer (RFC 6901) to what is wrong.
    """
    whole = _members(data, "", _FABRIC, "a fabric")
    nodes = tuple(Node(**_members(item, f"/nodes/{index}", _NODE, "a node")) for index, item in _items(whole, "nodes"))
    links = tuple(_link(item, f"/links/{index}") for index, item in _items(whole, "links"))
    _check_nodes(nodes)
    _check_links(links, {node.name: node for node in nodes})
    try:
        return Fabric(whole["name"], nodes, links, dict(whole["parameters"]))
    except TopologyError as error:
        raise TopologyError(error.reason, key="/links") from None


def _items(whole: Mapping[str, Any], key: str) -> enumerate[object]:
    return enumerate(whole[key])


def _link(item: object, where: str) -> Link:
    found = _members(item, where, _LINK, "a link")
    spec = _members(found["spec"], f"{where}/spec", _SPEC, "a link's spec")
    try:
        return Link(**{**found, "spec": LinkSpec(**spec)})
    except TopologyError as error:
        raise TopologyError(error.reason, key=f"{where}/spec") from None


def _check_nodes(nodes: tuple[Node, ...]) -> None:
    """Check what belongs to a role, and that nothing is there twice."""
    seen: dict[tuple[str, object], int] = {}
    for index, node in enumerate(nodes):
        for key in ("ip", "mac") if node.is_switch else ("dpid",):
            if getattr(node, key) is not None:
                raise TopologyError(f"a node with the role {node.role.value} has none", key=f"/nodes/{index}/{key}")
        for what, key, value in (
            ("node name", "name", node.name),
            ("IP address", "ip", str(node.ip.ip) if node.ip else None),
            ("MAC address", "mac", node.mac),
            ("dpid", "dpid", node.dpid),
        ):
            if value is not None and seen.setdefault((key, value), index) != index:
                reason = f"duplicate {what} {value!r}, as /nodes/{seen[key, value]} has"
                raise TopologyError(reason, key=f"/nodes/{index}/{key}")


def _check_links(links: tuple[Link, ...], nodes: Mapping[str, Node]) -> None:
    """Check that links join two nodes that there are, at ports of their own."""
    seen: set[str] = set()
    for index, link in enumerate(links):
        if link.a == link.b:
            raise TopologyError(f"joins {link.a!r} to itself", key=f"/links/{index}")
        for end, name, port, interface in (
            ("a", link.a, link.a_port, link.a_interface),
            ("b", link.b, link.b_port, link.b_interface),
        ):
            if name not in nodes:
                raise TopologyError(f"there is no node {name!r}", key=f"/links/{index}/{end}")
            where = f"/links/{index}/{end}_port"
            if nodes[name].is_switch and port == 0:
                raise TopologyError("ports of switches count from 1", key=where)
            if len(interface) > MAX_INTERFACE_NAME:
                reason = f"interface name {interface!r} is longer than {MAX_INTERFACE_NAME} characters"
                raise TopologyError(reason, key=where)
            if interface in seen:
                raise TopologyError(f"duplicate interface {interface!r}", key=where)
            seen.add(interface)


def _shown(value: object) -> str:
    """A value for an error, on one line and not too long."""
    text = ascii(value) if not isinstance(value, (dict, list)) else type(value).__name__
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}..."


class _Wrong(ValueError):
    """A value is not what it should be; says what it should be."""


_Reader = Callable[[Any], Any]


def _members(value: object, where: str, readers: Mapping[str, tuple[_Reader, bool]], what: str) -> dict[str, Any]:
    """Read an object's members, each by its reader; which are needed is beside it."""
    if not isinstance(value, dict):
        raise TopologyError(f"not a fabric description: {what} is an object, not {_shown(value)}", key=where or None)
    for key in value:
        if key not in readers:
            name = key.replace("~", "~0").replace("/", "~1")
            # As a text of Python's without its quotes: a key may hold what does not belong on a line.
            pointer = f"{where}/{ascii(name)[1:-1][:_MOST_CHARS]}"
            raise TopologyError(f"not a fabric description: unknown key; {what} has {', '.join(readers)}", key=pointer)
    found = {}
    for key, (reader, needed) in readers.items():
        if key in value:
            try:
                found[key] = reader(value[key])
            except _Wrong as wrong:
                reason = f"not a fabric description: {wrong}, not {_shown(value[key])}"
                raise TopologyError(reason, key=f"{where}/{key}") from None
        elif needed:
            raise TopologyError(f"not a fabric description: {what} has no {key}", key=f"{where}/{key}")
    return found


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > _MOST_CHARS:
        raise _Wrong(f"is text on one line, of at most {_MOST_CHARS} characters")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _Wrong("is a name of 1 to 15 letters, digits, '_', '.' and '-'")
    return value


def _integer(least: int, most: int) -> _Reader:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _Wrong(f"is a whole number from {least} to {most}")
        return value

    return read


def _whole(value: object) -> int:
    """Any whole number: `LinkSpec` knows the bounds, and says them in better words."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Wrong("is a whole number")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _Wrong("is a number")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("is true or false")
    return value


def _word(kind: type[Role] | type[Aqm]) -> _Reader:
    def read(value: object) -> Role | Aqm:
        words = [one.value for one in kind]
        if value not in words:
            raise _Wrong(f"is one of {', '.join(words)}")
        return kind(value)

    return read


def _address(value: object) -> IPv4Interface:
    try:
        if not isinstance(value, str) or not _PREFIX.fullmatch(value):
            raise AddressValueError
        found = IPv4Interface(value)
    except (AddressValueError, NetmaskValueError):
        raise _Wrong("is an IPv4 address with its prefix length, like 10.0.0.1/8") from None
    if any(IPv4Address(found.ip) in one for one in _NOT_OF_HOSTS):
        raise _Wrong("is an address that a host may have")
    return found


def _mac(value: object) -> str:
    if not isinstance(value, str) or not _MAC.fullmatch(value) or value == "00:00:00:00:00:00":
        raise _Wrong("is the Ethernet address of one host in lower case, like 02:00:0a:00:00:01")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _Wrong("is a list")
    return value


def _object(value: object) -> object:
    if not isinstance(value, dict):
        raise _Wrong("is an object")
    return value


def _parameters(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise _Wrong("is an object with texts")
    return value


def _or_null(reader: _Reader) -> _Reader:
    return lambda value: None if value is None else reader(value)


def _as_in(kind: type[Any], readers: Mapping[str, _Reader]) -> dict[str, tuple[_Reader, bool]]:
    """Readers for the fields of a dataclass; those without a default are needed."""
    return {
        field.name: (readers[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    }


_FABRIC = {"name": (_text, True), "parameters": (_parameters, True), "nodes": (_list, True), "links": (_list, True)}
_NODE = _as_in(
    Node,
    {
        "name": _name,
        "role": _word(Role),
        "zone": _text,
        "ip": _or_null(_address),
        "mac": _or_null(_mac),
        "dpid": _or_null(_integer(1, _MOST_DPID)),
        "tier": _integer(-1000, 1000),
    },
)
_PORT = _integer(0, _MOST_PORT)
_LINK = _as_in(Link, {"a": _name, "b": _name, "a_port": _PORT, "b_port": _PORT, "spec": _object})
_SPEC = _as_in(
    LinkSpec,
    {
        **dict.fromkeys(("rate_bps", "delay_ns", "mtu_bytes", "loss_ppm"), _whole),
        "queue_packets": _or_null(_whole),
        "queue_bdp": _number,
        "bdp_rtt_ns": _integer(0, 10**12),
        "overhead_bytes": _integer(0, 65_535),
        "true_packets": _flag,
        "aqm": _word(Aqm),
        "ecn_threshold_packets": _integer(0, 10_000_000),
        "storage_share": _or_null(_number),
    },
)
