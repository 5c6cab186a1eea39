"""What may talk to what, and why, told from the declared resources alone and not from rules made of them.

So it can be asked by people, and be held against what switches really do. It is about opening; what passes as an answer
is said in `controller.tenancy.access`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from controller.tenancy.checks import why_not_in
from controller.tenancy.ground import Ground
from controller.tenancy.groups import Ordered
from controller.tenancy.model import Endpoint, Policy, Protocol, VpcNode
from controller.tenancy.refusals import Refused, Why
from controller.tenancy.state import TenancyState

_LAST_PORT = 65_535
_PROTOCOLS = (Protocol.TCP, Protocol.UDP, Protocol.ICMP)


@dataclass(frozen=True)
class Translation:
    """What an endpoint stands for.

    Attributes:
        endpoint, service, node: Their names.
        ip, port: Where the client connects to.
        node_port: Port on the service's node.
    """

    endpoint: str
    service: str
    node: str
    ip: IPv4Address
    port: int
    node_port: int


@dataclass(frozen=True)
class Answer:
    """Whether a connection may be opened.

    Attributes:
        allowed: Whether it may.
        reason: Why, a sentence.
        policy: Name of the policy that decided, or None.
        vpc: The source's VPC, or None.
        translation: What an endpoint stands for, if the destination is one.
    """

    allowed: bool
    reason: str
    policy: str | None = None
    vpc: str | None = None
    translation: Translation | None = None


@dataclass(frozen=True)
class Probe:
    """One thing to try between nodes.

    Attributes:
        protocol: TCP, UDP or ICMP.
        port: Destination port; None with ICMP.
    """

    protocol: Protocol
    port: int | None = None


PING = Probe(Protocol.ICMP)


@dataclass(frozen=True)
class Cell:
    """One entry of a reachability matrix.

    Attributes:
        source: VPC and host.
        target: VPC, and host or endpoint.
        kind: ``node`` or ``endpoint``.
        ip: The target's address in its VPC.
        probe: What is tried.
        answer: What is predicted: whether the probe reaches *this* target.
    """

    source: tuple[str, str]
    target: tuple[str, str]
    kind: str
    ip: IPv4Address
    probe: Probe
    answer: Answer


def explain(
    state: TenancyState,
    ground: Ground,
    source: str,
    destination: str,
    protocol: Protocol | str = Protocol.TCP,
    port: int | None = None,
) -> Answer:
    """Say whether a host may open a connection, and why.

    Args:
        state: What is declared.
        ground: The fabric.
        source: A host, or ``vpc/host``.
        destination: As seen from the source: a node or endpoint of its VPC by name or address; or ``vpc/name``.
        protocol: ``tcp``, ``udp`` or ``icmp``.
        port: Destination port; not with ICMP, and with an endpoint's name it is the endpoint's by default.

    Raises:
        Refused: The question names what does not exist, or cannot be understood.
    """
    probe = _probe(protocol, port)
    host, vpc = _source(state, ground, source)
    if vpc is None:
        return Answer(False, f"{host} is in no VPC, and only nodes of VPCs open connections.")
    found = _destination(state, ground, vpc, destination, probe)
    if isinstance(found, Answer):
        return found
    name, target = found
    ordered = Ordered(state, vpc)
    if isinstance(target, Endpoint):
        return _to_endpoint(state, ordered, vpc, host, name, probe)
    return _to_node(state, ordered, vpc, host, name, probe)


def matrix(state: TenancyState, probes: Iterable[Probe] = (PING,)) -> Iterator[Cell]:
    """Every node against every other node with each probe, and against every endpoint with the endpoint's own port.

    Targets in other VPCs are included: nothing reaches them, though the address may mean something else nearer by.
    """
    tries = tuple(probes)
    orders = {vpc: Ordered(state, vpc) for vpc in state.vpcs}
    for vpc, host in sorted(state.nodes):
        ordered = orders[vpc]
        for (other, name), node in sorted(state.nodes.items()):
            if (vpc, host) == (other, name):
                continue
            for probe in tries:
                answer = _to_node(state, ordered, vpc, host, name, probe) if vpc == other else _apart(vpc, other)
                yield Cell((vpc, host), (other, name), "node", node.ip, probe, answer)
        for (other, name), gate in sorted(state.endpoints.items()):
            probe = Probe(Protocol.TCP, gate.port)
            answer = _to_endpoint(state, ordered, vpc, host, name, probe) if vpc == other else _apart(vpc, other)
            yield Cell((vpc, host), (other, name), "endpoint", gate.ip, probe, answer)


def _apart(vpc: str, other: str) -> Answer:
    return Answer(False, f"VPC {vpc} and VPC {other} are apart, whatever their addresses.", vpc=vpc)


def _probe(protocol: Protocol | str, port: int | None) -> Probe:
    try:
        known = Protocol(protocol)
    except ValueError:
        known = Protocol.ANY
    if known not in _PROTOCOLS:
        raise Refused(Why.INVALID, f"{str(protocol)[:40]!r} is not tcp, udp or icmp", "protocol")
    if known is Protocol.ICMP and port is not None:
        raise Refused(Why.INVALID, "icmp has no ports", "port")
    if port is not None and not 1 <= port <= _LAST_PORT:
        raise Refused(Why.INVALID, f"{port} is not a port, 1 to {_LAST_PORT}", "port")
    return Probe(known, port)


def _source(state: TenancyState, ground: Ground, source: str) -> tuple[str, str | None]:
    vpc, slash, host = source.rpartition("/")
    if not ground.exists(host):
        raise Refused(Why.MISSING, f"there is no host {host[:80]!r} in the fabric", "src")
    home = state.home(host)
    if slash and home != vpc:
        if vpc not in state.vpcs:
            raise Refused(Why.MISSING, f"there is no VPC {vpc[:80]!r}", "src")
        raise Refused(Why.MISSING, f"{host} is not in VPC {vpc}", "src")
    return host, home


def _destination(
    state: TenancyState, ground: Ground, vpc: str, destination: str, probe: Probe
) -> tuple[str, VpcNode | Endpoint] | Answer:
    other, slash, name = destination.rpartition("/")
    if slash and other not in state.vpcs:
        raise Refused(Why.MISSING, f"there is no VPC {other[:80]!r}", "dst")
    owner = other if slash else vpc
    try:
        ip = IPv4Address(name)
    except ValueError:
        node, gate = state.members(owner).get(name), state.gates(owner).get(name)
        if node and gate:
            detail = f"{name} is a node and an endpoint of VPC {owner}; give the address instead"
            raise Refused(Why.INVALID, detail, "dst") from None
        if node or gate:
            return _apart(vpc, owner) if owner != vpc else (name, node or gate)  # type: ignore[return-value]
        if slash or not ground.exists(name):
            detail = f"VPC {owner} has no node or endpoint {name[:80]!r}"
            raise Refused(Why.MISSING, detail, "dst") from None
        home = state.home(name)
        if home is not None:
            return _apart(vpc, home)
        return Answer(False, f"{name} is in no VPC; services are reached through endpoints.", vpc=vpc)
    if owner != vpc:
        return _apart(vpc, owner)
    return _at(state, vpc, ip, probe)


def _at(state: TenancyState, vpc: str, ip: IPv4Address, probe: Probe) -> tuple[str, VpcNode | Endpoint] | Answer:
    """What has an address in a VPC."""
    for host, node in state.members(vpc).items():
        if node.ip == ip:
            return host, node
    gates = {name: gate for name, gate in state.gates(vpc).items() if gate.ip == ip}
    for name, gate in sorted(gates.items()):
        if probe.protocol is not Protocol.TCP or probe.port in (gate.port, None):
            return name, gate
    if gates:
        return Answer(False, f"No endpoint of VPC {vpc} has {ip} with port {probe.port}.", vpc=vpc)
    reason = why_not_in(state.vpcs[vpc].cidrs, ip) or f"nothing in VPC {vpc} has the address {ip}"
    return Answer(False, f"{reason[0].upper()}{reason[1:]}.", vpc=vpc)


def _to_node(state: TenancyState, ordered: Ordered, vpc: str, source: str, target: str, probe: Probe) -> Answer:
    if source == target:
        return Answer(True, f"{source} is the source itself, so nothing leaves it.", vpc=vpc)
    if probe.port is None and probe.protocol is not Protocol.ICMP:
        raise Refused(Why.INVALID, f"{probe.protocol.value} to a node goes to a port", "port")
    members = state.members(vpc)
    for name, policy in ordered.policies:
        target_named = _names_node(policy, target, members[target])
        if target_named and _from(policy, source, members[source]) and _about(policy, probe):
            return _decided(name, policy, vpc, None)
    return Answer(False, ordered.silence, vpc=vpc)


def _to_endpoint(state: TenancyState, ordered: Ordered, vpc: str, source: str, name: str, probe: Probe) -> Answer:
    gate = state.gates(vpc)[name]
    service = state.services[gate.service]
    translation = Translation(name, gate.service, service.node, gate.ip, gate.port, service.port)
    if probe.protocol is not Protocol.TCP:
        reason = f"Endpoint {name} is a TCP port; it does not answer {probe.protocol.value}."
        return Answer(False, reason, vpc=vpc, translation=translation)
    if probe.port not in (gate.port, None):
        return Answer(False, f"Endpoint {name} has port {gate.port}, not {probe.port}.", vpc=vpc)
    node = state.members(vpc)[source]
    for policy_name, policy in ordered.policies:
        target = policy.destination
        everything = not (target.nodes or target.groups or target.endpoints or target.kinds)
        named = everything or name in target.endpoints or service.kind in target.kinds
        if named and _from(policy, source, node) and _about(policy, Probe(Protocol.TCP, gate.port)):
            return _decided(policy_name, policy, vpc, translation)
    return Answer(False, ordered.silence, vpc=vpc, translation=translation)


def _decided(name: str, policy: Policy, vpc: str, translation: Translation | None) -> Answer:
    verb = "allows" if policy.action == "allow" else "denies"
    reason = f"Policy {name} (priority {policy.priority}) {verb} it."
    return Answer(policy.action == "allow", reason, name, vpc, translation)


def _from(policy: Policy, host: str, node: VpcNode) -> bool:
    source = policy.source
    if not source.nodes and not source.groups:
        return True
    return host in source.nodes or any(group in source.groups for group in node.groups)


def _names_node(policy: Policy, host: str, node: VpcNode) -> bool:
    target = policy.destination
    if not (target.nodes or target.groups or target.endpoints or target.kinds):
        return True
    return host in target.nodes or any(group in target.groups for group in node.groups)


def _about(policy: Policy, probe: Probe) -> bool:
    if policy.protocol not in (probe.protocol, Protocol.ANY):
        return False
    if not policy.ports:
        return True
    return probe.port is not None and any(ports.first <= probe.port <= ports.last for ports in policy.ports)
