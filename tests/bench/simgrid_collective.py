"""The same messages between the same ranks in SimGrid, as flows: for the system's Python, which has its bindings.

``python3 simgrid_collective.py PLAN.json`` prints a JSON object: simulated seconds, seconds of real and CPU time, and
peak memory in bytes. The plan has directed links, the links of each pair of ranks, and for each rank and part of the
buffer what it sends and receives step by step, as `tests.bench.collectives` makes them. Each is an actor, as is usual
with SimGrid: it sends, without waiting for that to end, and receives, then goes on to the next step.
"""

import json
import resource
import sys
import time
from pathlib import Path

import simgrid


def main():
    """Build the platform, run, print."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    began, used = time.monotonic(), time.process_time()
    settings = ("network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:1e12", "contexts/nthreads:1")
    engine = simgrid.Engine(["collective", "--log=root.thresh:error", *(f"--cfg={one}" for one in settings)])
    zone = simgrid.NetZone.create_full_zone("fabric")
    hosts = [zone.create_host(f"r{rank}", 1e9).seal() for rank in range(plan["ranks"])]
    links = [
        zone.create_link(f"l{number}", rate).set_latency(delay).seal()
        for number, (rate, delay) in enumerate(plan["links"])
    ]
    for source, target, crossed in plan["routes"]:
        route = [simgrid.LinkInRoute(links[one]) for one in crossed]
        zone.add_route(hosts[source].netpoint, hosts[target].netpoint, None, None, route, False)
    zone.seal()
    for number, (rank, steps) in enumerate(plan["actors"]):
        simgrid.Actor.create(f"a{number}", hosts[rank], actor, steps)
    engine.run()
    answer = {
        "simulated_s": simgrid.Engine.clock,
        "wall_s": time.monotonic() - began,
        "cpu_s": time.process_time() - used,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    sys.stdout.write(json.dumps(answer) + "\n")


def actor(steps):
    """One rank's part: at each step what it sends, and from which boxes it receives."""
    sent = []
    for sends, boxes in steps:
        sent += [simgrid.Mailbox.by_name(box).put_async(0, size) for box, size in sends]
        for box in boxes:
            simgrid.Mailbox.by_name(box).get()
    simgrid.Comm.wait_all(sent)


if __name__ == "__main__":
    main()
