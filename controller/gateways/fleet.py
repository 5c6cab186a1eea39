"""The gateways' daemons that this controller tells what to do: how each of them is, and what happened to it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from controller.gateways.policies import Carried
from controller.gateways.session import GatewaySession, Phase
from controller.journal import Kind, Severity
from controller.tenancy.site import Site
from controller.tenancy.state import TenancyState
from controller.tenancy.verdicts import go_on
from emulator.messages.gateway import MAX_ENTRIES, Policies

Note = Callable[..., None]
"""Takes what `controller.journal.Journal.add` takes, without the time."""
_MOST_COMPLAINTS = 16
_TELLING = 1000
"""Saying all that a gateway is told takes as long as making so many rules, at most."""


@dataclass(frozen=True)
class GatewayStatus:
    """How a gateway is.

    Attributes:
        name: The host.
        socket: Where its daemon's control socket is.
        state: What the session with it waits for.
        mode: What kind of daemon it is; None: not known.
        revision: Of the policies that it has; None: not known.
        problem: Why it is not as wanted; None: it is, or is about to be.
        tenants, rules, routes: How many of them it is to have.
        connections, disconnections, refusals: Counts since the controller started.
    """

    name: str
    socket: str
    state: Phase
    mode: str | None
    revision: int | None
    problem: str | None
    tenants: int
    rules: int
    routes: int
    connections: int
    disconnections: int
    refusals: int


class Gateway:
    """One gateway: its session, and what of it is worth a line in the journal.

    Args:
        name: The host.
        socket: Where its daemon's control socket is.
        wanted: What it is to be told.
        note: Notes something in the journal.
    """

    def __init__(self, name: str, socket: str, wanted: Policies, note: Note) -> None:
        self.name = name
        self.socket = socket
        self.session = GatewaySession(name, wanted)
        self._note = note
        self._connections = self._disconnections = self._refusals = 0
        self._told: int | None = None
        self._failure: str | None = "not connected yet"
        self._refused: str | None = None
        self._complaints: set[str] = set()

    def connected(self) -> bytes:
        """The connection is there: returns what is to be sent."""
        self._connections += 1
        self._failure = None
        return self.session.connected()

    def received(self, data: bytes) -> bytes:
        """Bytes came: returns what is to be sent."""
        return self._looked(self.session.received(data))

    def want(self, policies: Policies) -> bytes:
        """It is to be told something else: returns what is to be sent."""
        return self._looked(self.session.want(policies))

    def lost(self, reason: str, *, expected: bool = False) -> None:
        """There is no connection, or no more.

        Args:
            reason: Why.
            expected: It is nobody's fault, so nothing to complain about.
        """
        self._disconnections += self.session.phase is not Phase.OFFLINE
        self.session.disconnected()
        self._failure, self._told, self._refused = reason, None, None
        if not expected:
            self._complain(f"gateway {self.name}: {reason}", Phase.OFFLINE)

    def cannot(self, reason: str) -> None:
        """What it should be told cannot be said; it keeps what it has."""
        self._complain(f"gateway {self.name}: {reason}", self.session.phase)

    def status(self) -> GatewayStatus:
        """How it is."""
        session, wanted = self.session, self.session.wanted
        return GatewayStatus(
            self.name,
            self.socket,
            session.phase,
            session.mode,
            session.revision,
            self._failure or session.problem,
            len(wanted.tenants),
            len(wanted.rules),
            len(wanted.routes),
            self._connections,
            self._disconnections,
            self._refusals,
        )

    def _looked(self, answer: bytes) -> bytes:
        session = self.session
        if session.phase is Phase.READY and self._told != session.revision:
            self._told, self._refused = session.revision, None
            self._complaints.clear()
            self._note(
                Kind.GATEWAY,
                f"gateway {self.name} ({session.mode}) has what it should: {len(session.wanted.rules)} rules, "
                f"revision {session.revision}",
                gateway=self.name,
                state=session.phase.value,
                rules=len(session.wanted.rules),
                revision=session.revision,
            )
        elif session.phase is Phase.REFUSED and session.problem != self._refused:
            self._refusals += 1
            self._refused, self._told = session.problem, None
            self._complain(session.problem or "", session.phase)
        return answer

    def _complain(self, message: str, state: Phase) -> None:
        """Say what is wrong, once until all is well again, however often it is tried."""
        if message in self._complaints:
            return
        if len(self._complaints) >= _MOST_COMPLAINTS:
            self._complaints.clear()
        self._complaints.add(message)
        self._note(Kind.GATEWAY, message, severity=Severity.WARNING, gateway=self.name, state=state.value)


class Fleet:
    """All gateways, and what each is to be told.

    Args:
        site: The fabric and who visits which node.
        sockets: Where the gateways' control sockets are, by the hosts' names.
        state: What is declared.
        note: Notes something in the journal.

    Attributes:
        gateways: By name, in the order given.
    """

    def __init__(self, site: Site, sockets: Mapping[str, str], state: TenancyState, note: Note) -> None:
        self._carried = Carried(site)
        self.gateways = {name: Gateway(name, socket, Policies(), note) for name, socket in sockets.items()}
        self.want(state)

    def want(
        self,
        state: TenancyState,
        send: Callable[[str, bytes], None] = lambda _name, _data: None,
        pause: Callable[[int], None] = go_on,
    ) -> None:
        """Other resources are declared.

        Args:
            state: What is declared.
            send: Sends something to a gateway, at once: after the next pause there may be another connection.
            pause: Called now and then with a measure of what was done since, as by `controller.tenancy.compile`.
        """
        self._carried.update(state, pause)
        for name, gateway in self.gateways.items():
            try:
                policies = self._carried.policies(name, pause)
            except ValidationError:
                gateway.cannot(f"has more than {MAX_ENTRIES} rules or routes, and keeps those that it had")
                continue
            data = gateway.want(policies)
            if data:
                send(name, data)
                pause(_TELLING)
