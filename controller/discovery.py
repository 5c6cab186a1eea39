"""Finds out by LLDP what is really connected to what, and compares it with the fabric. Pure.

Every interval is a *round*: each switch that is programmed sends a frame by each port that should lead to a switch, or
of which nothing is known. Frames are also sent at once when a switch or a port comes up. A link over which nothing was
heard in one of its directions for some rounds, although frames were sent, is *silent*; counting rounds instead of
seconds makes that indifferent to clocks that jump.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from controller.events import Port, SendPacket
from controller.lldp import BadFrame, Beacon, read_frame, write_frame
from emulator.model.fabric import Fabric

MOST_MISSED = 3
_REMEMBERED = 4
_NS = 10**9

End = tuple[int, int]
"""Datapath id and port."""


class What(str, Enum):
    """What was found."""

    WRONG = "wrong"
    RIGHT = "right"
    SILENT = "silent"
    HEARD = "heard"
    FORGED = "forged"
    STALE = "stale"


@dataclass(frozen=True)
class Finding:
    """Something that was found.

    Attributes:
        what: What.
        message: One line for people.
        fields: The same for programs.
    """

    what: What
    message: str
    fields: dict[str, object] = field(default_factory=dict)


@dataclass
class _Expected:
    """What a port should lead to."""

    end: End | None
    peer: str
    link: str
    missed: int = 0
    """Rounds in which the other end sent a frame and nothing has been heard since."""


class Discovery:
    """What is known about the links of one fabric.

    Args:
        fabric: The network.
        key: Secret for the frames.
        interval_ns: Time between rounds; 0: no frames are sent.

    Attributes:
        silent: Names of the links over which nothing is heard.
        wrong: Names of the links that are not where they should be.
    """

    def __init__(self, fabric: Fabric, key: bytes, interval_ns: int) -> None:
        self.interval_ns = interval_ns
        self.silent: frozenset[str] = frozenset()
        self.wrong: frozenset[str] = frozenset()
        self._key = key
        self._names = {node.dpid: node.name for node in fabric.switches if node.dpid is not None}
        dpids = {name: dpid for dpid, name in self._names.items()}
        self._expected: dict[End, _Expected] = {}
        for link in fabric.links:
            for here, port, there, peer_port in (
                (link.a, link.a_port, link.b, link.b_port),
                (link.b, link.b_port, link.a, link.a_port),
            ):
                if here in dpids:
                    far = (dpids[there], peer_port) if there in dpids else None
                    peer = f"{there} port {peer_port}" if far else f"the host {there}"
                    self._expected[dpids[here], port] = _Expected(far, peer, link.name)
        self._ports: dict[int, Mapping[int, Port]] = {}
        self._sent: dict[End, deque[int]] = {}
        self._serial = 0
        self._elsewhere: dict[End, tuple[End, int]] = {}
        """Where ports lead that should lead elsewhere, and rounds since that was heard last."""
        self._unheard: set[End] = set()
        """Ports that hear nothing from where they should."""
        self._waiting: dict[End, None] = {}
        self._next_ns: int | None = None

    # What happens to switches

    def ready(self, dpid: int, ports: Mapping[int, Port], now_ns: int) -> None:
        """A switch is programmed: it can send frames, and hand over those that come in."""
        self._ports[dpid] = dict(ports)
        for number, port in ports.items():
            if port.up:
                self._look_at((dpid, number))
        if self._next_ns is None and self.interval_ns:
            self._next_ns = now_ns + self.interval_ns

    def gone(self, dpid: int) -> None:
        """A switch can no longer be asked."""
        if self._ports.pop(dpid, None) is None:
            return
        self._forget(end for end in self._expected if end[0] == dpid)
        self._forget(end for end in list(self._elsewhere) if end[0] == dpid)
        self._sum_up()

    def set_ports(self, dpid: int, ports: Mapping[int, Port]) -> None:
        """Ports of a switch changed."""
        if dpid not in self._ports:
            return
        before, self._ports[dpid] = self._ports[dpid], dict(ports)
        for number in {*before, *ports}:
            was, now = before.get(number), ports.get(number)
            if now is not None and now.up and (was is None or not was.up):
                self._look_at((dpid, number))
            elif was is not None and was.up and (now is None or not now.up):
                self._forget([(dpid, number)])
        self._sum_up()

    # What is sent

    def next_ns(self) -> int | None:
        """When `send` should be called next; None: only after something happened."""
        return self._next_ns if self._ports else None

    def send(self, now_ns: int) -> tuple[list[SendPacket], list[Finding]]:
        """The frames that are to be sent now, and what follows from frames that did not come."""
        findings: list[Finding] = []
        if not self.interval_ns:
            self._waiting.clear()
            return [], findings
        if self._next_ns is not None and now_ns >= self._next_ns:
            self._next_ns = now_ns + self.interval_ns
            findings = list(self._end_round())
            for dpid, ports in self._ports.items():
                for number, port in ports.items():
                    if port.up:
                        self._waiting[dpid, number] = None
            for end in self._waiting:
                expected = self._expected.get(end)
                if expected is not None and expected.end is not None and self._can_hear(expected.end):
                    self._expected[expected.end].missed += 1
        frames = [self._frame(end) for end in self._waiting if self._speaks(end)]
        self._waiting.clear()
        return frames, findings

    def _frame(self, end: End) -> SendPacket:
        self._serial += 1
        self._sent.setdefault(end, deque(maxlen=_REMEMBERED)).append(self._serial)
        dpid, number = end
        lifetime_s = (MOST_MISSED + 1) * self.interval_ns // _NS + 1
        frame = write_frame(
            Beacon(dpid, number, self._serial),
            self._key,
            self._ports[dpid][number].mac,
            self._names.get(dpid, ""),
            lifetime_s,
        )
        return SendPacket(dpid, number, frame)

    # What comes

    def hear(self, dpid: int, port: int, data: bytes) -> list[Finding]:
        """A switch handed over an LLDP frame that came in by a port."""
        here = f"{self._names.get(dpid, f'{dpid:#x}')} port {port}"
        fields: dict[str, object] = {"switch": self._names.get(dpid, ""), "port": port}
        try:
            beacon = read_frame(data, self._key)
        except BadFrame as error:
            return [Finding(What.FORGED, f"LLDP came in at {here} that is not the controller's: {error}", fields)]
        far = (beacon.dpid, beacon.port)
        if beacon.serial not in self._sent.get(far, ()):
            return [Finding(What.STALE, f"an old LLDP frame of {self._name(far)} came in at {here}", fields)]
        end, expected = (dpid, port), self._expected.get((dpid, port))
        fields |= {"leads_to": self._name(far)}
        findings: list[Finding] = []
        if expected is not None and expected.end == far:
            if self._elsewhere.pop(end, None):
                findings.append(Finding(What.RIGHT, f"{here} leads to {expected.peer} again", fields))
            expected.missed = 0
            if end in self._unheard:
                self._unheard.discard(end)
                findings.append(Finding(What.HEARD, f"{here} hears {expected.peer} again", fields))
            if findings:
                self._sum_up()
            return findings
        known = self._elsewhere.get(end)
        self._elsewhere[end] = (far, 0)
        if known is None or known[0] != far:
            findings.append(Finding(What.WRONG, self._contradiction(end, far), fields))
        self._sum_up()
        return findings

    def problems(self) -> list[str]:
        """How what is found differs from the fabric."""
        found = [self._contradiction(end, far) for end, (far, _) in sorted(self._elsewhere.items())]
        for end in sorted(self._unheard - self._elsewhere.keys()):
            found.append(f"{self._name(end)} should lead to {self._expected[end].peer}, nothing is heard from there")
        return found

    # Inside

    def _name(self, end: End) -> str:
        dpid, port = end
        return f"{self._names.get(dpid, f'{dpid:#x}')} port {port}"

    def _contradiction(self, end: End, far: End) -> str:
        expected = self._expected.get(end)
        if expected is None:
            return f"{self._name(end)} should lead nowhere, leads to {self._name(far)}"
        return f"{self._name(end)} should lead to {expected.peer}, leads to {self._name(far)}"

    def _speaks(self, end: End) -> bool:
        """Whether a frame can and should be sent by a port: hosts get none."""
        port = self._ports.get(end[0], {}).get(end[1])
        expected = self._expected.get(end)
        return port is not None and port.up and (expected is None or expected.end is not None)

    def _can_hear(self, end: End) -> bool:
        port = self._ports.get(end[0], {}).get(end[1])
        return port is not None and port.up

    def _look_at(self, end: End) -> None:
        """Send a frame by a port, and have one sent to it, at once."""
        expected = self._expected.get(end)
        self._waiting[end] = None
        if expected is not None and expected.end is not None and self._can_hear(expected.end):
            self._waiting[expected.end] = None

    def _forget(self, ends: Iterator[End] | list[End]) -> None:
        for end in list(ends):
            self._elsewhere.pop(end, None)
            expected = self._expected.get(end)
            for either in (end, expected.end if expected else None):
                if either is not None and either in self._expected:
                    self._expected[either].missed = 0
                    self._unheard.discard(either)

    def _end_round(self) -> Iterator[Finding]:
        for end, (far, rounds) in list(self._elsewhere.items()):
            if rounds >= MOST_MISSED:
                del self._elsewhere[end]
                message = f"{self._name(end)} no longer leads to {self._name(far)}"
                yield Finding(What.RIGHT, message, {"switch": self._names.get(end[0], ""), "port": end[1]})
            else:
                self._elsewhere[end] = (far, rounds + 1)
        for end, expected in self._expected.items():
            if expected.missed >= MOST_MISSED and end not in self._unheard and end not in self._elsewhere:
                self._unheard.add(end)
                message = f"{self._name(end)} should lead to {expected.peer}, nothing is heard from there"
                fields = {"switch": self._names.get(end[0], ""), "port": end[1], "link": expected.link}
                yield Finding(What.SILENT, message, fields)
        self._sum_up()

    def _sum_up(self) -> None:
        self.silent = frozenset(self._expected[end].link for end in self._unheard)
        self.wrong = frozenset(self._expected[end].link for end in self._elsewhere if end in self._expected)
