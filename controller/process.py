"""The controller as a process: sockets, signals, start and end."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import resource
import signal
import socket
import sys
from typing import Any

from controller import ryu_server as switches
from controller.assembly import Controller
from controller.config import Address
from controller.declared import Declared
from controller.driver import Driver
from controller.elector import Elector
from controller.gateways.connections import Connections
from controller.gateways.fleet import Fleet
from controller.green import eventlet
from controller.lease import Election
from controller.rest.api import Api
from controller.rest.server import serve as serve_rest
from controller.ryu_backend import LiveBackend
from controller.slices import Slices
from emulator.errors import INTERRUPTED, ControllerError, InternalError

LOG = logging.getLogger("controller")
_BACKLOG = 512


def run(controller: Controller) -> int:
    """Serve until SIGTERM or SIGINT.

    Returns:
        The exit code: 0 after SIGTERM, 130 after SIGINT.

    Raises:
        ControllerError: A port cannot be listened on.
        InternalError: The application met an error that nobody expected.
    """
    settings = controller.settings
    stop = eventlet.event.Event()

    def crashed(error: BaseException) -> None:
        if not stop.ready():
            stop.send_exception(InternalError(f"{type(error).__name__}: {error}"))

    _raise_open_files()
    openflow = _listen(settings.listen, "--listen")
    rest = _listen(settings.rest, "--rest")
    wake = _signals()
    elector: Elector | None = None
    try:
        addresses = {"openflow": str(_address(openflow)), "rest": str(_address(rest))}
        driver = Driver(controller.core, crashed)
        if controller.store is not None and controller.composer is not None:
            Declared(controller.store, controller.composer, driver, Slices(), eventlet.semaphore.Semaphore())
        app = switches.serve(driver)
        gateways = None
        if settings.gateways and controller.store is not None and controller.composer is not None:
            fleet = Fleet(controller.composer.site, settings.gateways, controller.store.state, driver.note)
            gateways = Connections(driver, fleet, Slices())
            controller.store.subscribe(gateways.declared)
            gateways.start()
        election = None
        if settings.redundant and controller.store is not None:
            election = Election(f"{addresses['rest']} ({os.getpid()})")
            elector = Elector(election, controller.store, driver)
            app.demoted = elector.lost
            eventlet.spawn_n(elector.run)
        backend = LiveBackend(driver, app, controller.ground, controller.store, election, gateways)
        switches.accept(openflow, len(controller.core.sessions))
        eventlet.spawn_n(serve_rest, Api(backend, settings.tokens), rest)
        eventlet.spawn_n(_wait_signal, wake, stop)
        LOG.info(
            "design %s on %s, %s: %d switches, %d entries; OpenFlow on %s, REST on %s",
            settings.design.value,
            settings.fabric.name,
            "all hosts may talk" if controller.store is None else "only what tenants' policies allow",
            len(controller.core.sessions),
            sum(len(session.tables.entries) for session in controller.core.sessions.values()),
            addresses["openflow"],
            addresses["rest"],
        )
        # What is there now mostly stays; looking for garbage among all of it would hold everything up now and then.
        gc.freeze()
        sys.stdout.write(json.dumps(addresses) + "\n")
        sys.stdout.flush()
        number: int = stop.wait()
    finally:
        openflow.close()
        rest.close()
        if elector is not None:
            elector.end()
    LOG.info("ended by %s; the switches keep their rules", signal.Signals(number).name)
    switches.close()
    return INTERRUPTED if number == signal.SIGINT else 0


def _raise_open_files() -> None:
    """Every connection is a file; the soft limit of a login shell is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


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
