"""What a VPC's policies let through, for all pairs at once.

Policies decide in order: highest priority first, and denials before permissions of the same priority. Which of them
apply to a source, and which to a destination, are sets of bits; what applies to a pair is their intersection, and pairs
with the same intersection share one answer. So the work grows with policies plus pairs. A policy that comes or goes
changes its bit, and tells whom it is about, so that nothing else needs another look.

The answer for a pair is a set of ports for each protocol, of which rules are made that only permit. Thus the order of
policies needs no priorities of rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from controller.tenancy import ports
from controller.tenancy.model import Endpoint, Policy, Protocol, ServiceKind, StorageService, VpcNode


@dataclass(frozen=True)
class Allowed:
    """What one node may open towards another.

    Attributes:
        tcp, udp: Destination ports.
        icmp: Any ICMP message.
    """

    tcp: ports.Ranges = ports.NONE
    udp: ports.Ranges = ports.NONE
    icmp: bool = False


NOTHING = Allowed()


def in_order(policies: Mapping[str, Policy]) -> list[tuple[str, Policy]]:
    """Policies in the order in which they decide."""
    return sorted(policies.items(), key=lambda item: _rank(*item))


def _rank(name: str, policy: Policy) -> tuple[int, bool, str]:
    return (-policy.priority, policy.action != "deny", name)


def go_on(_: int) -> None:
    """Do not pause."""


@dataclass
class Touched:
    """What a change of policies may have changed, by source.

    Attributes:
        nodes: Destinations among the nodes.
        doors: Endpoints.
    """

    nodes: dict[str, set[str]] = field(default_factory=dict)
    doors: dict[str, set[str]] = field(default_factory=dict)


class Verdicts:
    """The verdicts of one VPC, kept up as policies come, change and go.

    Args:
        policies: Those that apply in the VPC, by name.
        members: Its nodes by host.
        gates: Its endpoints by name.
        services: Its endpoints' services by name.
        pause: Called now and then with a measure of what was done since.

    Attributes:
        looked: How many policies were looked at for answers so far.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy],
        members: Mapping[str, VpcNode],
        gates: Mapping[str, Endpoint],
        services: Mapping[str, StorageService],
        pause: Callable[[int], None] = go_on,
    ) -> None:
        self._members, self._gates = members, gates
        self._kinds = {name: services[gate.service].kind for name, gate in gates.items()}
        self._known = dict(policies)
        self.looked = 0
        ordered = in_order(policies)
        pause(len(ordered))
        self._policies: list[Policy] = [policy for _, policy in ordered]
        self._ranks = [_rank(*item) for item in ordered]
        self._slots = {name: slot for slot, (name, _) in enumerate(ordered)}
        self._free: list[int] = []
        self._pairs: dict[int, Allowed] = {0: NOTHING}
        self._opened: dict[tuple[int, int], bool] = {}
        self._index(pause)

    def _index(self, pause: Callable[[int], None]) -> None:
        sources, targets, doors = _Bits(), _Bits(), _Bits()
        for number, policy in enumerate(self._policies):
            source, target = policy.source, policy.destination
            sources.add(number, source.nodes, source.groups, every=not (source.nodes or source.groups))
            every = not (target.nodes or target.groups or target.endpoints or target.kinds)
            targets.add(number, target.nodes, target.groups, every=every)
            if policy.protocol in (Protocol.TCP, Protocol.ANY):
                doors.add(number, target.endpoints, target.kinds, every=every)
            pause(1)
        self._sources = {host: sources.of(host, node.groups) for host, node in self._members.items()}
        self._targets = {host: targets.of(host, node.groups) for host, node in self._members.items()}
        self._doors = {name: doors.of(name, (kind,)) for name, kind in self._kinds.items()}

    def update(self, policies: Mapping[str, Policy]) -> Touched:
        """Take other policies; which verdicts may be others now."""
        touched = Touched()
        old, self._known = self._known, dict(policies)
        gone = [name for name in old if name not in policies]
        changed = [name for name, policy in policies.items() if (was := old.get(name)) is not policy and was != policy]
        for name in (*gone, *(name for name in changed if name in old)):
            slot = self._slots.pop(name)
            self._free.append(slot)
            for table, names in self._mark(self._policies[slot], touched):
                for each in names:
                    table[each] &= ~(1 << slot)
        for name in changed:
            slot = self._free.pop() if self._free else len(self._policies)
            if slot == len(self._policies):
                self._policies.append(policies[name])
                self._ranks.append(_rank(name, policies[name]))
            self._policies[slot], self._ranks[slot] = policies[name], _rank(name, policies[name])
            self._slots[name] = slot
            for table, names in self._mark(policies[name], touched):
                for each in names:
                    table[each] |= 1 << slot
        if touched.nodes or touched.doors:
            # A number may mean another policy now.
            self._pairs, self._opened = {0: NOTHING}, {}
        return touched

    def _mark(self, policy: Policy, touched: Touched) -> list[tuple[dict[str, int], list[str]]]:
        """Note what a policy is about; the tables in which it has a bit, and where."""
        source, target = policy.source, policy.destination
        froms = self._matching(source.nodes, source.groups, every=not (source.nodes or source.groups))
        every = not (target.nodes or target.groups or target.endpoints or target.kinds)
        nodes = self._matching(target.nodes, target.groups, every=every)
        doors: list[str] = []
        if policy.protocol in (Protocol.TCP, Protocol.ANY):
            doors = [
                name for name, kind in self._kinds.items() if every or name in target.endpoints or kind in target.kinds
            ]
        for host in froms:
            if nodes:
                touched.nodes.setdefault(host, set()).update(nodes)
            if doors:
                touched.doors.setdefault(host, set()).update(doors)
        return [(self._sources, froms), (self._targets, nodes), (self._doors, doors)]

    def _matching(self, names: Iterable[str], groups: Iterable[str], *, every: bool) -> list[str]:
        """The nodes that are named, or in one of the groups."""
        if every:
            return list(self._members)
        wanted = set(groups)
        found = {name for name in names if name in self._members}
        if wanted:
            found.update(host for host, node in self._members.items() if not wanted.isdisjoint(node.groups))
        return list(found)

    def between(self, source: str, target: str) -> Allowed:
        """What a node may open towards another one."""
        applicable = self._sources[source] & self._targets[target]
        found = self._pairs.get(applicable)
        if found is None:
            found = self._pairs[applicable] = self._decide(applicable)
        return found

    def opens(self, source: str, endpoint: str) -> bool:
        """Whether a node may connect to an endpoint."""
        applicable = self._sources[source] & self._doors[endpoint]
        port = self._gates[endpoint].port
        found = self._opened.get((applicable, port))
        if found is None:
            found = self._opened[applicable, port] = self._first(applicable, port)
        return found

    def _decide(self, applicable: int) -> Allowed:
        ranked: dict[Protocol, list[tuple[int, int, bool]]] = {Protocol.TCP: [], Protocol.UDP: []}
        undecided = {Protocol.TCP, Protocol.UDP, Protocol.ICMP}
        icmp = False
        for number in self._in_order(applicable):
            policy = self._policies[number]
            self.looked += 1
            allow = policy.action == "allow"
            for protocol in tuple(undecided):
                if policy.protocol not in (protocol, Protocol.ANY):
                    continue
                if protocol is Protocol.ICMP:
                    icmp = allow
                    undecided.discard(protocol)
                    continue
                ranked[protocol] += [(ports_.first, ports_.last, allow) for ports_ in policy.ports]
                if not policy.ports:
                    ranked[protocol].append((0, ports.LAST_PORT, allow))
                    undecided.discard(protocol)
            if not undecided:
                break
        return Allowed(ports.decide(ranked[Protocol.TCP]), ports.decide(ranked[Protocol.UDP]), icmp)

    def _in_order(self, applicable: int) -> list[int]:
        return sorted(_numbers(applicable), key=self._ranks.__getitem__)

    def _first(self, applicable: int, port: int) -> bool:
        for number in self._in_order(applicable):
            policy = self._policies[number]
            if not policy.ports or any(ports_.first <= port <= ports_.last for ports_ in policy.ports):
                return policy.action == "allow"
        return False


