"""What packets that rules hand over tell: where links lead, and who does what he must not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from controller.alarms import Alarm, Alarms
from controller.discovery import Discovery, Finding, What
from controller.events import Command, Port, Reported
from controller.flows import Purpose, purpose_of
from controller.journal import Kind, Severity
from controller.tenancy.violations import Violation, violation_of
from emulator.model.fabric import Fabric


class Note(Protocol):
    """Notes something in the journal."""

    def __call__(self, kind: Kind, message: str, severity: Severity = Severity.INFO, **fields: object) -> None:
        """Note it."""


class Watch:
    """Discovery and alarms of one fabric.

    Args:
        fabric: The network.
        key: Secret for discovery.
        interval_ns: Time between rounds of discovery; 0: none.
        note: Notes something in the journal.

    Attributes:
        discovery: Where links lead.
        alarms: Reports of violations.
    """

    def __init__(self, fabric: Fabric, key: bytes, interval_ns: int, note: Note) -> None:
        self.discovery = Discovery(fabric, key, interval_ns)
        self.alarms = Alarms()
        self._note = note
        self._names = {node.dpid: node.name for node in fabric.switches if node.dpid is not None}
        self._hosts: dict[tuple[str, int], str] = {}
        for link in fabric.links:
            self._hosts[link.a, link.a_port] = link.b
            self._hosts[link.b, link.b_port] = link.a

    def ready(self, dpid: int, ports: Mapping[int, Port], now_ns: int) -> None:
        """A switch is programmed."""
        self.discovery.ready(dpid, ports, now_ns)

    def gone(self, dpid: int) -> None:
        """A switch can no longer be asked."""
        self.discovery.gone(dpid)

    def set_ports(self, dpid: int, ports: Mapping[int, Port]) -> None:
        """Ports of a switch changed."""
        self.discovery.set_ports(dpid, ports)

    def report(self, event: Reported, now_ns: int) -> None:
        """A rule handed a packet over."""
        violation = violation_of(event.cookie)
        if purpose_of(event.cookie) is Purpose.DISCOVER or violation is Violation.LLDP_FORGERY:
            findings = self.discovery.hear(event.dpid, event.port, event.data)
            false = [finding for finding in findings if finding.what in (What.FORGED, What.STALE)]
            self._tell(finding for finding in findings if finding not in false)
            if violation is None and false:
                violation = Violation.LLDP_FORGERY
            elif not false:
                # The controller's own frame: the port leads to a switch, which is what was found.
                return
        if violation is not None:
            self._alarm(self.alarms.report(event.dpid, event.port, violation, event.data, now_ns))

    def look(self, now_ns: int) -> list[Command]:
        """What is due."""
        self._alarm(self.alarms.due(now_ns))
        frames, findings = self.discovery.send(now_ns)
        self._tell(findings)
        return list(frames)

    def next_ns(self) -> int | None:
        """When `look` should be called; None: only after something happened."""
        times = (self.alarms.next_ns(), self.discovery.next_ns())
        return min((time for time in times if time is not None), default=None)

    def problems(self) -> list[str]:
        """How what is found differs from the fabric."""
        return self.discovery.problems()

    def _tell(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            bad = finding.what in (What.WRONG, What.SILENT)
            severity = Severity.WARNING if bad else Severity.INFO
            self._note(Kind.DISCOVERY, finding.message, severity, found=finding.what.value, **finding.fields)

    def _alarm(self, alarms: list[Alarm]) -> None:
        for alarm in alarms:
            switch = self._names.get(alarm.dpid, f"{alarm.dpid:#x}")
            node = self._hosts.get((switch, alarm.port))
            times = f" {alarm.count} times" if alarm.count > 1 else ""
            defect = f"; the packet {alarm.headers.defect}" if alarm.headers.defect else ""
            self._note(
                Kind.VIOLATION,
                f"{alarm.violation.slug}{times} by {node or 'somebody'} at {switch} port {alarm.port}: "
                f"{alarm.headers}{defect}",
                Severity.WARNING,
                reason=alarm.violation.slug,
                sentence=alarm.violation.sentence,
                switch=switch,
                port=alarm.port,
                node=node,
                count=alarm.count,
                packet=alarm.headers.fields(),
            )
