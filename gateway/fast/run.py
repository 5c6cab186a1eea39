"""From a file to a running fast gateway: opens the ports, takes another daemon's place, and serves to the end."""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from emulator.errors import GatewayError, ScenarioError
from gateway.dataplane.pipeline import Pipeline
from gateway.fast.config import FastConfig, PortKind, load_fast
from gateway.fast.daemon import FastDaemon
from gateway.fast.ports import Ports, open_ports
from gateway.fast.reader import Address
from gateway.fast.standby import Standby
from gateway.interface import host_addresses, refuse_kernel_forwarding
from gateway.loop import HeldSignals
from gateway.upgrade import Predecessor

_TRIES, _TRY_AGAIN_S = 500, 0.002
"""How long the kernel may take to let go of a queue."""


def run_fast(path: Path, control: Path, *, takes_over: bool = False) -> dict[str, Any]:
    """Set up a fast gateway and run it to its end.

    Args:
        path: Its configuration.
        control: Path of its control socket.
        takes_over: Take the place of the daemon that listens on *control*, without losing a flow.

    Returns:
        The final figures.

    Raises:
        ScenarioError: The configuration is wrong.
        GatewayError: A port, the offload or the control socket cannot be had, or there is no one to replace.
    """
    config = load_fast(path)
    refuse_kernel_forwarding()
    with HeldSignals():
        return _take_over(path, config, control) if takes_over else _serve(path, config, control)


def _take_over(path: Path, config: FastConfig, control: Path) -> dict[str, Any]:
    interfaces = [port.interface for port in config.ports]
    if config.kind is not PortKind.AF_XDP:
        raise ScenarioError(f"a daemon with {config.kind.value} ports cannot take over", file=str(path), key="mode")
    with contextlib.ExitStack() as stack:
        standby = Standby(interfaces, config.headroom_bytes)
        stack.callback(standby.close)
        before = stack.enter_context(Predecessor(control, FastDaemon.mode))
        if before.state["interfaces"] != interfaces:
            served = ", ".join(before.state["interfaces"])
            raise GatewayError(f"the daemon on {control} serves {served}, not {', '.join(interfaces)}")

        def started(daemon: FastDaemon) -> None:
            daemon.adopt(before.state)
            before.taken()
            daemon.forward(standby)

        return _serve(path, config, control, before.listener, started)


def _serve(
    path: Path,
    config: FastConfig,
    control: Path,
    listener: socket.socket | None = None,
    started: Callable[[FastDaemon], None] = lambda _daemon: None,
) -> dict[str, Any]:
    """Run a daemon, and another one if its successor failed."""
    own = host_addresses()
    steered = own - set(config.configuration.tunnel_ends)
    pipeline: Pipeline | None = None
    while True:
        ports = _open_when_free(config, steered, is_busy=listener is not None or pipeline is not None)
        offload, daemon = ports.offload, None
        try:
            if pipeline is None:
                try:
                    pipeline = Pipeline(config.for_host(ports.macs, own, ports.mtus))
                except ValueError as error:
                    raise ScenarioError(str(error), file=str(path)) from None
            daemon = FastDaemon(path, config, ports, pipeline, control, listener, started)
            figures = daemon.run()
            if not daemon.gave_up_ports and offload is not None and config.offload and not config.offload.stay:
                offload.withdraw()
        finally:
            if offload is not None:
                # Who never was ready leaves nothing behind, but for what was there before.
                began = daemon is not None and daemon.began
                offload.leave() if began or offload.adopted else offload.withdraw()
            ports.close()
        if daemon.handed_over or not daemon.gave_up_ports:
            return figures
        # The successor failed: the next daemon has what this one was told, and goes on.
        config, listener, started = daemon.config, None, partial(_go_on, daemon.handed)


def _go_on(state: Mapping[str, Any] | None, daemon: FastDaemon) -> None:
    if state is not None:
        daemon.adopt(state)


def _open_when_free(config: FastConfig, own: Collection[Address], *, is_busy: bool) -> Ports:
    """Open the ports; the kernel takes a moment to let go of a queue that another socket had.

    Raises:
        GatewayError: They cannot be had, or not in time.
    """
    for _ in range(_TRIES if is_busy else 0):
        try:
            return open_ports(config, own)
        except GatewayError as error:
            reason = error.__context__
            if not isinstance(reason, OSError) or reason.errno != errno.EBUSY:
                raise
        time.sleep(_TRY_AGAIN_S)
    return open_ports(config, own)
