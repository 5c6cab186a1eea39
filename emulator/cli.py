"""The ``icgw`` command: check, plan, run, collective, report, host, clean.

Figures go to standard output, progress and errors to standard error. Exit codes are those of `emulator.errors`.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from emulator import __version__
from emulator.errors import INTERRUPTED, EmulatorError, ExpectationFailed, HostError, InternalError

_EPILOG = """\
exit codes: 0 done; 2 bad input; 3 the host lacks something; 4 engine, link or node failed; 5 controller; 6 gateway;
7 workload; 20 ran well, but the scenario's expectations are not met; 70 a defect of icgw; 130 interrupted
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="icgw",
        description="A packet-level network emulator for AI-computing fabrics, in virtual time.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"icgw {__version__}")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the log of what is done (standard error)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        command.add_argument("--json", action="store_true", help="print JSON on standard output")
        return command

    check = add("check", "check scenario files without running them")
    check.add_argument("scenarios", nargs="+", type=Path, metavar="SCENARIO.yaml")

    plan = add("plan", "show nodes, links, addresses, profiles and predicted latency and capacity before a run")
    plan.add_argument("scenario", type=Path, metavar="SCENARIO.yaml")
    plan.add_argument("--variant", action="append", metavar="NAME", help="only this variant (may be repeated)")

    run = add("run", "run a scenario and write its results folder and report")
    run.add_argument("scenario", type=Path, metavar="SCENARIO.yaml")
    run.add_argument("--out", type=Path, metavar="FOLDER", help="results folder (default: results/<scenario>)")
    run.add_argument(
        "--engine", choices=("virtual", "native"), default="virtual", help="where it runs (default: virtual)"
    )
    run.add_argument("--variant", action="append", metavar="NAME", help="only this variant (may be repeated)")
    run.add_argument("--no-report", action="store_true", help="do not write report.html")
    run.add_argument("-q", "--quiet", action="store_true", help="no progress")

    _add_collective(add("collective", "run a collective on a topology and print its figures as nccl-tests do"))

    report = add("report", "judge the claims and write report.html again from a results folder")
    report.add_argument("folder", type=Path, metavar="RESULTS")

    add("host", "show what this machine can run, and what to do about the rest")
    add("clean", "remove what ended runs left behind, and nothing else")
    return parser


def _add_collective(command: argparse.ArgumentParser) -> None:
    """Options of ``icgw collective``; those that nccl-tests have, too, are called as there."""
    command.add_argument(
        "collective",
        nargs="?",
        default="all_reduce",
        choices=("all_reduce", "reduce_scatter", "all_gather", "alltoall", "broadcast", "reduce"),
        help="what is computed (default: all_reduce)",
    )
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument("--topo", metavar="KIND,KEY=VALUE...", help="for example torus3d,x=4,y=4,z=4,rate=160 GB/s")
    where.add_argument("--scenario", type=Path, metavar="SCENARIO.yaml", help="take the topology of a scenario")
    command.add_argument("-b", "--minbytes", default="1M", metavar="SIZE", help="smallest size (default: 1M)")
    command.add_argument("-e", "--maxbytes", metavar="SIZE", help="largest size (default: the smallest)")
    command.add_argument("-f", "--stepfactor", type=int, default=2, metavar="N", help="from size to size (default: 2)")
    command.add_argument("--foretell", metavar="SIZE", help="predict larger sizes, too, up to this one")
    command.add_argument("-n", "--iters", type=int, default=5, metavar="N", help="repetitions that count (default: 5)")
    command.add_argument("-w", "--warmup_iters", type=int, default=1, metavar="N", help="before these (default: 1)")
    command.add_argument("-o", "--op", default="sum", metavar="OP", help="sum, min or max (default: sum)")
    command.add_argument("-d", "--datatype", default="float", metavar="TYPE", help="of numbers (default: float)")
    command.add_argument("-a", "--algorithm", default="auto", metavar="NAME", help="the schedule (default: auto)")
    command.add_argument("--ranks", nargs="+", metavar="HOST", help="roles and hosts by rank (default: all cards)")
    command.add_argument("--shape", metavar="8x8x4", help="grid of the ranks (default: as their names tell)")
    command.add_argument("--congestion", metavar="NAME", help="congestion control (default: reno)")
    command.add_argument("--buffer", metavar="SIZE", help="of each socket (default: 4 MiB)")
    command.add_argument("--reduce-rate", metavar="RATE", help="at which a card adds up; '0 bit/s': in no time")
    command.add_argument("--memory", default="4 GiB", metavar="SIZE", help="of the machine (default: 4 GiB)")
    command.add_argument("--wall", default="1800 s", metavar="TIME", help="real time at most (default: 1800 s)")
    command.add_argument("--out", type=Path, metavar="FOLDER", help="results folder (default: results/collective)")
    command.add_argument("--engine", choices=("virtual", "native"), default="virtual", help="where it runs")
    command.add_argument("-q", "--quiet", action="store_true", help="no progress")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; every error becomes one line and an exit code.

    Args:
        argv: The command; None: that of this process, which then ends, so that Ctrl-C has nothing left to end.
    """
    if argv is not None:
        return _main(argv)
    try:
        # Whoever has SIGINT ignored, as shells do for what runs in the background, keeps it so.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, _interrupt)
        return _main(None)
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stderr.write("error: interrupted\n")
        return INTERRUPTED
    finally:
        # From here on the interpreter runs what others registered for its end, and it handles no signals later on.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Begin to end at the first Ctrl-C; the ones that follow change nothing about it, wherever they come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _main(argv: Sequence[str] | None) -> int:
    _mend_streams()
    arguments = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.ERROR, format="%(levelname)s %(name)s: %(message)s"
    )
    status = _run_command(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        _discard_output()
        return status or _fail(arguments, HostError(f"cannot write the output: {error.strerror}"))
    return status


def _run_command(arguments: argparse.Namespace) -> int:
    """Run the command; whatever goes wrong becomes one line and its exit code."""
    try:
        return _COMMANDS[arguments.command](arguments)
    except EmulatorError as error:
        return _fail(arguments, error)
    except KeyboardInterrupt:
        return _fail(arguments, _Interrupted("interrupted"))
    except BrokenPipeError:
        # The reader of our output went away (``icgw plan … | head``): that is not an error.
        _discard_output()
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(arguments, HostError(f"{where}{error.strerror or error}"))
    except Exception as error:  # the last line of defence: a defect, said in one line
        logging.getLogger(__name__).debug("unexpected", exc_info=True)
        return _fail(arguments, InternalError(f"unexpected {type(error).__name__}: {error} (--verbose shows where)"))


class _Interrupted(EmulatorError):
    exit_code = INTERRUPTED


def _fail(arguments: argparse.Namespace, error: EmulatorError) -> int:
    # What a run found is printed already when its expectations turn out not to be met.
    if arguments.json and not isinstance(error, ExpectationFailed):
        with suppress(OSError):
            sys.stdout.write(json.dumps({"error": str(error), "exit_code": error.exit_code}) + "\n")
    with suppress(OSError):
        sys.stderr.write(f"error: {error}\n")
    return error.exit_code


def _mend_streams() -> None:
    """Make output possible whatever the caller closed, and whatever the locale can show."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - for the process's life
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    from emulator.experiment.console import discard_output

    discard_output()


