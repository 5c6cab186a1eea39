"""The fast gateway's file: its ports, who is who, what may pass and where things are. See ``docs/dataplane.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from ipaddress import IPv4Address, ip_network
from pathlib import Path

from gateway.config import read_object
from gateway.dataplane.classify import MAX_TENANTS, MAX_VLAN, MAX_VNI, Service, Tenants
from gateway.dataplane.headers import VXLAN_PORT
from gateway.dataplane.parse import MAX_BYTES
from gateway.dataplane.pipeline import Configuration
from gateway.dataplane.policy import ANY_PORT, Rule
from gateway.dataplane.route import LOCAL, NextHop, Route, Tunnel
from gateway.dataplane.translate import Endpoint
from gateway.fast.reader import Network, Section
from gateway.offload.steering import Hook
from gateway.rings.xsk import Mode

_KEYS = (
    "mode",
    "ports",
    "tenants",
    "rules",
    "next_hops",
    "routes",
    "endpoints",
    "tunnel_ends",
    "flow_capacity",
    "idle_s",
    "batch_frames",
    "frames",
    "ring_entries",
    "headroom_bytes",
    "xdp",
    "offload",
)
_TENANT = MAX_TENANTS - 1
_PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1}
_TRANSLATED = {"tcp": 6, "udp": 17}
_SERVICES = {service.name.lower(): service for service in Service}
_LOCAL = "local"


class PortKind(str, Enum):
    """How frames get in and out."""

    AF_XDP = "af_xdp"
    PACKET_MMAP = "packet_mmap"
    SOCKET = "socket"


@dataclass(frozen=True)
class PortSettings:
    """One interface.

    Attributes:
        interface: Its name.
        queues: Queues of it that are served, from the first.
    """

    interface: str
    queues: int


@dataclass(frozen=True)
class OffloadSettings:
    """The offload.

    Attributes:
        folder: Where its maps have their names, in a BPF file system.
        capacity: Flows at most.
        stay: Whether its flows go on when the daemon is stopped in order.
    """

    folder: Path
    capacity: int
    stay: bool


@dataclass(frozen=True)
class FastConfig:
    """The whole file.

    Attributes:
        kind: How frames get in and out.
        ports: The interfaces; a port's number is its place here.
        configuration: What the pipeline is told, without the ports' own Ethernet addresses.
        idle_ns: Flows without a packet for so long are forgotten.
        batch_frames: Frames that are handled at a time.
        frames: Frames that the memory has, or the ring of each port.
        ring_entries: Entries of each ring.
        headroom_bytes: Room before each frame for headers to come.
        hook: Where XDP programs see packets.
        mode: How AF_XDP moves bytes.
        offload: The offload; None: everything goes through user space.
    """

    kind: PortKind
    ports: Sequence[PortSettings]
    configuration: Configuration
    idle_ns: int
    batch_frames: int
    frames: int
    ring_entries: int
    headroom_bytes: int
    hook: Hook
    mode: Mode
    offload: OffloadSettings | None

    def for_host(
        self, macs: Mapping[int, bytes], own: frozenset[IPv4Address], mtus: Mapping[int, int]
    ) -> Configuration:
        """The pipeline's configuration on a host.

        Args:
            macs: Its ports' Ethernet addresses, from which next hops are reached.
            own: Its own addresses, which are the kernel's business whoever asks.
            mtus: Longest IP packet of each port.
        """
        told = self.configuration
        hops = [
            replace(
                hop,
                source_mac=macs[hop.port],
                max_bytes=min(hop.max_bytes, self._most_bytes(hop, mtus[hop.port])),
                tunnel=replace(hop.tunnel, source_mac=macs[hop.port]) if hop.tunnel else None,
            )
            for hop in told.next_hops
        ]
        tenants = {*told.tenants.by_port.values(), *told.tenants.by_vlan.values()}
        named = {(route.tenant, route.network) for route in told.routes}
        local = [
            Route(tenant, ip_network(address), LOCAL)
            for tenant in sorted(tenants)
            for address in sorted(own)
            if (tenant, ip_network(address)) not in named
        ]
        return replace(told, macs=macs, next_hops=hops, routes=[*told.routes, *local])

    def _most_bytes(self, hop: NextHop, mtu: int) -> int:
        """Longest frame that the port is given: packet sockets make frames of super-packets, but not in a tunnel."""
        if self.kind is PortKind.AF_XDP or hop.tunnel is not None:
            return mtu + 14 + (4 if hop.vlan else 0)
        return MAX_BYTES


def load_fast(path: Path) -> FastConfig:
    """Read the file.

    Raises:
        ScenarioError: Names the file, the key and what is wrong with it.
    """
    top = Section(str(path), "", read_object(path), _KEYS)
    kind = top.one_of("mode", {kind.value: kind for kind in PortKind})
    ports = [_port(one) for one in top.sections("ports", ("interface", "queues"))]
    if not ports:
        top.fail("ports", "a gateway has at least one port")
    numbers = {port.interface: number for number, port in enumerate(ports)}
    if len(numbers) < len(ports):
        top.fail("ports", "an interface is named twice")
    if kind is not PortKind.AF_XDP and any(port.queues > 1 for port in ports):
        top.fail("ports", f"queues are served one by one with af_xdp only, not with {kind.value}")
    hops = _next_hops(top, numbers)
    configuration = Configuration(
        macs={},
        tenants=_tenants(top, numbers),
        rules=[_rule(one) for one in top.sections("rules", _RULE_KEYS)] if "rules" in top else [Rule(allow=True)],
        routes=[_route(one, hops) for one in top.sections("routes", ("network", "next_hop", "tenant"))],
        next_hops=[hop for hop, _ in sorted(hops.values(), key=lambda one: one[1])],
        endpoints=[_endpoint(one) for one in top.sections("endpoints", _ENDPOINT_KEYS)],
        tunnel_ends=[_one_address(top, number, text) for number, text in enumerate(_texts(top, "tunnel_ends"))],
        flow_capacity=top.whole("flow_capacity", 1, 1 << 22, 1 << 16),
    )
    xdp = top.section("xdp", ("hook", "copy"))
    entries = top.whole("ring_entries", 64, 1 << 16, 2048)
    if entries & (entries - 1):
        top.fail("ring_entries", f"{entries} is not a power of two")
    queues = sum(port.queues for port in ports)
    offload = _offload(top.section("offload", ("folder", "capacity", "stay"))) if "offload" in top else None
    if offload is not None and kind is not PortKind.AF_XDP:
        top.fail("offload", f"needs the mode af_xdp, not {kind.value}")
    return FastConfig(
        kind,
        ports,
        configuration,
        idle_ns=top.whole("idle_s", 1, 86_400, 60) * 10**9,
        batch_frames=top.whole("batch_frames", 1, 8192, 1024),
        frames=top.whole("frames", 64, 1 << 20, max(2048, 4 * entries * queues if kind is PortKind.AF_XDP else 0)),
        ring_entries=entries,
        headroom_bytes=top.whole("headroom_bytes", 0, 256, 64),
        hook=xdp.one_of("hook", {hook.value: hook for hook in Hook}, Hook.DRIVER.value),
        mode=xdp.one_of("copy", {mode.value: mode for mode in Mode}, Mode.AUTO.value),
        offload=offload,
    )


def _port(one: Section) -> PortSettings:
    return PortSettings(one.text("interface"), one.whole("queues", 1, 64, 1))


def _offload(one: Section) -> OffloadSettings:
    folder = Path(one.text("folder"))
    if not folder.is_absolute():
        one.fail("folder", f"{folder} is not an absolute path")
    return OffloadSettings(folder, one.whole("capacity", 16, 1 << 20, 1 << 16), one.flag("stay", default=False))


def _tenants(top: Section, numbers: Mapping[str, int]) -> Tenants:
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


_RULE_KEYS = ("allow", "tenant", "service", "protocol", "source", "target", "source_ports", "target_ports")
_ENDPOINT_KEYS = ("protocol", "address", "port", "backend", "backend_port", "tenant")


def _rule(one: Section) -> Rule:
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


def _next_hops(top: Section, numbers: Mapping[str, int]) -> dict[str, tuple[NextHop, int]]:
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


def _route(one: Section, hops: Mapping[str, tuple[NextHop, int]]) -> Route:
    choices = {_LOCAL: LOCAL, **{name: number for name, (_, number) in hops.items()}}
    return Route(one.whole("tenant", 0, _TENANT, 0), one.network("network"), one.one_of("next_hop", choices))


def _endpoint(one: Section) -> Endpoint:
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


def _texts(top: Section, key: str) -> list[object]:
    value = top.raw(key) if key in top else []
    if not isinstance(value, list):
        top.fail(key, f"{value!r} is not a list")
    return value


def _one_address(top: Section, number: int, text: object) -> IPv4Address:
    return Section(top.file, f"tunnel_ends[{number}]", {"address": text}, ("address",)).address4("address")
