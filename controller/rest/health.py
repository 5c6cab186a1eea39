"""``/v1/health``: whether everything is as planned."""

from __future__ import annotations

from controller.core import State
from controller.rest.backend import Backend
from controller.rest.http import MOST_WAIT_MS, Request, Response, json_response
from controller.rest.parameters import Integer
from controller.rest.routes import Route, Success
from controller.rest.schemas.state import ControllerEntry, Health, RuleCounts, SwitchCounts

WAIT_MS = Integer(
    "wait_ms", "Waits until everything is as planned, or for so many milliseconds.", highest=MOST_WAIT_MS, default=0
)


class HealthResource:
    """Answers from the core's state."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._core = backend.core

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route(
                "GET",
                "/v1/health",
                self.health,
                "Whether everything is as planned",
                "controller",
                {200: Success("How it is, well or not.", Health)},
                parameters=(WAIT_MS,),
            )
        ]

    def health(self, request: Request) -> Response:
        """Whether everything is as planned; ``wait_ms`` waits for it."""
        wait_ms = WAIT_MS.read(request)
        if wait_ms:
            self._backend.wait_ready(wait_ms / 1000)
        sessions = self._core.sessions.values()
        installed = [session for session in sessions if session.state in (State.READY, State.UPDATING)]
        standing = self._backend.standing()
        return json_response(
            Health(
                ready=self._core.ready,
                design=self._core.plan.design.value,
                mode="open" if self._backend.store is None else "tenants",
                controller=ControllerEntry(name=standing.name, active=standing.active, holder=standing.holder),
                switches=SwitchCounts(
                    expected=len(self._core.sessions),
                    connected=sum(session.state is not State.ABSENT for session in sessions),
                    installed=len(installed),
                ),
                rules=RuleCounts(
                    planned=sum(len(session.program.rules) for session in sessions),
                    installed=sum(len(session.program.rules) for session in installed),
                ),
                strangers=tuple(sorted(self._core.strangers)),
                problems=tuple(self._core.problems()),
                states={session.name: session.state for session in sessions},
            )
        )