class _Bits:
    """Sets of policies, by what they name."""

    def __init__(self) -> None:
        self._every: list[int] = []
        self._named: dict[str, list[int]] = {}
        self._grouped: dict[str | ServiceKind, list[int]] = {}
        self._known: dict[str | ServiceKind, int] = {}

    def add(
        self, number: int, names: Iterable[str], groups: Iterable[str] | Iterable[ServiceKind], *, every: bool
    ) -> None:
        if every:
            self._every.append(number)
        for name in names:
            self._named.setdefault(name, []).append(number)
        for group in groups:
            self._grouped.setdefault(group, []).append(number)

    def of(self, name: str, groups: Iterable[str] | Iterable[ServiceKind]) -> int:
        """The policies that name something or one of its groups, or all there is."""
        if not self._known:
            self._known = {group: _bits(numbers) for group, numbers in self._grouped.items()}
            self._all = _bits(self._every)
        found = self._all | _bits(self._named.get(name, ()))
        for group in groups:
            found |= self._known.get(group, 0)
        return found


def _bits(numbers: Iterable[int]) -> int:
    listed = list(numbers)
    if not listed:
        return 0
    octets = bytearray((max(listed) >> 3) + 1)
    for number in listed:
        octets[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(octets, "little")


def _numbers(bits: int) -> Iterable[int]:
    """The members of a set, in order."""
    text = f"{bits:b}"[::-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)
