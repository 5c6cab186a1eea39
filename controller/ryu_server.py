"""Listens for switches and serves their connections with Ryu's own handshake and parsers."""

from __future__ import annotations

from controller.green import eventlet  # first, it makes Ryu importable

# isort: split

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from ryu import cfg
from ryu.base import app_manager
from ryu.controller.controller import Datapath
from ryu.controller.ofp_handler import OFPHandler

from controller.core import Core
from controller.ryu_app import FabricApp

LOG = logging.getLogger("controller.switches")
_ACCEPT_PAUSE_S = 0.1
_SHOWN_CHARACTERS = 200


class Handshake(OFPHandler):  # type: ignore[misc]  # Ryu has no types
    """Ryu's own handshake, without its listening sockets: those are opened by the caller, who can report failure."""

    LOGGER_NAME = "ryu.handshake"

    def start(self) -> None:
        """Start handling events."""
        app_manager.RyuApp.start(self)


def _attend(sock: Any, address: Any) -> None:
    """Serve one switch's connection. What it sends is not trusted, and no message of it can end the controller."""
    try:
        with contextlib.closing(Datapath(sock, address)) as datapath:
            datapath.serve()
    except Exception as error:  # noqa: BLE001 - Ryu's parsers raise whatever a malformed message leads them to
        text = f"{type(error).__name__}: {error}"[:_SHOWN_CHARACTERS]
        LOG.warning("the connection from %s:%s is closed: malformed OpenFlow (%s)", *address[:2], text)


def serve(core: Core, sock: Any, crashed: Callable[[BaseException], None]) -> FabricApp:
    """Start the application on a listening socket.

    Args:
        core: Decides.
        sock: Green socket that listens for switches.
        crashed: Called once with an error that nobody expected.
    """
    cfg.CONF([], project="icgw", default_config_files=[], default_config_dirs=[])
    manager = app_manager.AppManager.get_instance()
    handshake = manager.instantiate(Handshake)
    app: FabricApp = manager.instantiate(FabricApp, core, crashed)
    handshake.start()
    app.start()

    def accept() -> None:
        while True:
            try:
                connection, address = sock.accept()
            except OSError as error:  # out of file descriptors, or the other side left already
                LOG.warning("cannot accept a switch's connection: %s", error.strerror)
                eventlet.sleep(_ACCEPT_PAUSE_S)
                continue
            eventlet.spawn_n(_attend, connection, address)

    eventlet.spawn_n(accept)
    return app


def close() -> None:
    """End the application and all connections; the switches keep their rules."""
    app_manager.AppManager.get_instance().close()
