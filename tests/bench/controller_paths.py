"""All shortest paths of 1000 switches with 10 000 hosts: the controller next to networkx on the same graph.

The job: for each switch with hosts, the distances of all switches (links first, then latency) and every equally good
next hop. networkx does it by Dijkstra's algorithm for some of the targets, which is scaled up to all of them.
"""

from __future__ import annotations

import networkx

from controller.paths import compute
from emulator.model.fabric import Fabric
from tests.bench.apart import MEMORY, Figures, Watch, apart, main
from tests.bench.table import Row, spread
from tests.support.controller_fabrics import random_regular

SWITCHES, DEGREE, HOSTS = 1000, 16, 10_000
PART = 20
"""So many of the targets are done by networkx."""
TARGET_S, TARGET_GIB = 2, 1


def _fabric() -> Fabric:
    return random_regular(switches=SWITCHES, degree=DEGREE, hosts=HOSTS)


def ours() -> Figures:
    """All paths, and what planes and colours need."""
    fabric = _fabric()
    watch = Watch()
    paths = compute(fabric)
    seconds = watch.lap()
    colours = len(paths.colours)
    return {"paths_s": seconds, "colours_s": watch.lap(), "hosts": colours, "hops": int(paths.next_hops.hops.sum())}


def theirs() -> Figures:
    """The same by networkx for some targets."""
    fabric = _fabric()
    graph = compute(fabric).layout.graph
    network = networkx.Graph()
    # One weight for both: a link more is worse than any latency.
    far = int(graph.latency_ns.sum()) + 1
    for source, target, latency_ns in zip(graph.source, graph.target, graph.latency_ns, strict=True):
        network.add_edge(int(source), int(target), weight=far + int(latency_ns))
    watch = Watch()
    hops = 0
    for target in range(PART):
        before, distance = networkx.dijkstra_predecessor_and_distance(network, target, weight="weight")
        hops += sum(int(length) // far for length in distance.values())
        assert len(before) == SWITCHES
    return {"paths_s": watch.lap() * SWITCHES / PART, "hops": hops}


def measure(rounds: int) -> list[Row]:
    """Both in turn, each in a process of its own."""
    pairs = [(apart(__name__, "ours"), apart(__name__, "theirs")) for _ in range(rounds)]
    what = f"{SWITCHES} switches, {HOSTS} hosts"
    return [
        Row(f"icgw, paths of {what}: s", spread([a["paths_s"] for a, _ in pairs]), f"target {TARGET_S} s"),
        Row("icgw, colours of all hosts besides: s", spread([a["colours_s"] for a, _ in pairs])),
        Row("icgw, peak memory of the process: GiB", spread([a[MEMORY] for a, _ in pairs]), f"target {TARGET_GIB} GiB"),
        Row(f"networkx, the same from {PART} targets, scaled: s", spread([b["paths_s"] for _, b in pairs])),
        Row("ratio networkx / icgw", spread([b["paths_s"] / a["paths_s"] for a, b in pairs])),
    ]


if __name__ == "__main__":
    main({"ours": ours, "theirs": theirs})
