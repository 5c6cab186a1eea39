"""Keeps a connection to each gateway's control socket, and carries bytes between it and the gateway's session."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

from controller.driver import Driver
from controller.gateways.fleet import Fleet, Gateway, GatewayStatus
from controller.gateways.session import GatewaySession, Phase
from controller.green import eventlet
from controller.rest.backend import AbsentGateway, Question, SilentGateway, answered
from controller.tenancy.state import TenancyState
from emulator.messages.gateway import Policies

ANSWER_S = 10.0
"""How long a daemon may take for an answer."""
CHECK_S = 10.0
"""Time between looks whether somebody else changed a gateway's policies."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_READ_BYTES = 1 << 16
STANDS_BY = "this controller stands by"


class Connections:
    """All gateways' connections, each with green threads of its own.

    Args:
        driver: Says whether this controller decides, and when something unexpected happened.
        fleet: The gateways.
        pause: Called now and then while it is worked out what they are told; others go on meanwhile.
    """

    def __init__(self, driver: Driver, fleet: Fleet, pause: Callable[[int], None]) -> None:
        self._fleet = fleet
        self._pause = pause
        self._driver = driver
        self._connections = {
            name: _Connection(gateway, lambda: driver.core.office.active) for name, gateway in fleet.gateways.items()
        }
        self._state: TenancyState | None = None
        self._changed = eventlet.event.Event()

    def start(self) -> None:
        """Begin; a controller that stands by does so without connections."""
        self._driver.office_changed = self._office_changed
        eventlet.spawn_n(self._guarded, self._tell)
        for connection in self._connections.values():
            eventlet.spawn_n(self._guarded, connection.run)

    def declared(self, _before: TenancyState, after: TenancyState) -> None:
        """Other resources are declared; for `controller.tenancy.store.Store.subscribe`."""
        self._state = after
        if not self._changed.ready():
            self._changed.send(None)

    def statuses(self) -> list[GatewayStatus]:
        """How the gateways are."""
        return [gateway.status() for gateway in self._fleet.gateways.values()]

    def policies(self, name: str) -> Policies:
        """What a gateway is to be told."""
        return self._fleet.gateways[name].session.wanted

    def statistics(self, name: str) -> dict[str, Any] | None:
        """A gateway's own figures, fresh; None: it is not connected, or is none that can be asked.

        Raises:
            SilentGateway: It did not answer in time.
        """
        try:
            answer = self._connections[name].ask(GatewaySession.statistics)
        except AbsentGateway:
            return None
        return _figures(answer)

    def ask(self, name: str, question: Question) -> dict[str, Any]:
        """A gateway's result for a question.

        Raises:
            AbsentGateway: It cannot be asked now.
            SilentGateway: It did not answer in time.
            GatewayDeclines: It answered with an error.
        """
        return answered(name, self._connections[name].ask(question))

    def _guarded(self, function: Callable[[], None]) -> None:
        with self._driver.guarded():
            function()

    def _tell(self) -> None:
        """Work out what gateways are to be told; of changes that come at the same time only the last one counts."""
        while True:
            self._changed.wait()
            self._changed = eventlet.event.Event()
            if self._state is not None:
                self._fleet.want(self._state, self._send, self._pause)

    def _send(self, name: str, data: bytes) -> None:
        self._connections[name].send(data)

    def _office_changed(self) -> None:
        for connection in self._connections.values():
            connection.office_changed()


