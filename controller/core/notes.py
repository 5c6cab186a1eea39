"""What the core notes in the journal, in words and in fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from controller.core.clock import Steady
from controller.core.links import NEVER_THERE, Usable
from controller.core.repair import Repair
from controller.core.session import SwitchSession
from controller.core.state import BUSY, State
from controller.events import PortChanged
from controller.journal import Journal, Kind, Severity

_TEXTS = {
    State.ABSENT: "disconnected",
    State.STANDBY: "has been told that this controller stands by",
    State.VERIFYING: "does not hold what it should: it is changed",
    State.READY: "holds what it should",
    State.FAILED: "",
}
_NS_PER_MS = 1e6


def _telling(reason: str | None) -> str | None:
    """Without switches, no link is worth a word."""
    return None if reason == NEVER_THERE else reason


class Notes:
    """Writes to a journal.

    Args:
        journal: Where to.
        clock: Says when.
    """

    def __init__(self, journal: Journal, clock: Steady) -> None:
        self._journal = journal
        self._clock = clock
        self._was_ready = False
        self._declared: list[str] = []

    def __call__(self, kind: Kind, message: str, severity: Severity = Severity.INFO, **fields: object) -> None:
        """Note anything."""
        self._journal.add(self._clock.now_ns, kind, message, severity=severity, **fields)

    def switch(self, session: SwitchSession, message: str, **fields: object) -> None:
        """Something is wrong with a switch."""
        self(Kind.SWITCH, message, Severity.WARNING, switch=session.name, **fields)

    def state(self, session: SwitchSession, before: State) -> None:
        """A switch is in another state than before."""
        text = _TEXTS.get(session.state)
        if text is None or (before is State.UPDATING and session.state is State.READY):
            return  # every change of a tenant would be seen here
        bad = session.state in (State.FAILED, State.ABSENT)
        message = f"{session.name}: {session.failure}" if session.failure else f"{session.name} {text}"
        severity = Severity.WARNING if bad else Severity.INFO
        self(Kind.SWITCH, message, severity, switch=session.name, state=session.state.value)

    def port(self, session: SwitchSession, event: PortChanged) -> None:
        """A port may be in another state than before."""
        port, known = event.port, session.ports.get(event.port.number)
        if event.present and known is not None and known.up == port.up:
            return
        what = "removed" if not event.present else "up" if port.up else "down"
        message = f"{session.name}: port {port.number} ({port.name}) {what}"
        severity = Severity.INFO if what == "up" else Severity.WARNING
        self(Kind.PORT, message, severity, switch=session.name, port=port.number, state=what)

    def links(self, before: Usable, after: Usable) -> None:
        """Links may be used, or not be used, that were not, or were."""
        if before is after:
            return
        for link in sorted({*before.reasons, *after.reasons}):
            old, new = (_telling(usable.reasons.get(link)) for usable in (before, after))
            if old == new:
                continue
            if new is None:
                self(Kind.LINK, f"{link} is used again", link=link, state="used")
            else:
                state = "down" if link in after.down else "avoided"
                self(Kind.LINK, f"{link} is {state}: {new}", Severity.WARNING, link=link, state=state, reason=new)

    def repaired(self, repair: Repair, ended_ns: int | None) -> None:
        """An update of groups may have ended; *ended_ns* is when the last one had."""
        if repair.ended_ns is None or repair.ended_ns == ended_ns or repair.begun_ns is None:
            return
        took_ns = repair.ended_ns - repair.begun_ns
        slow = f"; {', '.join(repair.slow)} did not confirm in time" if repair.slow else ""
        self(
            Kind.PATHS,
            f"paths were computed anew and are in use after {took_ns / _NS_PER_MS:.3f} ms{slow}",
            Severity.WARNING if slow else Severity.INFO,
            took_ns=took_ns,
            update=repair.count,
            slow=list(repair.slow),
        )

    def declared(self, note: str, switches: Sequence[str]) -> None:
        """Resources changed."""
        self(Kind.TENANCY, note, switches=list(switches))
        self._declared.append(note)

    def progress(self, sessions: Mapping[int, SwitchSession], ready: Callable[[], bool]) -> None:
        """Everything may be as it should now."""
        states = {session.state for session in sessions.values()}
        if self._declared and not states & set(BUSY):
            there = sum(session.state not in (State.ABSENT, State.FAILED) for session in sessions.values())
            where = "" if there == len(sessions) else f" in {there} of {len(sessions)} switches"
            self(Kind.TENANCY, f"installed{where}: {'; '.join(self._declared)}", changes=list(self._declared))
            self._declared.clear()
        if State.UPDATING in states:
            return
        is_ready = ready()
        if is_ready and not self._was_ready:
            entries = sum(len(session.tables.entries) for session in sessions.values())
            self(Kind.CONTROLLER, f"ready: {len(sessions)} switches, {entries} entries", ready=True)
        self._was_ready = is_ready
