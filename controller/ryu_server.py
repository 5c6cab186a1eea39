"""Listens for switches and serves their connections with Ryu's own handshake and parsers."""

from __future__ import annotations

from controller.green import eventlet  # first, it makes Ryu importable

# isort: split

import contextlib
import logging
import socket
from typing import Any

from ryu import cfg
from ryu.base import app_manager
from ryu.controller.controller import Datapath
from ryu.controller.handler import MAIN_DISPATCHER
from ryu.controller.ofp_handler import OFPHandler

from controller import ryu_addresses, ryu_strict
from controller.driver import Driver
from controller.ryu_app import FabricApp

LOG = logging.getLogger("controller.switches")
_ACCEPT_PAUSE_S = 0.1
_HANDSHAKE_S = 20.0
_MOST_UNREPLIED = 2
_ROOM = 1024
"""Connections beyond those of the fabric's switches."""
_SHOWN_CHARACTERS = 200


class Handshake(OFPHandler):  # type: ignore[misc]  # Ryu has no types
    """Ryu's own handshake, without its listening sockets: those are opened by the caller, who can report failure."""

    LOGGER_NAME = "ryu.handshake"

    def start(self) -> None:
        """Start handling events."""
        app_manager.RyuApp.start(self)


def serve(driver: Driver) -> FabricApp:
    """Start the application; switches can connect after `accept`."""
    ryu_strict.install()
    ryu_addresses.install()
    cfg.CONF([], project="icgw", default_config_files=[], default_config_dirs=[])
    # A peer that answers no echo for some intervals is gone, whatever TCP says.
    cfg.CONF.set_override("maximum_unreplied_echo_requests", _MOST_UNREPLIED)
    manager = app_manager.AppManager.get_instance()
    handshake = manager.instantiate(Handshake)
    app: FabricApp = manager.instantiate(FabricApp, driver)
    handshake.start()
    app.start()
    return app


def accept(sock: Any, switches: int) -> None:
    """Serve connections of a listening green socket from now on.

    Args:
        sock: The socket.
        switches: How many switches there should be; there is room for some times as many connections.
    """
    eventlet.spawn_n(_Door(sock, _ROOM + 4 * switches).run)


class _Door:
    """Lets connections in. When there are too many, the one that has been nobody for longest makes room."""

    def __init__(self, sock: Any, most: int) -> None:
        self._sock = sock
        self._most = most
        self._open: dict[Any, None] = {}
        """Connections in order of arrival."""
        self._crowded = False

    def run(self) -> None:
        """Let in whoever comes, until the socket is closed."""
        while True:
            try:
                connection, address = self._sock.accept()
            except OSError as error:  # out of file descriptors, or the other side left already
                if self._sock.fd.fileno() < 0:
                    return
                LOG.warning("cannot accept a switch's connection: %s", error.strerror)
                self._make_room()
                eventlet.sleep(_ACCEPT_PAUSE_S)
                continue
            if len(self._open) >= self._most:
                if not self._crowded:
                    LOG.warning("%d connections to the OpenFlow port: those that say nothing are closed", self._most)
                self._crowded = True
                if not self._make_room():
                    connection.close()
                    continue
            elif len(self._open) < self._most // 2:
                self._crowded = False
            eventlet.spawn_n(self._attend, connection, address)

    def _make_room(self) -> bool:
        for datapath in self._open:
            if datapath.state != MAIN_DISPATCHER:
                self._open.pop(datapath)
                _shut(datapath)
                return True
        return False

    def _attend(self, sock: Any, address: Any) -> None:
        """Serve one connection. What it sends is not trusted, and no message of it can end the controller."""
        datapath: Any = None
        timer: Any = None
        try:
            with contextlib.closing(Datapath(sock, address)) as datapath:
                self._open[datapath] = None
                timer = eventlet.spawn_after(_HANDSHAKE_S, _expect_switch, datapath)
                datapath.serve()
        except Exception as error:  # noqa: BLE001 - Ryu's parsers raise whatever a malformed message leads them to
            text = f"{type(error).__name__}: {error}"[:_SHOWN_CHARACTERS]
            LOG.warning("the connection from %s:%s is closed: malformed OpenFlow (%s)", *address[:2], text)
        finally:
            self._open.pop(datapath, None)
            if timer is not None:
                timer.cancel()
            with contextlib.suppress(OSError):
                sock.close()


def _expect_switch(datapath: Any) -> None:
    """Whoever does not say in time what switch he is has to leave."""
    if datapath.state != MAIN_DISPATCHER:
        LOG.warning("the connection from %s:%s is closed: no handshake in %g s", *datapath.address[:2], _HANDSHAKE_S)
        _shut(datapath)


def _shut(datapath: Any) -> None:
    datapath.close()
    with contextlib.suppress(OSError):
        datapath.socket.shutdown(socket.SHUT_RDWR)


def close() -> None:
    """End the application and all connections; the switches keep their rules."""
    app_manager.AppManager.get_instance().close()
