"""Accepts HTTP connections on a green socket, never more than can be served.

When there are too many, the one that has waited longest for its request makes room; if all are busy, the newcomer is
told to come back. So connections that say nothing keep nobody out.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Any

from controller.green import eventlet
from controller.rest.api import Api
from controller.rest.connection import MOST_UNREAD_BYTES, Connection, Gone, Outbox, Patience
from controller.rest.http import Problem
from controller.rest.streams import Streams

LOG = logging.getLogger("controller.rest")
MOST_CONNECTIONS = 512
_ACCEPT_PAUSE_S = 0.1
_FULL_TIMEOUT_S = 0.2


class Server:
    """The connections of one listening socket.

    Args:
        api: Answers.
        streams: Sends events as they happen.
        most: How many connections there may be.
        patience: How long clients may take.
        most_unread_bytes: How much of large answers may wait to be read.
    """

    def __init__(
        self,
        api: Api,
        streams: Streams | None = None,
        most: int = MOST_CONNECTIONS,
        patience: Patience = Patience(),  # noqa: B008  # it is immutable
        most_unread_bytes: int = MOST_UNREAD_BYTES,
    ) -> None:
        self._api = api
        self._streams = streams or Streams()
        self._most = most
        self._patience = patience
        self._outbox = Outbox(most_unread_bytes)
        self._open: dict[Connection, Any] = {}

    def run(self, sock: Any) -> None:
        """Answer for ever."""
        while True:
            try:
                connection, address = sock.accept()
            except OSError as error:  # out of file descriptors, or the other side left already
                LOG.warning("cannot accept a REST connection: %s", error.strerror)
                eventlet.sleep(_ACCEPT_PAUSE_S)
                continue
            self._admit(connection, address)

    def _admit(self, sock: Any, address: Any) -> None:
        served = Connection(sock, self._api, self._streams, self._patience, self._outbox)
        if len(self._open) >= self._most and not self._make_room():
            LOG.debug("REST connection from %s refused: there are %d", address[0], len(self._open))
            eventlet.spawn_n(_turn_away, served, sock)
            return
        self._open[served] = eventlet.spawn(self._attend, served, sock, address)

    def _make_room(self) -> bool:
        """End the connection that has waited longest, if it has waited long enough."""
        before = time.monotonic() - self._patience.room_s
        for connection, thread in self._open.items():
            if connection.waiting_since is not None and connection.waiting_since < before:
                thread.kill()
                self._open.pop(connection, None)  # if it was ended before it began
                return True
        return False

    def _attend(self, served: Connection, sock: Any, address: Any) -> None:
        try:
            served.serve()
        except (OSError, Gone) as error:
            LOG.debug("REST connection from %s ended: %s", address[0], error)
        except Exception as error:
            LOG.error("REST connection from %s failed: %s: %s", address[0], type(error).__name__, error)
            LOG.debug("the error above", exc_info=True)
        finally:
            self._open.pop(served, None)
            sock.close()


def _turn_away(served: Connection, sock: Any) -> None:
    with contextlib.suppress(OSError, Gone, eventlet.Timeout), eventlet.Timeout(_FULL_TIMEOUT_S):
        served.refuse(Problem(503, "there are too many connections", {"Retry-After": "1"}))
    sock.close()


def serve(api: Api, sock: Any) -> None:
    """Answer requests on a listening green socket, for ever."""
    Server(api).run(sock)
