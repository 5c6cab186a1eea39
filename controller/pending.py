"""Requests that wait for a switch's answer, which may come in several parts. For green threads."""

from __future__ import annotations

from typing import Any

from controller.green import eventlet
from controller.rest.backend import Declined, NotConnected, Silent


class Pending:
    """Requests by connection and transaction id.

    Args:
        timeout_s: How long to wait for the next part of an answer.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waiting: dict[tuple[Any, int], tuple[list[Any], Any]] = {}
        self._changes: dict[tuple[Any, int], str] = {}

    def send(self, datapath: Any, message: Any) -> list[Any]:
        """Send a request and wait for all parts of its answer.

        Raises:
            NotConnected: The connection ended first.
            Silent: For too long nothing came.
            Declined: The switch answered with an error.
        """
        parts: list[Any] = []
        done = eventlet.event.Event()
        key = (datapath, datapath.set_xid(message))
        self._waiting[key] = (parts, done)
        try:
            if not datapath.send_msg(message):
                raise NotConnected(datapath.id)
            known = -1
            while not done.ready():
                # A long answer may take long; a switch that goes on answering is not silent.
                if len(parts) == known:
                    raise Silent(datapath.id, self._timeout_s)
                known = len(parts)
                with eventlet.Timeout(self._timeout_s, False):
                    done.wait()
            done.wait()  # raises what was sent
        finally:
            del self._waiting[key]
        return parts

    def change(self, datapath: Any, message: Any, barrier: Any) -> None:
        """Send a change and wait until it was done.

        Raises:
            NotConnected, Silent: As `send`.
            Declined: The switch refused it.
        """
        key = (datapath, datapath.set_xid(message))
        self._changes[key] = ""
        try:
            if not datapath.send_msg(message):
                raise NotConnected(datapath.id)
            self.send(datapath, barrier)
            if self._changes[key]:
                raise Declined(datapath.id, self._changes[key])
        finally:
            del self._changes[key]

    def answered(self, datapath: Any, message: Any, *, more: bool) -> None:
        """Take one part of an answer; ignored if nobody waits for it."""
        parts, done = self._waiting.get((datapath, message.xid), (None, None))
        if parts is None or done is None or done.ready():
            return
        parts.append(message)
        if not more:
            done.send(None)

    def refused(self, datapath: Any, xid: int, reason: str) -> bool:
        """A switch answered with an error; whether that was to something that waits for an answer."""
        key = (datapath, xid)
        if key in self._changes:
            self._changes[key] = self._changes[key] or reason
            return True
        _, done = self._waiting.get(key, (None, None))
        if done is None:
            return False
        if not done.ready():
            done.send_exception(Declined(datapath.id, reason))
        return True

    def abandon(self, datapath: Any) -> None:
        """A connection is gone: nothing more will be answered on it."""
        for (owner, _), (_, done) in list(self._waiting.items()):
            if owner is datapath and not done.ready():
                done.send_exception(NotConnected(datapath.id))
