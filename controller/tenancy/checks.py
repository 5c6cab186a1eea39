"""Whether a change leads from a valid state to a valid state. Each check looks only at what the change can break."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, NoReturn

from controller.tenancy.ground import Ground
from controller.tenancy.index import Relation
from controller.tenancy.kinds import Key, Kind, Resource, title
from controller.tenancy.model import (
    FIRST_SEGMENT,
    LAST_SEGMENT,
    Endpoint,
    Policy,
    StorageService,
    Vpc,
    VpcNode,
)
from controller.tenancy.refusals import Refused, Why

if TYPE_CHECKING:
    from controller.tenancy.state import TenancyState

NOT_UNICAST = tuple(IPv4Network(text) for text in ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3"))
"""This network, loopback, multicast and reserved: no host has such an address."""
_POINT_TO_POINT_BITS = 31
"""From this prefix length on, every address is a host's (RFC 3021)."""


@dataclass(frozen=True)
class Limits:
    """How many resources of a kind there may be. VPCs are limited by their segments.

    Attributes:
        tenants, nodes, services, endpoints, policies: The most of them.
    """

    tenants: int = 10_000
    nodes: int = 10_000
    services: int = 10_000
    endpoints: int = 10_000
    policies: int = 10_000


def check_put(state: TenancyState, kind: Kind, key: Key, new: Resource, ground: Ground, limits: Limits) -> Resource:
    """Check a resource that is to be declared.

    Returns:
        The resource, with what was left to be chosen.

    Raises:
        Refused: The state would not be valid.
    """
    _check_room(state, kind, key, limits)
    if kind.within_vpc and key[0] not in state.vpcs:
        raise Refused(Why.ABSENT, f"there is no VPC {key[0]}")
    if isinstance(new, Vpc):
        return _vpc(state, key[0], new)
    if isinstance(new, VpcNode):
        _node(state, key[0], key[1], new, ground)
    elif isinstance(new, StorageService):
        _service(state, key[0], new, ground)
    elif isinstance(new, Endpoint):
        _endpoint(state, key[0], key[1], new)
    elif isinstance(new, Policy):
        _policy(state, new)
    return new


def check_delete(state: TenancyState, kind: Kind, key: Key) -> None:
    """Check that nothing needs a resource.

    Raises:
        Refused: Something does; names it.
    """
    index, name = state.index, key[-1]
    users: list[tuple[Kind, Key]] = []
    if kind is Kind.TENANTS:
        users += [(Kind.VPCS, (vpc,)) for vpc in index.of(Relation.VPCS, name)]
        users += [(Kind.POLICIES, (policy,)) for policy in index.of(Relation.POLICIES, (kind, name))]
    elif kind is Kind.VPCS:
        users += [(Kind.NODES, (name, host)) for host in index.of(Relation.MEMBERS, name)]
        users += [(Kind.ENDPOINTS, (name, gate)) for gate in index.of(Relation.GATES, name)]
        users += [(Kind.POLICIES, (policy,)) for policy in index.of(Relation.POLICIES, (kind, name))]
        users += [(Kind.SERVICES, (service,)) for service in index.of(Relation.GRANTS, name)]
    elif kind is Kind.SERVICES:
        users += [(Kind.ENDPOINTS, user) for user in index.of(Relation.USERS, name)]
    elif kind in (Kind.NODES, Kind.ENDPOINTS):
        for policy, body in index.of(Relation.POLICIES, (Kind.VPCS, key[0])).items():
            named = (*body.source.nodes, *body.destination.nodes) if kind is Kind.NODES else body.destination.endpoints
            if name in named:
                users.append((Kind.POLICIES, (policy,)))
    if users:
        first = min(users)
        more = f" and {len(users) - 1} more" if len(users) > 1 else ""
        raise Refused(Why.CONFLICT, f"{title(kind, key)} is in use by {title(*first)}{more}")


def why_not_in(cidrs: Iterable[IPv4Network], ip: IPv4Address) -> str | None:
    """Why no host of a VPC can have an address; None: one can."""
    ranges = tuple(cidrs)
    cidr = next((cidr for cidr in ranges if ip in cidr), None)
    if cidr is None:
        return f"{ip} is not in the VPC's ranges ({', '.join(map(str, ranges[:3]))}{', …' if len(ranges) > 3 else ''})"
    if cidr.prefixlen < _POINT_TO_POINT_BITS:
        if ip == cidr.network_address:
            return f"{ip} is the network address of {cidr}"
        if ip == cidr.broadcast_address:
            return f"{ip} is the broadcast address of {cidr}"
    return None


def _check_room(state: TenancyState, kind: Kind, key: Key, limits: Limits) -> None:
    most = getattr(limits, kind.value, None)
    if most is not None and (kind, key) not in state.versions and len(state.table(kind)) >= most:
        raise Refused(Why.FULL, f"there are {most} {kind.value} already, which is the most there can be")


def _conflict(detail: str, field: str) -> NoReturn:
    raise Refused(Why.CONFLICT, detail, field)


