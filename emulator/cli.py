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
from types import FrameType
from typing import Any, NoReturn

from emulator.arguments import parser
from emulator.errors import INTERRUPTED, EmulatorError, ExpectationFailed, HostError, InternalError


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
    arguments = parser().parse_args(argv)
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
