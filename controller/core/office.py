"""Whether this controller decides, and what it asks of the switches for that."""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.notes import Notes
from controller.core.session import SwitchSession
from controller.core.state import State
from controller.events import Command, ControllerRole, Deposed, Elected
from controller.journal import Kind


class Office:
    """This controller among those that share a store.

    Args:
        redundant: There are others; this one decides nothing until it is elected.
        sessions: By datapath id.
        note: Notes something in the journal.

    Attributes:
        active: Whether this controller does something to switches.
        generation: Of the controller that decides, as far as known.
    """

    def __init__(self, sessions: Mapping[int, SwitchSession], note: Notes, *, redundant: bool) -> None:
        self.active = not redundant
        self.generation = 0
        self._redundant = redundant
        self._sessions = sessions
        self._note = note

    @property
    def role(self) -> ControllerRole | None:
        """What to ask a switch for; None: nothing, as there is only one controller."""
        if not self._redundant:
            return None
        return ControllerRole.MASTER if self.active else ControllerRole.SLAVE

    def change(self, event: Elected | Deposed) -> list[Command]:
        """This controller was elected, or another one, or none."""
        self.active, self.generation = isinstance(event, Elected), event.generation
        if isinstance(event, Elected):
            message = f"this controller decides from now on (generation {event.generation})"
            self._note(Kind.CONTROLLER, message, role="active", generation=event.generation)
        else:
            message = f"this controller stands by: {event.reason}"
            self._note(Kind.CONTROLLER, message, role="standby", generation=event.generation)
        commands: list[Command] = []
        for session in self._sessions.values():
            if session.state is not State.ABSENT and self.role is not None:
                commands += session.claim(self.role, self.generation)
        return commands
