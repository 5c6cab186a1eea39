"""Storage services: which TCP ports of which nodes the steering is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from emulator.errors import ScenarioError
from emulator.model.fabric import Fabric, Role

_KEYS = ("name", "node", "ip", "port", "protocol")
_SERVERS = (Role.STORAGE, Role.HOST)


@dataclass(frozen=True)
class Service:
    """A storage service.

    Attributes:
        name: Unique name, for example ``block``.
        node: Host that offers it.
        ip: That host's address.
        port: TCP port, 1 to 65535.
        protocol: ``tcp``.
    """

    name: str
    node: str
    ip: str
    port: int
    protocol: str = "tcp"


def services_from_json(data: object, fabric: Fabric, file: str | None = None) -> tuple[Service, ...]:
    """Read a list of services and check it against the fabric.

    Args:
        data: A list of ``{"name", "node", "ip", "port", "protocol"}``.
        fabric: Where the nodes are.
        file: Named in errors.

    Raises:
        ScenarioError: It is not such a list, or names what the fabric does not have.
    """
    if not isinstance(data, list):
        raise ScenarioError("a list of services is expected", file=file)
    services = tuple(_service(item, index, fabric, file) for index, item in enumerate(data))
    for what, values in (
        ("name", [service.name for service in services]),
        ("address and port", [f"{service.ip}:{service.port}" for service in services]),
    ):
        for index, value in enumerate(values):
            if value in values[:index]:
                raise ScenarioError(f"two services have the {what} {value!r}", file=file, key=f"[{index}]")
    return services


def _service(item: object, index: int, fabric: Fabric, file: str | None) -> Service:
    def refuse(reason: str, key: str | None = None) -> ScenarioError:
        return ScenarioError(reason, file=file, key=f"[{index}].{key}" if key else f"[{index}]")

    if not isinstance(item, dict):
        raise refuse("a service is an object")
    for key in item:
        if key not in _KEYS:
            raise refuse(f"unknown key; a service has {', '.join(_KEYS)}", str(key))
    for key in _KEYS[:4]:
        if key not in item:
            raise refuse("missing", key)
    name, node_name, ip, port = (item[key] for key in _KEYS[:4])
    protocol = item.get("protocol", "tcp")
    if not isinstance(name, str) or not name:
        raise refuse(f"{name!r} is not a name", "name")
    node = fabric.by_name.get(node_name) if isinstance(node_name, str) else None
    if node is None:
        raise refuse(f"there is no node {node_name!r} in the fabric {fabric.name!r}", "node")
    if node.role not in _SERVERS or node.ip is None:
        roles = " or ".join(role.value for role in _SERVERS)
        raise refuse(f"{node.name!r} has the role {node.role.value}; services are offered by {roles} nodes", "node")
    try:
        address = str(IPv4Address(ip)) if isinstance(ip, str) else ""
    except AddressValueError:
        address = ""
    if not address:
        raise refuse(f"{ip!r} is not an IPv4 address", "ip")
    if address != str(node.ip.ip):
        raise refuse(f"{address} is not the address of {node.name} ({node.ip.ip})", "ip")
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65_535:
        raise refuse(f"{port!r} is not a TCP port, 1 to 65535", "port")
    if protocol != "tcp":
        raise refuse(f"{protocol!r} is not supported, only 'tcp'", "protocol")
    return Service(name, node.name, address, port, "tcp")


def storage_nodes(fabric: Fabric, services: Sequence[Service]) -> tuple[str, ...]:
    """Names of the nodes that traffic is storage traffic for: those of role storage and those with a service."""
    serving = {service.node for service in services}
    return tuple(node.name for node in fabric.hosts if node.role is Role.STORAGE or node.name in serving)
