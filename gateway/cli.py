"""The command line of the data plane: ``forward``, ``proxy``, ``fast`` and ``ctl``.

The daemons print their final figures as one JSON line when they end. The control socket's file appears when they are
ready.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from emulator.errors import EmulatorError, HostError, ScenarioError
from gateway.client import request
from gateway.config import load_neighbours, load_station
from gateway.control import Op
from gateway.filter import MAX_PORTS, Instruction, without_tcp
from gateway.forward_daemon import Inputs, run_forward
from gateway.proxy_daemon import run_proxy

_NVME_AND_IPERF3 = frozenset({4420, 5201})
_LONGEST_WAIT_S = 1e6


def _ports(text: str) -> frozenset[int]:
    try:
        ports = frozenset(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of ports like 4420,5201") from None
    if not all(0 < port < 65536 for port in ports) or len(ports) > MAX_PORTS:
        raise argparse.ArgumentTypeError(f"{text!r}: up to {MAX_PORTS} ports from 1 to 65535")
    return ports


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= _LONGEST_WAIT_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0, at most {_LONGEST_WAIT_S:g}")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gateway", description="The data plane of an emulated node.")
    commands = parser.add_subparsers(dest="command", required=True)

    forward = commands.add_parser("forward", help="forward IPv4 packets of one interface through a station")
    forward.add_argument("--interface", required=True, help="where packets come in and go out")
    forward.add_argument("--neighbours", required=True, type=Path, help="JSON object: Ethernet address by IPv4 address")
    ignore = forward.add_mutually_exclusive_group()
    ignore.add_argument(
        "--ignore-tcp-ports", type=_ports, metavar="PORTS", help="leave TCP from and to these ports to the host's proxy"
    )
    ignore.add_argument("--ignore-tcp", action="store_true", help="leave all TCP to the host")
    forward.add_argument(
        "--ring-bytes", type=_positive, default=64 << 20, help="memory for packets (default: %(default)s)"
    )
    forward.add_argument(
        "--no-batch",
        action="store_true",
        help="send each packet at its own time, even while the interface's line is busy with those before it",
    )
    forward.add_argument(
        "--take-over",
        action="store_true",
        help="take the place of the daemon on the control socket: its ring with all packets, losing none",
    )

    proxy = commands.add_parser("proxy", help="terminate TCP and copy it through a station")
    proxy.add_argument("--listen", required=True, type=_positive, metavar="PORT", help="where intercepted TCP arrives")
    proxy.add_argument(
        "--ports",
        type=_ports,
        default=_NVME_AND_IPERF3,
        help="destination ports that are intercepted (default: 4420,5201, NVMe/TCP and iperf3)",
    )
    proxy.add_argument("--interface", help="intercept only what comes in here (default: anywhere)")
    proxy.add_argument(
        "--buffer-bytes",
        type=_positive,
        default=4 << 20,
        help="bytes held per direction before reading stops (default: %(default)s)",
    )

    fast = commands.add_parser("fast", help="forward as fast as can be: AF_XDP, batches, known flows in the kernel")
    fast.add_argument("--config", required=True, type=Path, help="JSON object: see docs/dataplane.md")
    fast.add_argument(
        "--take-over", action="store_true", help="take the place of the daemon on the control socket, losing no flow"
    )

    for command in (forward, proxy):
        command.add_argument("--station", required=True, type=Path, help="JSON object: the station's parameters")
    for command in (forward, proxy, fast):
        command.add_argument("--control", required=True, type=Path, help="path of the control socket")

    control = commands.add_parser("ctl", help="ask a running daemon")
    control.add_argument("op", choices=[op.value for op in Op])
    control.add_argument("--control", required=True, type=Path, help="path of its control socket")
    control.add_argument("--timeout", type=_seconds, default=30.0, metavar="S", help="seconds to wait (default: 30)")
    return parser


def _run(arguments: argparse.Namespace) -> dict[str, object]:
    if arguments.command == "ctl":
        return request(arguments.control, arguments.op, arguments.timeout)
    if arguments.command == "fast":
        # It needs numpy, which the other daemons would load for nothing.
        from gateway.fast.run import run_fast

        return run_fast(arguments.config, arguments.control, takes_over=arguments.take_over)
    if arguments.command == "proxy":
        model = load_station(arguments.station)
        if arguments.listen in arguments.ports:
            raise ScenarioError(f"port {arguments.listen} cannot be listened on and intercepted at once", key="--ports")
        return run_proxy(
            arguments.listen,
            arguments.ports,
            model,
            arguments.control,
            interface=arguments.interface,
            buffer_bytes=arguments.buffer_bytes,
        )
    accept: tuple[Instruction, ...] = ()
    if arguments.ignore_tcp or arguments.ignore_tcp_ports:
        accept = without_tcp(None if arguments.ignore_tcp else arguments.ignore_tcp_ports)
    return run_forward(
        arguments.interface,
        lambda: Inputs(load_station(arguments.station), load_neighbours(arguments.neighbours)),
        arguments.control,
        ring_bytes=arguments.ring_bytes,
        accept=accept,
        batch=not arguments.no_batch,
        takes_over=arguments.take_over,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; errors become one line and an exit code."""
    arguments = _parser().parse_args(argv)
    try:
        figures = _run(arguments)
    except EmulatorError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return _tell(json.dumps(figures) + "\n")


def _tell(text: str) -> int:
    """Print, and say so in one line if that cannot be; the exit code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What the interpreter still has to write at its end would fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0  # whoever read it has read enough
        sys.stderr.write(f"error: cannot write the output: {error.strerror}\n")
        return HostError.exit_code
    return 0
