"""What the pipeline is told, read from the sections of the fast gateway's file."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address

from gateway.dataplane.classify import MAX_TENANTS, MAX_VLAN, MAX_VNI, Service, Tenants
from gateway.dataplane.headers import VXLAN_PORT
from gateway.dataplane.policy import ANY_PORT, Rule
from gateway.dataplane.route import LOCAL, NextHop, Route, Tunnel
from gateway.dataplane.translate import Endpoint
from gateway.fast.reader import Network, Section

ROUTE_KEYS = ("network", "next_hop", "tenant")
_TENANT = MAX_TENANTS - 1
_PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1}
_TRANSLATED = {"tcp": 6, "udp": 17}
_SERVICES = {service.name.lower(): service for service in Service}
_LOCAL = "local"


def read_tenants(top: Section, numbers: Mapping[str, int]) -> Tenants:
    """Who is who; without that section, whatever comes in is tenant 0's."""
    if "tenants" not in top:
        return Tenants(by_port=dict.fromkeys(numbers.values(), 0))
    one = top.section("tenants", ("by_port", "by_vlan", "by_vni", "addresses"))
    by_port = {}
    for name, tenant in one.items("by_port"):
        if name not in numbers:
            one.fail("by_port", f"{name} is not one of the ports")
        by_port[numbers[name]] = _number(one, f"by_port.{name}", tenant, _TENANT)
    addresses: dict[int, list[Network]] = {}
    for tenant, networks in one.items("addresses"):
        key = f"addresses.{tenant}"
        if not isinstance(networks, list):
            one.fail(key, f"{networks!r} is not a list of networks")
        number = _number(one, key, _digits(tenant), _TENANT)
        inner = [
            Section(one.file, f"{one.path}.{key}[{i}]", {"network": text}, ("network",))
            for i, text in enumerate(networks)
        ]
        addresses[number] = [section.network("network") for section in inner]
    return Tenants(
        by_vlan=_numbered(one, "by_vlan", MAX_VLAN),
        by_port=by_port,
        by_vni=_numbered(one, "by_vni", MAX_VNI),
        addresses=addresses,
    )


def _digits(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _number(one: Section, key: str, value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        one.fail(key, f"{value!r} is not a whole number from 0 to {most}")
    return value


def _numbered(one: Section, key: str, most: int) -> dict[int, int]:
    return {
        _number(one, f"{key}.{name}", _digits(name), most): _number(one, f"{key}.{name}", tenant, _TENANT)
        for name, tenant in one.items(key)
    }


RULE_KEYS = ("allow", "tenant", "service", "protocol", "source", "target", "source_ports", "target_ports")
ENDPOINT_KEYS = ("protocol", "address", "port", "backend", "backend_port", "tenant")


def read_rule(one: Section) -> Rule:
    """What may pass."""
    allow = one.raw("allow")
    if not isinstance(allow, bool):
        one.fail("allow", f"{allow!r} is not true or false")
    return Rule(
        allow,
        tenant=one.whole("tenant", 0, _TENANT) if "tenant" in one else None,
        service=one.one_of("service", _SERVICES) if "service" in one else None,
        protocol=one.one_of("protocol", _PROTOCOLS) if "protocol" in one else None,
        source=one.network("source") if "source" in one else None,
        target=one.network("target") if "target" in one else None,
        source_ports=_span(one, "source_ports"),
        target_ports=_span(one, "target_ports"),
    )


def _span(one: Section, key: str) -> tuple[int, int]:
    if key not in one:
        return ANY_PORT
    value = one.raw(key)
    right = (
        isinstance(value, list) and len(value) == 2 and all(type(port) is int and 0 <= port < 65536 for port in value)
    )
    if not right or value[0] > value[1]:
        one.fail(key, f"{value!r} is not a list of the first and the last port")
    return value[0], value[1]


_HOP_KEYS = ("port", "mac", "vlan", "max_bytes", "tunnel")
_TUNNEL_KEYS = ("vni", "local", "remote", "inner_mac", "port")


def read_next_hops(top: Section, numbers: Mapping[str, int]) -> dict[str, tuple[NextHop, int]]:
    """Next hops by name, with their numbers. Addresses of the gateway itself are put in by `FastConfig.for_host`."""
    hops: dict[str, tuple[NextHop, int]] = {}
    for name, data in top.items("next_hops"):
        if name == _LOCAL:
            top.fail("next_hops", f"{_LOCAL} is the gateway itself")
        one = Section(top.file, f"next_hops.{name}", data, _HOP_KEYS)
        mac, tunnel = one.mac("mac"), None
        if "tunnel" in one:
            inside = one.section("tunnel", _TUNNEL_KEYS)
            ends = inside.address4("local"), inside.address4("remote")
            tunnel = Tunnel(
                inside.whole("vni", 0, MAX_VNI), *ends, mac, bytes(6), inside.whole("port", 1, 65535, VXLAN_PORT)
            )
            mac = inside.mac("inner_mac")
        vlan, most = one.whole("vlan", 0, MAX_VLAN, 0), one.whole("max_bytes", 64, 65_535, 65_535)
        hops[name] = NextHop(one.one_of("port", dict(numbers)), mac, bytes(6), vlan, tunnel, most), len(hops) + 1
    return hops


def read_route(one: Section, hops: Mapping[str, tuple[NextHop, int]]) -> Route:
    """Where something is."""
    choices = {_LOCAL: LOCAL, **{name: number for name, (_, number) in hops.items()}}
    return Route(one.whole("tenant", 0, _TENANT, 0), one.network("network"), one.one_of("next_hop", choices))


def read_endpoint(one: Section) -> Endpoint:
    """What is translated."""
    address, backend = one.address("address"), one.address("backend")
    if address.version != backend.version:
        one.fail("backend", f"{backend} is of another family than {address}")
    return Endpoint(
        one.one_of("protocol", _TRANSLATED),
        address,
        one.whole("port", 1, 65535),
        backend,
        one.whole("backend_port", 1, 65535),
        one.whole("tenant", 0, _TENANT) if "tenant" in one else None,
    )


def read_tunnel_ends(top: Section) -> list[IPv4Address]:
    """Addresses at which VXLAN ends here."""
    value = top.raw("tunnel_ends") if "tunnel_ends" in top else []
    if not isinstance(value, list):
        top.fail("tunnel_ends", f"{value!r} is not a list")
    return [
        Section(top.file, f"tunnel_ends[{number}]", {"address": text}, ("address",)).address4("address")
        for number, text in enumerate(value)
    ]
