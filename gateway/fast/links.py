"""Notices when interfaces come, change or go: AF_XDP sockets of an interface that is gone stay silent for ever."""

from __future__ import annotations

import errno
import socket

_LINK_GROUP = 1
_RECEIVE_BYTES = 1 << 16


class LinkWatch:
    """A netlink socket that becomes readable when an interface of this network namespace changes."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.bind((0, _LINK_GROUP))
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """For epoll."""
        return self._socket.fileno()

    def empty(self) -> None:
        """Read everything: what exactly changed is for others to find out. A flood of changes loses none of that."""
        while True:
            try:
                self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
