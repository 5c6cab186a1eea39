"""The controller as a process: sockets, signals, start and end."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
from typing import Any

from controller import ryu_server as switches
from controller.config import Address, Settings
from controller.core import Core
from controller.designs import Plan
from controller.green import eventlet
from controller.rest.api import Api
from controller.rest.server import serve as serve_rest
from emulator.errors import INTERRUPTED, ControllerError, InternalError

LOG = logging.getLogger("controller")
_BACKLOG = 512


def run(settings: Settings, plan: Plan) -> int:
    """Serve until SIGTERM or SIGINT.

    Returns:
        The exit code: 0 after SIGTERM, 130 after SIGINT.

    Raises:
        ControllerError: A port cannot be listened on.
        InternalError: The application met an error that nobody expected.
    """
    stop = eventlet.event.Event()

    def crashed(error: BaseException) -> None:
        if not stop.ready():
            stop.send_exception(InternalError(f"{type(error).__name__}: {error}"))

    openflow = _listen(settings.listen, "--listen")
    rest = _listen(settings.rest, "--rest")
    wake = _signals()
    try:
        app = switches.serve(Core(plan), openflow, crashed)
        eventlet.spawn_n(serve_rest, Api(app), rest)
        eventlet.spawn_n(_wait_signal, wake, stop)
        ready = {"openflow": str(_address(openflow)), "rest": str(_address(rest))}
        LOG.info(
            "design %s on %s: %d switches, %d rules; OpenFlow on %s, REST on %s",
            plan.design.value,
            plan.fabric.name,
            len(plan.fabric.switches),
            len(plan.rules),
            ready["openflow"],
            ready["rest"],
        )
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        number: int = stop.wait()
    finally:
        openflow.close()
        rest.close()
    LOG.info("ended by %s; the switches keep their rules", signal.Signals(number).name)
    switches.close()
    return INTERRUPTED if number == signal.SIGINT else 0


def _listen(address: Address, option: str) -> Any:
    family = socket.AF_INET6 if address.is_ipv6 else socket.AF_INET
    try:
        # reuse_port would let a second controller listen on the same port and take half of the switches.
        return eventlet.listen((address.host, address.port), family, backlog=_BACKLOG, reuse_port=False)
    except OSError as error:
        raise ControllerError(f"{option}: cannot listen on {address}: {error.strerror or error}") from None


def _address(sock: Any) -> Address:
    host, port = sock.getsockname()[:2]
    return Address(host, port)


def _signals() -> int:
    """Turn SIGTERM and SIGINT into bytes on a pipe, because a signal alone does not wake the event loop."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return reader


def _wait_signal(reader: int, stop: Any) -> None:
    while not stop.ready():
        eventlet.hubs.trampoline(reader, read=True)
        for number in os.read(reader, 64):
            if number in (signal.SIGTERM, signal.SIGINT) and not stop.ready():
                stop.send(number)