class _Connection:
    """The connection to one gateway, again and again.

    Args:
        gateway: The gateway.
        active: Whether this controller decides.
    """

    def __init__(self, gateway: Gateway, active: Callable[[], bool]) -> None:
        self._gateway = gateway
        self._active = active
        self._woken = eventlet.event.Event()
        self._outbox: Any = None
        self._asked: dict[int, Any] = {}

    def run(self) -> None:
        """Connect for ever."""
        pause_s = _FIRST_PAUSE_S
        while True:
            if not self._active():
                self._gateway.lost(STANDS_BY, expected=True)
                self._woken = eventlet.event.Event()
                self._woken.wait()
                continue
            was_ready = self._connect()
            pause_s = _FIRST_PAUSE_S if was_ready else min(2 * pause_s, _LONGEST_PAUSE_S)
            self._woken = eventlet.event.Event()
            with eventlet.Timeout(pause_s, False):
                self._woken.wait()

    def send(self, data: bytes) -> None:
        """Send something, if there is a connection."""
        if data and self._outbox is not None:
            self._outbox.put(data)

    def office_changed(self) -> None:
        """This controller decides from now on, or no longer."""
        if self._outbox is not None and not self._active():
            self._outbox.put(None)
        if not self._woken.ready():
            self._woken.send(None)

    def ask(self, question: Question) -> dict[str, Any]:
        """A whole answer. Raises: AbsentGateway, SilentGateway."""
        gateway = self._gateway
        if self._outbox is None or gateway.session.mode is None:
            raise AbsentGateway(gateway.name, gateway.status().problem)
        number, line = question(gateway.session)
        answered = self._asked[number] = eventlet.event.Event()
        self.send(line)
        try:
            with eventlet.Timeout(ANSWER_S, False):
                answer: dict[str, Any] | None = answered.wait()
                if answer is None:
                    raise AbsentGateway(gateway.name, "the connection ended before it answered")
                return answer
        finally:
            self._asked.pop(number, None)
        raise SilentGateway(gateway.name, ANSWER_S)

    def _connect(self) -> bool:
        """Connect once, and stay as long as it goes; whether the gateway was told everything."""
        gateway = self._gateway
        reason = f"{gateway.socket}: cannot be connected to within {ANSWER_S:g} s"
        sock = None
        with eventlet.Timeout(ANSWER_S, False):
            try:
                sock = eventlet.connect(gateway.socket, family=socket.AF_UNIX)
            except OSError as error:
                reason = f"{gateway.socket}: {_words(error)}"
        if sock is None:
            gateway.lost(reason)
            return False
        self._outbox = eventlet.Queue()
        eventlet.spawn_n(self._write, sock, self._outbox)
        try:
            self._outbox.put(gateway.connected())
            was_ready, reason = self._read(sock)
        finally:
            # Nothing here may wait: at the controller's end there is nobody left to wake it.
            self._outbox.put(None)
            self._outbox = None
            sock.close()
            for answered in self._asked.values():
                answered.send(None)
            self._asked.clear()
        gateway.lost(reason, expected=not self._active())
        return was_ready

    def _read(self, sock: Any) -> tuple[bool, str]:
        """Take in what comes until the connection ends; whether all was well in between, and why it ended."""
        gateway, session = self._gateway, self._gateway.session
        was_ready = False
        while True:
            pending, data = session.oldest, None
            with eventlet.Timeout(CHECK_S if pending is None else ANSWER_S, False):
                try:
                    data = sock.recv(_READ_BYTES)
                except OSError as error:
                    return was_ready, f"{gateway.socket}: {_words(error)}"
            if not self._active():
                return was_ready, STANDS_BY
            if data:
                self.send(gateway.received(data))
                was_ready = was_ready or session.phase is Phase.READY
                self._answered(session.results)
            elif data is not None:
                return was_ready, f"{gateway.socket}: the daemon ended the connection"
            elif pending is not None and pending == session.oldest:
                return was_ready, f"{gateway.socket}: the daemon did not answer within {ANSWER_S:g} s"
            elif session.oldest is None:
                self.send(session.check())

    def _answered(self, results: dict[int, dict[str, Any]]) -> None:
        for number in list(results):
            answer = results.pop(number)
            waiting = self._asked.pop(number, None)
            if waiting is not None:
                waiting.send(answer)

    @staticmethod
    def _write(sock: Any, outbox: Any) -> None:
        """Send what is to be sent; None ends the connection. What goes wrong, the reader sees as well."""
        with contextlib.suppress(OSError):
            while (data := outbox.get()) is not None:
                sock.sendall(data)
            sock.shutdown(socket.SHUT_RDWR)


def _words(error: OSError) -> str:
    """What is wrong; eventlet has names of errors where the standard library has words."""
    return os.strerror(error.errno) if error.errno else str(error)


def _figures(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """The figures of an answer; None: it has none."""
    result = answer.get("result")
    found = result.get("stats") if isinstance(result, dict) else None
    return found if isinstance(found, dict) else None
