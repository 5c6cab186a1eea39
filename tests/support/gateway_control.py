"""A control socket that is served in a thread, for tests of both its ends."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from gateway.control import ControlServer
from gateway.control_requests import Controlled
from gateway.loop import Loop


class Running:
    """A control server whose loop turns in a thread until something is written to `end`."""

    def __init__(self, path: Path, daemon: Controlled, listener: socket.socket | None = None) -> None:
        self.path = path
        self.daemon = daemon
        self.loop = Loop()
        self.server = ControlServer(path, self.loop, self.daemon, listener=listener)
        self.finish, wake = socket.socketpair()
        self._wake = wake
        self._ended = False
        self.loop.add(wake.fileno(), self._command)
        self.thread = threading.Thread(target=self._turn)
        self.thread.start()

    def _command(self, _events: int) -> None:
        if self._wake.recv(1) == b"f":
            self.server.finished()
            self._wake.send(b"!")
        else:
            self._ended = True

    def _turn(self) -> None:
        while not self._ended:
            self.loop.dispatch(self.loop.wait_idle())

    def finished(self) -> None:
        self.finish.send(b"f")
        assert self.finish.recv(1) == b"!"

    def close(self) -> None:
        self.finish.send(b"e")
        self.thread.join()
        self.server.close()
        self.loop.close()
        self.finish.close()
        self._wake.close()
