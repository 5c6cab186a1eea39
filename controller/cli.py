"""The command line: ``python -m controller``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from controller import log
from controller.assembly import Controller
from controller.config import Settings, load_fabric, load_services, parse_address, parse_gateways, parse_interval
from controller.designs import Design
from controller.paths import Spread
from controller.rest.tokens import load_tokens
from emulator.errors import EmulatorError, ScenarioError

_EPILOG = """\
Once it listens, one line of JSON on standard output says where: {"openflow": "127.0.0.1:6653", "rest": ...}.

exit codes: 0 ended by SIGTERM, 2 bad arguments or files, 5 cannot listen, cannot plan,
or another controller uses the store, 70 internal error, 130 ended by Ctrl-C
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of the usage and a line."""
        raise ScenarioError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m controller",
        description="SDN controller of an emulated AI-computing fabric: OpenFlow 1.3 to the switches, REST to you.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--fabric", type=Path, required=True, metavar="FILE", help="the network, as JSON")
    parser.add_argument(
        "--design", required=True, choices=[design.value for design in Design], help="how storage traffic travels"
    )
    parser.add_argument("--services", type=Path, metavar="FILE", help="the storage services, as JSON; default: none")
    parser.add_argument(
        "--spread",
        default=Spread.HOSTS.value,
        choices=[spread.value for spread in Spread],
        help="over equal paths: each pair of hosts on one, the same there and back, or flow by flow (%(default)s)",
    )
    parser.add_argument("--listen", default="127.0.0.1:6653", metavar="ADDRESS:PORT", help="for switches (%(default)s)")
    parser.add_argument("--rest", default="127.0.0.1:8080", metavar="ADDRESS:PORT", help="for REST (%(default)s)")
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="keep tenants, VPCs and policies there; hosts may talk only where policies allow it (or :memory:)",
    )
    parser.add_argument("--tokens", type=Path, metavar="FILE", help="who may use REST, as JSON; default: this machine")
    parser.add_argument(
        "--redundant", action="store_true", help="share the store with another controller: one decides, one stands by"
    )
    parser.add_argument(
        "--balance", default="0", metavar="SECONDS", help="look at loads so often and move large flows (0: never)"
    )
    parser.add_argument(
        "--lldp-interval",
        default="10",
        metavar="SECONDS",
        help="look what is connected so often (%(default)s; 0: never)",
    )
    parser.add_argument(
        "--gateway",
        action="append",
        default=[],
        metavar="NAME=SOCKET",
        help="tell that gateway's daemon, at its control socket, what tenants may do (may be repeated)",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="log there instead of to standard error")
    parser.add_argument("--debug", action="store_true", help="log everything, tracebacks included")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the controller until a signal ends it; returns the exit code."""
    try:
        arguments = _parser().parse_args(argv)
        fabric = load_fabric(arguments.fabric)
        settings = Settings(
            fabric=fabric,
            design=Design(arguments.design),
            services=load_services(arguments.services, fabric) if arguments.services else (),
            spread=Spread(arguments.spread),
            listen=parse_address(arguments.listen, "--listen"),
            rest=parse_address(arguments.rest, "--rest"),
            store=arguments.store,
            tokens=load_tokens(arguments.tokens) if arguments.tokens else None,
            redundant=arguments.redundant,
            balance_interval_ns=parse_interval(arguments.balance, "--balance"),
            lldp_interval_ns=parse_interval(arguments.lldp_interval, "--lldp-interval"),
            gateways=parse_gateways(arguments.gateway, "--gateway"),
        )
        controller = Controller(settings)
        log.set_up(arguments.log, debug=arguments.debug)
        # Imported late: Ryu takes its time, and a wrong argument should not have to wait for it.
        from controller.process import run

        with closing(controller):
            return run(controller)
    except EmulatorError as error:
        sys.stderr.write(f"controller: {error}\n")
        return error.exit_code
