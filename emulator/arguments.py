"""What may be asked of the ``icgw`` command: its commands, their arguments and options."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator import __version__

_EPILOG = """\
exit codes: 0 done; 2 bad input; 3 the host lacks something; 4 engine, link or node failed; 5 controller; 6 gateway;
7 workload; 20 ran well, but the scenario's expectations are not met; 70 a defect of icgw; 130 interrupted
"""


def parser() -> argparse.ArgumentParser:
    """All commands, their arguments and options."""
    found = argparse.ArgumentParser(
        prog="icgw",
        description="A packet-level network emulator for AI-computing fabrics, in virtual time.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--version", action="version", version=f"icgw {__version__}")
    found.add_argument("-v", "--verbose", action="store_true", help="show the log of what is done (standard error)")
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")

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
    return found


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
