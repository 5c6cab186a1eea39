"""``/v1/flows``, ``/v1/groups``, ``/v1/counters``, ``/v1/violations``: what switches hold and count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controller.flows import FlowRule, Group, purpose_of
from controller.rest.backend import Backend
from controller.rest.http import Problem, Request, Response, json_response
from controller.rest.parameters import Dpid
from controller.rest.routes import Route, Success
from controller.rest.schemas.state import (
    BucketEntry,
    CountersAnswer,
    FlowEntry,
    Flows,
    GroupEntry,
    GroupsAnswer,
    Offender,
    PortCounters,
    RoleCounters,
    ViolationEntry,
    Violations,
)
from controller.stats import FlowStat, GroupStat, PortStat
from controller.tenancy.violations import Violation, violation_of
from emulator.model.fabric import Role

COUNTED = (
    *("rx_packets", "tx_packets", "rx_bytes", "tx_bytes"),
    *("rx_dropped", "tx_dropped", "rx_errors", "tx_errors", "duration_ns"),
)
_UNKNOWN = (1 << 64) - 1
"""What OpenFlow says of a counter that a port does not have."""
DPID = Dpid("dpid", "Only this switch; decimal, or hexadecimal with `0x`.")
_PROBLEMS = (404, 503, 504)


class SwitchResources:
    """Answers by asking switches."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._core = backend.core
        self._fabric = backend.core.plan.fabric
        self._peers: dict[tuple[str, int], tuple[str, str]] = {}
        for link in self._fabric.links:
            self._peers[link.a, link.a_port] = (link.b, link.b_interface)
            self._peers[link.b, link.b_port] = (link.a, link.a_interface)

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route("GET", f"/v1/{name}", handler, summary, "switches", {200: Success(meaning, model)},
                  parameters=(DPID,), problems=_PROBLEMS)
            for name, handler, summary, meaning, model in (
                ("flows", self.flows, "Flow entries as they are in the switches now", "The entries.", Flows),
                ("groups", self.groups, "Groups as they are in the switches now", "The groups.", GroupsAnswer),
                ("counters", self.counters, "Port counters, and sums by the role of who is there", "The counters.",
                 CountersAnswer),
                ("violations", self.violations, "What senders did that they must not, counted by reason",
                 "The counts.", Violations),
            )
        ]  # fmt: skip

    def flows(self, request: Request) -> Response:
        """Installed flow entries with counters, and whether each was planned."""
        entries: list[FlowEntry] = []
        for dpid in self._dpids(request):
            session = self._core.sessions[dpid]
            planned = {rule.key: rule for rule in session.program.rules}
            entries += [self._flow(dpid, session.name, stat, planned) for stat in self._backend.flows(dpid)]
        return json_response(Flows(flows=tuple(entries)))

    @staticmethod
    def _flow(dpid: int, switch: str, stat: FlowStat, planned: Mapping[Any, FlowRule]) -> FlowEntry:
        counts: dict[str, Any] = {"packets": stat.packets, "bytes": stat.bytes, "duration_ns": stat.duration_ns}
        rule = stat.rule
        if rule is None:
            return FlowEntry(dpid=dpid, switch=switch, planned=False, foreign=stat.ryu, **counts)
        wanted = planned.get(rule.key)
        purpose = purpose_of(rule.cookie)
        return FlowEntry(
            dpid=dpid,
            switch=switch,
            planned=wanted == rule,
            table=rule.table.name.lower(),
            priority=rule.priority,
            match=rule.match.set_fields(),
            actions=tuple(rule.texts),
            cookie=rule.cookie,
            purpose=purpose.name.lower() if purpose is not None else None,
            note=wanted.note if wanted else "",
            **counts,
        )

    def groups(self, request: Request) -> Response:
        """Installed groups with counters, and whether each was planned."""
        entries: list[GroupEntry] = []
        for dpid in self._dpids(request):
            session = self._core.sessions[dpid]
            planned = {group.number: group for group in session.program.groups}
            found = {group.number: group for group in self._backend.group_contents(dpid)}
            entries += [
                self._group(dpid, session.name, stat, found.get(stat.number), planned.get(stat.number))
                for stat in self._backend.groups(dpid)
            ]
        return json_response(GroupsAnswer(groups=tuple(entries)))

    @staticmethod
    def _group(dpid: int, switch: str, stat: GroupStat, group: Group | None, planned: Group | None) -> GroupEntry:
        # Between the two questions a group may have changed: then counters of buckets that are gone are left out.
        buckets = zip(group.buckets, stat.buckets, strict=False) if group else ()
        return GroupEntry(
            dpid=dpid,
            switch=switch,
            group=stat.number,
            planned=group is not None and group == planned,
            kind=group.kind.value if group else None,
            packets=stat.packets,
            bytes=stat.bytes,
            buckets=tuple(
                BucketEntry(port=bucket.port, weight=bucket.weight, packets=packets, bytes=octets)
                for bucket, (packets, octets) in buckets
            ),
            note=planned.note if planned else "",
        )

    def counters(self, request: Request) -> Response:
        """Port counters of the switches, with who is at the other end, and sums by the other end's role."""
        entries: list[PortCounters] = []
        roles: dict[str, dict[str, int]] = {}
        for dpid in self._dpids(request):
            session = self._core.sessions[dpid]
            for stat in self._backend.ports(dpid):
                interface = session.expected_ports.get(stat.port)
                if interface is None:
                    continue  # the switch's own port, or one that is not of the fabric
                peer, peer_interface = self._peers[session.name, stat.port]
                role = self._fabric.by_name[peer].role
                counts: dict[str, Any] = {name: _known(getattr(stat, name)) for name in COUNTED}
                entries.append(
                    PortCounters(
                        dpid=dpid,
                        switch=session.name,
                        port=stat.port,
                        interface=interface,
                        peer=peer,
                        peer_interface=peer_interface,
                        peer_role=role.value,
                        **counts,
                    )
                )
                _add(roles.setdefault(role.value, _zero()), stat)
        roles.pop(Role.SWITCH.value, None)  # every byte between switches would be counted twice
        sums = {role: RoleCounters(**total) for role, total in roles.items()}
        return json_response(CountersAnswer(ports=tuple(entries), roles=sums))

    def violations(self, request: Request) -> Response:
        """Dropped packets by reason, with the ports where they came in."""
        packets = dict.fromkeys(Violation, 0)
        octets = dict.fromkeys(Violation, 0)
        sources: dict[Violation, dict[tuple[str, int | None], int]] = {reason: {} for reason in Violation}
        for dpid in self._dpids(request):
            switch = self._core.sessions[dpid].name
            for stat in self._backend.flows(dpid):
                reason = violation_of(stat.rule.cookie) if stat.rule else None
                if stat.rule is None or reason is None:
                    continue
                packets[reason] += stat.packets
                octets[reason] += stat.bytes
                if stat.packets:
                    where = (switch, stat.rule.match.in_port)
                    sources[reason][where] = sources[reason].get(where, 0) + stat.packets
        reported = self._backend.tallies().violations
        return json_response(
            Violations(
                violations=tuple(
                    ViolationEntry(
                        reason=reason.slug,
                        sentence=reason.sentence,
                        packets=packets[reason],
                        bytes=octets[reason],
                        reported=reported.get(reason, 0),
                        sources=tuple(self._offender(*where, count) for where, count in sources[reason].items()),
                    )
                    for reason in Violation
                )
            )
        )

    def _offender(self, switch: str, port: int | None, packets: int) -> Offender:
        peer = self._peers.get((switch, port)) if port is not None else None
        return Offender(switch=switch, port=port, host=peer[0] if peer else None, packets=packets)

    def _dpids(self, request: Request) -> Iterable[int]:
        dpid = DPID.read(request)
        if dpid is None:
            return list(self._core.sessions)
        if dpid not in self._core.sessions:
            raise Problem(404, f"there is no switch with the datapath id {dpid:#x} in the fabric")
        return [dpid]


def _known(count: int) -> int | None:
    """A counter, or None: the port does not have it."""
    return None if count == _UNKNOWN else count


def _zero() -> dict[str, int]:
    return dict.fromkeys(("to_packets", "to_bytes", "from_packets", "from_bytes"), 0)


def _add(total: dict[str, int], stat: PortStat) -> None:
    total["to_packets"] += stat.tx_packets
    total["to_bytes"] += stat.tx_bytes
    total["from_packets"] += stat.rx_packets
    total["from_bytes"] += stat.rx_bytes