def _vpc(state: TenancyState, name: str, new: Vpc) -> Vpc:
    if new.tenant not in state.tenants:
        raise Refused(Why.MISSING, f"there is no tenant {new.tenant}", "tenant")
    old = state.vpcs.get(name)
    if old is not None and old.tenant != new.tenant:
        _conflict(f"VPC {name} belongs to tenant {old.tenant}, and stays there", "tenant")
    for number, cidr in enumerate(new.cidrs):
        for bad in NOT_UNICAST:
            if cidr.overlaps(bad):
                raise Refused(Why.INVALID, f"{cidr} has addresses of {bad}, which no host can have", f"cidrs[{number}]")
    for host, node in state.members(name).items():
        if problem := why_not_in(new.cidrs, node.ip):
            _conflict(f"node {host} would not fit: {problem}", "cidrs")
    for gate, endpoint in state.gates(name).items():
        if problem := why_not_in(new.cidrs, endpoint.ip):
            _conflict(f"endpoint {gate} would not fit: {problem}", "cidrs")
    return _segmented(state, name, new, old)


def _segmented(state: TenancyState, name: str, new: Vpc, old: Vpc | None) -> Vpc:
    if new.segment is not None:
        for owner in state.index.of(Relation.SEGMENTS, new.segment):
            if owner != name:
                _conflict(f"segment {new.segment} belongs to VPC {owner}", "segment")
        return new
    if old is not None:
        return new.model_copy(update={"segment": old.segment})
    for segment in range(FIRST_SEGMENT, LAST_SEGMENT + 1):
        if not state.index.of(Relation.SEGMENTS, segment):
            return new.model_copy(update={"segment": segment})
    most = LAST_SEGMENT - FIRST_SEGMENT + 1
    raise Refused(Why.FULL, f"all {most} segments are in use, so there can be no more VPCs", "segment")


def _node(state: TenancyState, vpc: str, host: str, new: VpcNode, ground: Ground) -> None:
    if problem := ground.against_member(host):
        raise Refused(Why.CONFLICT if ground.exists(host) else Why.MISSING, problem, "name")
    home = state.home(host)
    if home is not None and home != vpc:
        _conflict(f"{host} is in VPC {home}, and a node is in one VPC only", "name")
    for service in state.index.of(Relation.OFFERS, host):
        _conflict(f"{host} offers service {service}, so no VPC can have it", "name")
    if problem := why_not_in(state.vpcs[vpc].cidrs, new.ip):
        raise Refused(Why.INVALID, problem, "ip")
    for other in state.index.of(Relation.PLACES, (vpc, new.ip)):
        if other != host:
            _conflict(f"{new.ip} is the address of node {other}", "ip")
    for gate, endpoint in state.gates(vpc).items():
        if endpoint.ip == new.ip:
            _conflict(f"{new.ip} is the address of endpoint {gate}", "ip")


def _service(state: TenancyState, name: str, new: StorageService, ground: Ground) -> None:
    if problem := ground.against_server(new.node):
        raise Refused(Why.CONFLICT if ground.exists(new.node) else Why.MISSING, problem, "node")
    home = state.home(new.node)
    if home is not None:
        _conflict(f"{new.node} is in VPC {home}, so it cannot offer services", "node")
    for other in state.index.of(Relation.SOCKETS, (new.node, new.port)):
        if other != name:
            _conflict(f"port {new.port} of {new.node} is that of service {other}", "port")
    if new.vpcs is None:
        return
    for number, vpc in enumerate(new.vpcs):
        if vpc not in state.vpcs:
            raise Refused(Why.MISSING, f"there is no VPC {vpc}", f"vpcs[{number}]")
    allowed = set(new.vpcs)
    for vpc, gate in sorted(state.index.of(Relation.USERS, name)):
        if vpc not in allowed:
            _conflict(f"VPC {vpc} uses the service (endpoint {vpc}/{gate})", "vpcs")


def _endpoint(state: TenancyState, vpc: str, name: str, new: Endpoint) -> None:
    service = state.services.get(new.service)
    if service is None:
        raise Refused(Why.MISSING, f"there is no service {new.service}", "service")
    if service.vpcs is not None and vpc not in service.vpcs:
        _conflict(f"VPC {vpc} may not use service {new.service}", "service")
    if problem := why_not_in(state.vpcs[vpc].cidrs, new.ip):
        raise Refused(Why.INVALID, problem, "ip")
    for host in state.index.of(Relation.PLACES, (vpc, new.ip)):
        _conflict(f"{new.ip} is the address of node {host}", "ip")
    for other, endpoint in state.gates(vpc).items():
        if other == name:
            continue
        if endpoint.service == new.service:
            _conflict(f"endpoint {other} is for service {new.service} already, and a VPC has one for each", "service")
        if (endpoint.ip, endpoint.port) == (new.ip, new.port):
            _conflict(f"endpoint {other} has {new.ip}:{new.port} already", "port")


def _policy(state: TenancyState, new: Policy) -> None:
    if new.vpc is None:
        # A tenant's policy applies in each of its VPCs, and a name means something in one of them perhaps.
        if new.tenant not in state.tenants:
            raise Refused(Why.MISSING, f"there is no tenant {new.tenant}", "tenant")
        return
    if new.vpc not in state.vpcs:
        raise Refused(Why.MISSING, f"there is no VPC {new.vpc}", "vpc")
    members, gates = state.members(new.vpc), state.gates(new.vpc)
    for path, names, known, what in (
        ("source.nodes", new.source.nodes, members, "node"),
        ("destination.nodes", new.destination.nodes, members, "node"),
        ("destination.endpoints", new.destination.endpoints, gates, "endpoint"),
    ):
        for number, name in enumerate(names):
            if name not in known:
                raise Refused(Why.MISSING, f"VPC {new.vpc} has no {what} {name}", f"{path}[{number}]")
