"""``python -m tests.bench.dataplane [--rounds N] [--seconds S] [--json FILE] [MODE …]``."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path

from rich.console import Console

from emulator.errors import EmulatorError, MissingCapability
from tests.bench.dataplane import calibrate, evidence, memory
from tests.bench.dataplane.bed import sweep_left_behind
from tests.bench.dataplane.interrupts import watch_signals
from tests.bench.dataplane.lock import only_one
from tests.bench.dataplane.modes import MODES, chosen
from tests.bench.dataplane.rates import SIZES
from tests.bench.dataplane.results import show
from tests.bench.dataplane.run import run
from tests.bench.dataplane.stored import read_results

_WIDTH = 150


def _rounds(text: str) -> int:
    if (rounds := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return rounds


def _positive(text: str) -> float:
    if not 0 < (number := float(text)) < math.inf:
        raise argparse.ArgumentTypeError("more than 0, and finite")
    return number


def _file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"no file can be made at {text}")
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.dataplane", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    compare = commands.add_parser("compare", help="rates, costs, delays and streams of all modes (the default)")
    compare.add_argument("modes", nargs="*", metavar="MODE", choices=[*MODES, []], help=f"which: {', '.join(MODES)}")
    compare.add_argument("--rounds", type=_rounds, default=3, help="default: %(default)s")
    compare.add_argument("--seconds", type=_positive, default=0.4, help="of each measurement (default: %(default)s)")
    compare.add_argument("--sizes", type=int, nargs="+", choices=list(SIZES), default=list(SIZES))
    compare.add_argument("--json", type=_file, help="write every round of every figure to this file")
    profile = commands.add_parser("calibrate", help="a short form of it, and a profile for scenarios from it")
    profile.add_argument("--rounds", type=_rounds, default=3, help="default: %(default)s")
    profile.add_argument("--seconds", type=_positive, default=0.3, help="of each measurement (default: %(default)s)")
    profile.add_argument("--out", type=Path, default=Path("calibrated.yaml"), help="default: %(default)s")
    again = commands.add_parser("show", help="the tables of what `compare --json` wrote, several files as one run")
    again.add_argument("files", nargs="+", type=Path, metavar="FILE")
    again.add_argument("--markdown", action="store_true", help="as docs/dataplane.md has them")
    flat = commands.add_parser("memory", help="memory of a daemon before and after many packets")
    flat.add_argument("modes", nargs="+", metavar="MODE", choices=list(memory.WATCHED))
    flat.add_argument("--packets", type=_positive, default=1e8, help="default: 10^8")
    where = commands.add_parser("evidence", help="where the kernel spends time on a mode, copying above all")
    where.add_argument("modes", nargs="*", metavar="MODE", choices=[*MODES, []])
    where.add_argument("--size", type=int, choices=list(SIZES), default=1500)
    return parser


def main() -> int:
    """Measure what was asked for. Everything that was made is removed, also on Ctrl-C."""
    arguments = _parser().parse_args(sys.argv[1:] or ["compare"])
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    watch_signals()
    try:
        if arguments.command == "show":
            show(read_results(arguments.files), console, markdown=arguments.markdown)
            return 0
        if os.geteuid() != 0:
            raise MissingCapability("root's rights", "run as root: it makes namespaces and loads BPF programs")
        with only_one():
            sweep_left_behind()
            return _run(arguments, console)
    except EmulatorError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: everything is removed\n")
        return 130


def _run(arguments: argparse.Namespace, console: Console) -> int:
    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    if arguments.command == "memory":
        return memory.report(arguments.modes, int(arguments.packets), console)
    if arguments.command == "evidence":
        looked_at = [mode for mode in chosen(arguments.modes) if arguments.modes or not mode.rates_only]
        return evidence.report(looked_at, arguments.size, console)
    if arguments.command == "calibrate":
        return calibrate.report(arguments.rounds, arguments.seconds, arguments.out, console, say)
    results = run(chosen(arguments.modes), arguments.rounds, arguments.seconds, arguments.sizes, say)
    show(results, console)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results.as_json(), indent=1) + "\n")
    return 1 if results.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
