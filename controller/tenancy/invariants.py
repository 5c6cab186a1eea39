"""What a valid state is, written down a second time: slow, complete, and without the index that changes are made with.

Files are checked with it when they are opened, and tests check every state that they reach.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

from controller.tenancy.checks import NOT_UNICAST, why_not_in
from controller.tenancy.ground import Ground
from controller.tenancy.index import Index
from controller.tenancy.kinds import Kind
from controller.tenancy.model import FIRST_SEGMENT, LAST_SEGMENT
from controller.tenancy.state import TenancyState


def problems(state: TenancyState, ground: Ground) -> list[str]:
    """Everything that is wrong with a state, a sentence each; empty: it is valid."""
    found = list(_vpcs(state))
    found += _nodes(state, ground)
    found += _services(state, ground)
    found += _endpoints(state)
    found += _policies(state)
    found += _books(state)
    return found


def _vpcs(state: TenancyState) -> Iterator[str]:
    for name, vpc in state.vpcs.items():
        if vpc.tenant not in state.tenants:
            yield f"VPC {name}: there is no tenant {vpc.tenant}"
        if vpc.segment is None or not FIRST_SEGMENT <= vpc.segment <= LAST_SEGMENT:
            yield f"VPC {name} has no segment"
        for cidr in vpc.cidrs:
            if any(cidr.overlaps(bad) for bad in NOT_UNICAST):
                yield f"VPC {name}: {cidr} has addresses that no host can have"
    yield from _doubles("segment", (vpc.segment for vpc in state.vpcs.values()))


def _nodes(state: TenancyState, ground: Ground) -> Iterator[str]:
    serving = {service.node for service in state.services.values()}
    for (vpc, host), node in state.nodes.items():
        where = f"node {vpc}/{host}"
        if vpc not in state.vpcs:
            yield f"{where}: there is no VPC {vpc}"
        elif problem := why_not_in(state.vpcs[vpc].cidrs, node.ip):
            yield f"{where}: {problem}"
        if problem := ground.against_member(host):
            yield f"{where}: {problem}"
        if host in serving:
            yield f"{where} offers a service"
    yield from _doubles("member", (host for _, host in state.nodes))
    yield from _doubles("address in a VPC", ((vpc, node.ip) for (vpc, _), node in state.nodes.items()))


def _services(state: TenancyState, ground: Ground) -> Iterator[str]:
    for name, service in state.services.items():
        if problem := ground.against_server(service.node):
            yield f"service {name}: {problem}"
        for vpc in service.vpcs or ():
            if vpc not in state.vpcs:
                yield f"service {name}: there is no VPC {vpc}"
    yield from _doubles("service at", ((service.node, service.port) for service in state.services.values()))


def _endpoints(state: TenancyState) -> Iterator[str]:
    taken = {(vpc, node.ip) for (vpc, _), node in state.nodes.items()}
    for (vpc, name), endpoint in state.endpoints.items():
        where = f"endpoint {vpc}/{name}"
        if vpc not in state.vpcs:
            yield f"{where}: there is no VPC {vpc}"
        elif problem := why_not_in(state.vpcs[vpc].cidrs, endpoint.ip):
            yield f"{where}: {problem}"
        if (vpc, endpoint.ip) in taken:
            yield f"{where}: {endpoint.ip} is a node's address"
        service = state.services.get(endpoint.service)
        if service is None:
            yield f"{where}: there is no service {endpoint.service}"
        elif service.vpcs is not None and vpc not in service.vpcs:
            yield f"{where}: the VPC may not use service {endpoint.service}"
    entries = [(vpc, endpoint) for (vpc, _), endpoint in state.endpoints.items()]
    yield from _doubles("endpoint for", ((vpc, endpoint.service) for vpc, endpoint in entries))
    yield from _doubles("endpoint at", ((vpc, endpoint.ip, endpoint.port) for vpc, endpoint in entries))


def _policies(state: TenancyState) -> Iterator[str]:
    for name, policy in state.policies.items():
        if policy.vpc is None:
            if policy.tenant not in state.tenants:
                yield f"policy {name}: there is no tenant {policy.tenant}"
            continue
        if policy.vpc not in state.vpcs:
            yield f"policy {name}: there is no VPC {policy.vpc}"
        for host in (*policy.source.nodes, *policy.destination.nodes):
            if (policy.vpc, host) not in state.nodes:
                yield f"policy {name}: VPC {policy.vpc} has no node {host}"
        for gate in policy.destination.endpoints:
            if (policy.vpc, gate) not in state.endpoints:
                yield f"policy {name}: VPC {policy.vpc} has no endpoint {gate}"


def _books(state: TenancyState) -> Iterator[str]:
    listed = {(kind, name if isinstance(name, tuple) else (name,)) for kind in Kind for name in state.table(kind)}
    if listed != state.versions.keys():
        yield "resources and versions differ"
        return
    if any(not isinstance(version, int) or not 0 < version <= state.change for version in state.versions.values()):
        yield "a version is not the number of a change"
    yield from _doubles("version", state.versions.values())
    if state.index != Index.build((key, resource) for _, key, _, resource in state.entries()):
        yield "the index is not that of the resources"


def _doubles(what: str, values: Iterable[Hashable]) -> Iterator[str]:
    for value, count in Counter(values).items():
        if count > 1:
            shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
            yield f"{what} {shown} exists {count} times"
