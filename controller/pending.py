"""Requests that wait for a switch's answer, which may come in several parts. For green threads."""

from __future__ import annotations

from typing import Any

from controller.green import eventlet
from controller.rest.backend import NotConnected, Silent


class Pending:
    """Requests by connection and transaction id."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waiting: dict[tuple[Any, int], tuple[list[Any], Any]] = {}

    def send(self, datapath: Any, message: Any) -> list[Any]:
        """Send a request and wait for all parts of its answer.

        Raises:
            NotConnected: The connection ended first.
            Silent: No complete answer in time.
        """
        parts: list[Any] = []
        done = eventlet.event.Event()
        key = (datapath, datapath.set_xid(message))
        self._waiting[key] = (parts, done)
        try:
            if not datapath.send_msg(message):
                raise NotConnected(datapath.id)
            with eventlet.Timeout(self._timeout_s, Silent(datapath.id, self._timeout_s)):
                done.wait()
        finally:
            del self._waiting[key]
        return parts

    def answered(self, datapath: Any, message: Any, *, more: bool) -> None:
        """Take one part of an answer; ignored if nobody waits for it."""
        parts, done = self._waiting.get((datapath, message.xid), (None, None))
        if parts is None or done is None:
            return
        parts.append(message)
        if not more and not done.ready():
            done.send(None)

    def abandon(self, datapath: Any) -> None:
        """A connection is gone: nothing more will be answered on it."""
        for (owner, _), (_, done) in list(self._waiting.items()):
            if owner is datapath and not done.ready():
                done.send_exception(NotConnected(datapath.id))
