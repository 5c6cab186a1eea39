"""What a question about a path means: names, and addresses as the source sees them, as hosts of the fabric."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address

from controller.rest.http import MOST_SHOWN, Problem
from controller.rest.schemas.fabric import Translation
from controller.tenancy.model import Endpoint
from controller.tenancy.state import TenancyState
from emulator.model.fabric import Fabric


@dataclass(frozen=True)
class Source:
    """Who asks.

    Attributes:
        host: Its name.
        vpc: Its VPC, or None.
        segment: The VLAN id that the VPC's packets carry in the fabric, or None.
    """

    host: str
    vpc: str | None = None
    segment: int | None = None


@dataclass(frozen=True)
class Destination:
    """Who is asked.

    Attributes:
        host: Who answers.
        translation: If it is asked through an endpoint.
    """

    host: str
    translation: Translation | None = None


def find_source(fabric: Fabric, state: TenancyState | None, text: str) -> Source:
    """Read a host, or ``vpc/host``.

    Raises:
        Problem: There is no such host, or it is not in that VPC.
    """
    vpc, slash, name = text.rpartition("/")
    _check_host(fabric, name, "src")
    home = state.home(name) if state else None
    if slash and vpc != home:
        raise Problem(400, f"{name} is not in a VPC {vpc[:MOST_SHOWN]!r}", parameter="src")
    return Source(name, home, state.vpcs[home].segment if state and home else None)


def find_destination(
    fabric: Fabric, state: TenancyState | None, source: Source, text: str, protocol: str, port: int | None
) -> Destination:
    """Read a host, or an endpoint or address as the source sees it.

    Args:
        fabric: The network.
        state: What tenants declared, or None.
        source: Who asks.
        text: A host; or a node or endpoint of the source's VPC by name or address, or ``vpc/name``.
        protocol: What is asked.
        port: Which port, or None. It tells endpoints of one address apart.

    Raises:
        Problem: There is nothing like that, or it cannot be asked so.
    """
    vpc, slash, name = text.rpartition("/")
    if slash and (source.vpc is None or vpc != source.vpc):
        detail = f"{source.host} is not in a VPC {vpc[:MOST_SHOWN]!r}, and no way leads from one VPC to another"
        raise Problem(400, detail, parameter="dst")
    try:
        ip = IPv4Address(name)
    except ValueError:
        return _named(fabric, state, source, name, protocol, port)
    return _addressed(fabric, state, source, ip, protocol, port)


def _named(
    fabric: Fabric, state: TenancyState | None, source: Source, name: str, protocol: str, port: int | None
) -> Destination:
    gate = state.gates(source.vpc).get(name) if state and source.vpc else None
    if state is None or gate is None:
        return Destination(_check_host(fabric, name, "dst"))
    if name in state.members(source.vpc or ""):
        detail = f"{name} is a node and an endpoint of VPC {source.vpc}; give the address instead"
        raise Problem(400, detail, parameter="dst")
    if protocol != "tcp" or port not in (None, gate.port):
        raise Problem(400, f"endpoint {name} is TCP port {gate.port}", parameter="port")
    return _behind(state, name, gate)


def _addressed(
    fabric: Fabric, state: TenancyState | None, source: Source, ip: IPv4Address, protocol: str, port: int | None
) -> Destination:
    if state is None or source.vpc is None:
        for node in fabric.hosts:
            if node.ip and node.ip.ip == ip:
                return Destination(node.name)
        raise Problem(400, f"no host of the fabric has the address {ip}", parameter="dst")
    for host, member in state.members(source.vpc).items():
        if member.ip == ip:
            return Destination(host)
    gates = sorted((gate.port, name, gate) for name, gate in state.gates(source.vpc).items() if gate.ip == ip)
    if not gates:
        raise Problem(400, f"nothing in VPC {source.vpc} has the address {ip}", parameter="dst")
    for number, name, gate in gates:
        if protocol == "tcp" and port in (None, number):
            return _behind(state, name, gate)
    ports = ", ".join(str(number) for number, _, _ in gates)
    raise Problem(400, f"endpoints of VPC {source.vpc} with {ip} are TCP port {ports}", parameter="port")


def _behind(state: TenancyState, name: str, gate: Endpoint) -> Destination:
    service = state.services[gate.service]
    return Destination(
        service.node,
        Translation(
            endpoint=name,
            service=gate.service,
            node=service.node,
            ip=str(gate.ip),
            port=gate.port,
            node_port=service.port,
        ),
    )


def _check_host(fabric: Fabric, name: str, parameter: str) -> str:
    node = fabric.by_name.get(name)
    if node is None or node.is_switch:
        raise Problem(400, f"there is no host {name[:80]!r} in the fabric", parameter=parameter)
    return name
