"""The proxy daemon: a proxy, its nft rules, timer, control socket and signals, from start to clean end."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.errors import GatewayError
from emulator.model.profile import StationModel
from gateway.control import ControlServer
from gateway.flow import size_buffers
from gateway.intercept import interception, original_destination, stop_intercepting
from gateway.loop import HeldSignals, Loop, StopSignals, When
from gateway.proxy import Proxy
from gateway.station import Station
from gateway.timer import CLOCK_MONOTONIC, Timer, use_exact_timers

if TYPE_CHECKING:
    from emulator.messages import gateway as messages

DRAIN_LIMIT_NS = 1_000_000_000
"""How long a receiver that does not read may hold up the end; then what is left for it is counted as discarded."""

_BACKLOG = 4096


class ProxyDaemon:
    """Proxies until it is told to stop.

    Args:
        listener: Listening, non-blocking socket.
        model: The node's core.
        control: Path of the control socket.
        destination: Where an accepted connection wanted to go.
        buffer_bytes: Bytes held in each direction of a connection.
        on_drain: Is called when no new connections are to come.
    """

    mode = "proxy"

    def __init__(
        self,
        listener: socket.socket,
        model: StationModel,
        control: Path,
        destination: Callable[[socket.socket], tuple[str, int]] = original_destination,
        buffer_bytes: int = 4 << 20,
        on_drain: Callable[[], None] = lambda: None,
    ) -> None:
        self._listener = listener
        self._model = model
        self._control_path = control
        self._destination = destination
        self._buffer_bytes = buffer_bytes
        self._on_drain = on_drain
        self._proxy: Proxy | None = None
        self._stopping = False
        self._draining = False
        self._answered = False
        self._drain_until_ns = 0

    def _running(self) -> Proxy:
        if self._proxy is None:
            raise RuntimeError("the proxy daemon is not running")
        return self._proxy

    def stats(self) -> dict[str, Any]:
        """See `Controlled`."""
        return self._running().as_json()

    def drain(self) -> None:
        """See `Controlled`."""
        self._answered = False
        if not self._draining:
            self._draining = True
            self._drain_until_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + DRAIN_LIMIT_NS
            self._on_drain()
            self._running().drain()

    def stop(self) -> None:
        """See `Controlled`."""
        self._stopping = True
        self.drain()

    def profile(self) -> dict[str, Any]:
        """See `Profiled`."""
        return asdict(self._running().station.model)

    def set_profile(self, profile: messages.Profile) -> None:
        """See `Profiled`."""
        self._running().station.change(StationModel(**profile.model_dump()))

    def run(self) -> dict[str, Any]:
        """Proxy until stopped by the control socket or a signal.

        Returns:
            The final figures.
        """
        with contextlib.ExitStack() as stack:
            loop = Loop()
            stack.callback(loop.close)
            timer = Timer(CLOCK_MONOTONIC)
            stack.callback(timer.close)
            loop.add(timer.fileno(), lambda _events: None, when=When.IDLE)
            proxy = Proxy(self._listener, Station(self._model), loop, self._destination, self._buffer_bytes)
            self._proxy = proxy
            stack.callback(proxy.cut)
            stack.enter_context(StopSignals(loop, self.stop))
            control = ControlServer(self._control_path, loop, self)
            stack.callback(control.close)
            self._loop(loop, timer, proxy, control)
            return self.stats()

    def _loop(self, loop: Loop, timer: Timer, proxy: Proxy, control: ControlServer) -> None:
        timer_fd = timer.fileno()
        armed: int | None = None
        while True:
            wanted = proxy.next_time_ns
            if self._draining and not self._answered:
                wanted = self._drain_until_ns if wanted is None else min(wanted, self._drain_until_ns)
            if wanted != armed:
                armed = wanted
                if wanted is None:
                    timer.disarm()
                else:
                    timer.arm(wanted)
            events = loop.wait_idle()
            now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            if any(fd == timer_fd for fd, _ in events):
                # It stays readable until it is armed anew.
                armed = 0
            loop.dispatch(events)
            proxy.advance(now_ns)
            if self._draining and not self._answered and (proxy.drained or now_ns >= self._drain_until_ns):
                self._answered = True
                if self._stopping:
                    proxy.cut()
                control.finished()
                if self._stopping:
                    return


def listen(port: int) -> socket.socket:
    """A listening socket on all addresses.

    Raises:
        GatewayError: The port cannot be had.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        size_buffers(listener)
        listener.setblocking(False)
        listener.bind(("0.0.0.0", port))  # noqa: S104 - intercepted packets keep their interface's address
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise GatewayError(f"cannot listen on port {port}: {error.strerror}") from None
    return listener


def allow_many_descriptors() -> None:
    """Raise the limit of open descriptors as far as allowed: each connection takes two."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run_proxy(
    port: int,
    ports: frozenset[int],
    model: StationModel,
    control: Path,
    *,
    interface: str | None = None,
    buffer_bytes: int = 4 << 20,
) -> dict[str, Any]:
    """Set up a transparent proxy in this network namespace and run it to its end.

    Args:
        port: Where it listens.
        ports: Destination ports that it intercepts.
        model: The node's core.
        control: Path of the control socket.
        interface: Intercept only what comes in here; None: anywhere.
        buffer_bytes: Bytes held in each direction of a connection.

    Returns:
        The final figures.

    Raises:
        GatewayError: Port or control socket cannot be had.
        CommandError: nft refuses the rules.
    """
    allow_many_descriptors()
    use_exact_timers()
    with HeldSignals(), contextlib.closing(listen(port)) as listener, interception(port, ports, interface):
        daemon = ProxyDaemon(
            listener,
            model,
            control,
            buffer_bytes=buffer_bytes,
            on_drain=lambda: stop_intercepting(port),
        )
        return daemon.run()