def _print_json(data: Any) -> None:
    from emulator.experiment.commands import print_json

    print_json(data)


# Commands import what they need when they run, so that `icgw --help` and shell completion stay quick.


def _check(arguments: argparse.Namespace) -> int:
    from emulator.experiment.commands import check

    return check(arguments.scenarios, as_json=arguments.json)


def _plan(arguments: argparse.Namespace) -> int:
    from emulator.experiment.commands import plan

    return plan(arguments.scenario, variants=arguments.variant, as_json=arguments.json)


def _run(arguments: argparse.Namespace) -> int:
    from emulator.experiment.commands import run_scenario

    outcome = run_scenario(
        arguments.scenario,
        out=arguments.out,
        engine=arguments.engine,
        variants=arguments.variant,
        quiet=arguments.quiet,
        report=not arguments.no_report,
        command=("icgw", *sys.argv[1:]),
        as_json=arguments.json,
    )
    failed = [one for one in outcome.outcomes if not one.passed]
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise ExpectationFailed(f"{failed[0].variant}: {failed[0].reason}{more}")
    return 0


def _collective(arguments: argparse.Namespace) -> int:
    from emulator.experiment.collective import Request, run_collective, size_text

    given = {
        "collective": arguments.collective,
        "begin": size_text(arguments.minbytes),
        "end": size_text(arguments.maxbytes or arguments.minbytes),
        "factor": arguments.stepfactor,
        "foretell": size_text(arguments.foretell) if arguments.foretell else None,
        "iterations": arguments.iters,
        "warm_up": arguments.warmup_iters,
        "operation": arguments.op,
        "datatype": arguments.datatype,
        "algorithm": arguments.algorithm,
        "ranks": arguments.ranks,
        "shape": arguments.shape,
        "congestion": arguments.congestion,
        "buffer": arguments.buffer,
        "reduce_rate": arguments.reduce_rate,
    }
    wrong = run_collective(
        Request(
            arguments.topo,
            arguments.scenario,
            {key: value for key, value in given.items() if value is not None},
            arguments.memory,
            arguments.wall,
        ),
        out=arguments.out,
        engine=arguments.engine,
        quiet=arguments.quiet,
        command=("icgw", *sys.argv[1:]),
        as_json=arguments.json,
    )
    if wrong:
        raise ExpectationFailed(f"{wrong} numbers are wrong")
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from emulator.experiment.commands import report

    return report(arguments.folder, as_json=arguments.json)


def _host(arguments: argparse.Namespace) -> int:
    from emulator.engine.hostcheck import probe

    capabilities = probe()
    if arguments.json:
        _print_json([vars(one) for one in capabilities])
    else:
        from emulator.experiment.console import Output
        from emulator.experiment.tables import host_table

        Output().print(host_table(capabilities))
    return 0


def _clean(arguments: argparse.Namespace) -> int:
    from emulator.engine.virtual import clean

    removed = clean()
    if arguments.json:
        _print_json({"removed": [str(one) for one in removed]})
    else:
        for one in removed:
            sys.stdout.write(f"removed {one}\n")
        if not removed:
            sys.stdout.write("nothing was left behind\n")
    return 0


_COMMANDS = {
    "check": _check,
    "plan": _plan,
    "run": _run,
    "collective": _collective,
    "report": _report,
    "host": _host,
    "clean": _clean,
}

if __name__ == "__main__":
    raise SystemExit(main())
