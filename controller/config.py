"""What the controller is started with: arguments and files, checked before anything runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from pathlib import Path

from controller.designs import Design
from controller.files import read_json
from controller.paths import Spread
from controller.rest.auth import Tokens
from controller.rest.tokens import check_exposure
from controller.services import Service, services_from_json
from emulator.errors import ScenarioError, TopologyError
from emulator.model.codec import fabric_from_json
from emulator.model.fabric import Fabric, Role

_NS = 10**9
_MOST_SOCKET_BYTES = 107
_LEAST_INTERVAL_S, _MOST_INTERVAL_S = 0.001, 3600.0


@dataclass(frozen=True)
class Address:
    """Where to listen.

    Attributes:
        host: IPv4 or IPv6 address.
        port: TCP port; 0: any free one.
    """

    host: str
    port: int

    @property
    def is_ipv6(self) -> bool:
        """Whether it is an IPv6 address."""
        return ":" in self.host

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Settings:
    """A checked start.

    Attributes:
        fabric: The network.
        design: How storage traffic travels.
        services: The storage services.
        spread: How packets are spread over equal paths.
        listen: Where switches connect.
        rest: Where the REST interface is.
        store: File of the tenants' resources, or ``:memory:``; None: no tenants, all hosts may talk.
        tokens: Who may use the REST interface; None: everybody on this machine.
        redundant: Another controller shares the store, and takes over if this one ends.
        balance_interval_ns: Time between looks at the links' loads; 0: large flows are not moved.
        lldp_interval_ns: Time between rounds of discovery; 0: no discovery.
        gateways: Control sockets of the gateways that are told what tenants may do, by the hosts' names.
    """

    fabric: Fabric
    design: Design
    services: tuple[Service, ...]
    spread: Spread
    listen: Address
    rest: Address
    store: str | None = None
    tokens: Tokens | None = None
    redundant: bool = False
    balance_interval_ns: int = 0
    lldp_interval_ns: int = 10 * _NS
    gateways: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.store is not None and not self.store.strip():
            raise ScenarioError("is empty; name a file, or :memory:", key="--store")
        if self.store is not None and self.services:
            raise ScenarioError("with --store, services are resources that are declared in the store", key="--services")
        if self.redundant and self.store in (None, ":memory:"):
            raise ScenarioError("needs a file that both controllers share: --store FILE", key="--redundant")
        if self.gateways:
            self._check_gateways()
        check_exposure(self.rest.host, self.tokens)

    def _check_gateways(self) -> None:
        if self.store is None:
            raise ScenarioError("gateways are told what tenants may do: needs --store", key="--gateway")
        if self.design is not Design.GATEWAY:
            raise ScenarioError(f"nothing passes a gateway with --design {self.design.value}", key="--gateway")
        for name in self.gateways:
            node = self.fabric.by_name.get(name)
            if node is None or node.role is not Role.GATEWAY:
                gateways = ", ".join(node.name for node in self.fabric.with_role(Role.GATEWAY)) or "none"
                raise ScenarioError(f"{name!r} is no gateway of the fabric; there are: {gateways}", key="--gateway")


def parse_address(text: str, key: str) -> Address:
    """Read ``127.0.0.1:6653`` or ``[::1]:6653``.

    Raises:
        ScenarioError: It is something else.
    """
    host, colon, port = text.rpartition(":")
    kind: type[IPv4Address] | type[IPv6Address] = IPv4Address
    if host.startswith("[") and host.endswith("]"):
        host, kind = host[1:-1], IPv6Address
    try:
        kind(host)
    except AddressValueError:
        colon = ""
    if not colon or not (port.isascii() and port.isdigit()) or int(port[:6]) > 65_535:
        raise ScenarioError(f"{text!r} is not an address with a port, like 127.0.0.1:6653 or [::1]:6653", key=key)
    return Address(host, int(port))


def parse_gateways(texts: Sequence[str], key: str) -> dict[str, str]:
    """Read some of ``gw0=/run/gw0``: a host and the path of its daemon's control socket.

    Raises:
        ScenarioError: It is something else, or a host or a path is there twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not name or not path or "\0" in path:
            raise ScenarioError(f"{text!r} is not a host and the path of a socket, like gw0=/run/gw0", key=key)
        if len(os.fsencode(path)) > _MOST_SOCKET_BYTES:
            raise ScenarioError(f"{name}: the socket's path is longer than {_MOST_SOCKET_BYTES} bytes", key=key)
        if name in found:
            raise ScenarioError(f"{name} is there twice", key=key)
        if path in found.values():
            raise ScenarioError(f"{path} is there twice", key=key)
        found[name] = path
    return found


def parse_interval(text: str, key: str) -> int:
    """Read a number of seconds; 0 stands for never.

    Returns:
        The interval in ns.

    Raises:
        ScenarioError: It is something else, or out of bounds.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds != 0 and not _LEAST_INTERVAL_S <= seconds <= _MOST_INTERVAL_S:
        raise ScenarioError(
            f"{text!r} is not a number of seconds from {_LEAST_INTERVAL_S:g} to {_MOST_INTERVAL_S:g}, or 0", key=key
        )
    return round(seconds * _NS)


def load_fabric(path: Path) -> Fabric:
    """Read a fabric file.

    Raises:
        ScenarioError: It cannot be read or is not a fabric.
    """
    try:
        fabric = fabric_from_json(read_json(path))
    except TopologyError as error:
        raise TopologyError(error.reason, file=str(path), key=error.key) from None
    for index, node in enumerate(fabric.nodes):
        key = f"/nodes/{index}"
        if node.is_switch and node.dpid is None:
            raise TopologyError(f"switch {node.name!r} has no datapath id", file=str(path), key=f"{key}/dpid")
        if not node.is_switch and not (node.mac and node.ip):
            missing = "mac" if node.ip else "ip"
            raise TopologyError(f"host {node.name!r} has no address", file=str(path), key=f"{key}/{missing}")
    return fabric


def load_services(path: Path, fabric: Fabric) -> tuple[Service, ...]:
    """Read a services file.

    Raises:
        ScenarioError: It cannot be read, or does not fit the fabric.
    """
    return services_from_json(read_json(path), fabric, str(path))
