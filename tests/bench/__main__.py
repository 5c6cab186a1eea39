"""``python -m tests.bench [--rounds N] [NAME …]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from emulator.errors import EmulatorError
from tests.bench import (
    chain_vs_ns3,
    collectives,
    controller_core,
    controller_first_packet,
    controller_flows,
    controller_paths,
    controller_policies,
    dataplane_stages,
    gateway_gigabyte,
    start_up,
    supernodes,
)
from tests.bench.table import Row

BENCHMARKS: dict[str, Callable[[int], list[Row]]] = {
    "chain": chain_vs_ns3.measure,
    "collectives": collectives.measure,
    "controller-core": controller_core.measure,
    "controller-first-packet": controller_first_packet.measure,
    "controller-flows": controller_flows.measure,
    "controller-paths": controller_paths.measure,
    "controller-policies": controller_policies.measure,
    "dataplane-stages": dataplane_stages.measure,
    "gateway-gigabyte": gateway_gigabyte.measure,
    "start-up": start_up.measure,
    "supernodes": supernodes.measure,
}


def main() -> int:
    """Run the named benchmarks, or all; one that fails does not keep the others from running."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Speed as ratios within one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (default: 3)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown or arguments.rounds < 1:
        parser.error(f"unknown benchmark {unknown[0]!r}" if unknown else "--rounds is at least 1")
    status = 0
    for name in arguments.names or BENCHMARKS:
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        try:
            rows = BENCHMARKS[name](arguments.rounds)
        except EmulatorError as error:
            sys.stderr.write(f"error: {name}: {error}\n")
            status = status or error.exit_code
            continue
        sys.stdout.write("".join(f"  {row}\n" for row in rows))
        sys.stdout.flush()
    return status


if __name__ == "__main__":
    raise SystemExit(main())
