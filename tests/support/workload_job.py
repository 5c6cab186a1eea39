"""Runs inside the emulated machine: workloads on small chains of hosts; what they found goes to ``result.json``.

``python workload_job.py EXPERIMENT...``; each experiment builds hosts of its own and is named in the result.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from netns_hosts import NamespaceHost, chain

from emulator.engine.progress import out_folder
from emulator.errors import WorkloadError
from emulator.linux import sysctl
from emulator.measure import PacketCapture, Sampler, Vantage
from emulator.model.fabric import LinkSpec
from emulator.model.profile import MediaModel, profile
from emulator.model.workload import Checkpoint, NvmeIo, Ping, Poisson, SmallPackets, TcpBulk, Workload
from emulator.workloads import Context, run

GBIT = 10**9
LINE = LinkSpec(100 * GBIT, 5_000, queue_packets=100_000)


def cell(specs: Sequence[LinkSpec], hosts: Mapping[str, NamespaceHost], seed: int = 1) -> Context:
    order = list(hosts)

    def path(source: str, target: str) -> Sequence[LinkSpec]:
        begin, end = order.index(source), order.index(target)
        return specs[begin:end] if begin < end else specs[end:begin][::-1]

    return Context("test", "cell", hosts, path, profile("documents"), seed, out_folder())


def figures(context: Context, workload: Workload) -> dict[str, Any]:
    """Records as ``{"metric kind": value}``."""
    return {f"{one.metric} {one.kind.value}": one.value for one in run(workload, context)}


def on_chain(specs: Sequence[LinkSpec], *workloads: Workload) -> list[dict[str, Any]]:
    with chain(specs) as hosts, cell(specs, hosts) as context:
        return [figures(context, workload) for workload in workloads]


def failure(do: Callable[[], Any]) -> str:
    """The one line of a WorkloadError; anything else that is raised is a defect and ends the job."""
    try:
        do()
    except WorkloadError as error:
        return str(error)
    return "no error"


def know_each_other(*hosts: NamespaceHost) -> None:
    """Neighbours know each other's Ethernet address for good: no lost ARP packet makes others wait."""
    for one in hosts:
        described = json.loads(one.run(["ip", "-json", "link", "show", one.interfaces[0]]).stdout)
        for other in hosts:
            if other is not one:
                to = ["dev", other.interfaces[0], "nud", "permanent"]
                other.run(["ip", "neigh", "replace", one.ip, "lladdr", described[0]["address"], *to])


def leftovers() -> dict[str, list[str]]:
    """What workloads could have left in the machine."""
    folders = ("kernel/config/nullb", "kernel/config/nvmet/subsystems", "kernel/config/nvmet/ports", "class/nvme")
    found = {name: sorted(entry.name for entry in Path("/sys", name).iterdir() if entry.is_dir()) for name in folders}
    found["temporary"] = sorted(entry.name for entry in Path("/tmp").glob("icgw-fio-*"))
    names = subprocess.run(["ps", "-eo", "comm="], capture_output=True, text=True, check=True).stdout.split()
    found["programs"] = sorted({"iperf3", "fio", "ping"} & set(names))
    found["threads"] = sorted(thread.name for thread in threading.enumerate())
    return found


def pings() -> Any:
    answer = {}
    for gbit, hops in ((25, 1), (100, 3), (1280, 5)):
        specs = [LinkSpec(gbit * GBIT, 5_000)] * hops
        [answer[f"{gbit}x{hops}"]] = on_chain(specs, Ping("rtt", "a", "b", count=5))
    lossy = LinkSpec(100 * GBIT, 5_000, loss_ppm=300_000)
    with chain([lossy]) as hosts, cell([lossy], hosts) as context:
        know_each_other(hosts["a"], hosts["b"])
        answer["lossy"] = figures(context, Ping("rtt", "a", "b", count=60, interval_ns=1_000_000, payload_bytes=1))
    far = LinkSpec(GBIT, 20_000_000)
    [answer["far"]] = on_chain([far], Ping("rtt", "a", "b", count=10, interval_ns=1_000_000))
    return answer


def tcp() -> Any:
    answer = {}
    for gbit, hops, size in ((100, 3, 100_000_000), (400, 1, 100_000_000)):
        specs = [LinkSpec(gbit * GBIT, 5_000)] * hops
        bulk = TcpBulk("bulk", ("a",), ("b",), size_bytes=size, warm_up_ns=500_000)
        [answer[f"{gbit}x{hops}"]] = on_chain(specs, bulk)
    before = sysctl.read("net.ipv4.tcp_rmem")
    with chain([LINE]) as hosts, cell([LINE], hosts) as context:
        timed = TcpBulk(
            "timed", ("a",), ("b",), flows=3, duration_ns=4_000_000, warm_up_ns=1_000_000, stagger_ns=100_000,
            congestion="bbr", ecn=True,
        )  # fmt: skip
        answer["timed"] = figures(context, timed)
        with hosts["a"].namespace():
            answer["settings"] = [before, sysctl.read("net.ipv4.tcp_rmem")]
    return answer


def queueing() -> Any:
    specs = [LinkSpec(400 * GBIT, 5_000, queue_packets=100_000), LINE]
    short = [specs[0], LinkSpec(100 * GBIT, 0, queue_packets=5)]
    return {
        "loads": on_chain(specs, *(Poisson(f"load-{load}", "a", "b", load, packets=40_000) for load in (0.3, 0.9))),
        "slow first": on_chain(specs[::-1], Poisson("reversed", "a", "b", 0.6, packets=20_000)),
        "overflow": on_chain(short, Poisson("overflow", "a", "b", 0.95, packets=20_000)),
    }


def small() -> Any:
    return on_chain(
        [LINE, LinkSpec(10 * GBIT, 5_000, queue_packets=100)],
        SmallPackets("line", "a", "b", message_bytes=512, duration_ns=4_000_000),
        SmallPackets("tiny", "a", "b", message_bytes=1, duration_ns=500_000, offered_bps=5 * GBIT),
        SmallPackets("too-much", "a", "b", message_bytes=512, duration_ns=4_000_000, offered_bps=20 * GBIT),
    )


def nvme() -> Any:
    answer = {}
    for name, mtu, hops in (("jumbo", 9000, 1), ("ethernet", 1500, 3)):
        specs = [LinkSpec(100 * GBIT, 5_000, mtu_bytes=mtu, queue_packets=100_000)] * hops
        answer[name] = on_chain(
            specs,
            NvmeIo("read", ("a",), "b", queue_depths=(1, 16), ios=200),
            NvmeIo("write", ("a",), "b", pattern="randwrite", ios=100),
            NvmeIo("large", ("a",), "b", pattern="write", block_bytes=65_536 if mtu == 9000 else 4096, ios=50),
        )
    specs = [LINE, LINE]
    answer["shared"] = on_chain(
        specs,
        NvmeIo("bulk", ("a", "r1"), "b", pattern="read", block_bytes=1 << 20, queue_depths=(16,), ios=50),
        NvmeIo("think", ("a",), "b", ios=20, think_ns=1_000_000),
        Checkpoint("save", ("a", "r1"), "b", size_bytes=64 << 20, full_size_bytes=10**12),
    )
    return answer


def instruments() -> Any:
    specs = [LINE, LINE]
    folder = Path("/tmp/capture")
    folder.mkdir()
    with chain(specs) as hosts, cell(specs, hosts) as context:
        vantages = [Vantage(host.interfaces, host.namespace) for host in hosts.values()]
        with PacketCapture(vantages, folder, snap_bytes=64) as capture:
            figures(context, Ping("rtt", "a", "b", count=3))
        bulk = TcpBulk("bulk", ("a",), ("b",), size_bytes=20_000_000)
        alone = figures(context, bulk)
        with Sampler(vantages, 10_000, most_readings=64) as sampler:
            watched = figures(context, bulk)
    read = ["tshark", "-r", str(capture.files["a-up"]), "-Y", "icmp", "-T", "fields", "-e", "frame.time_epoch"]
    times = subprocess.run(read, capture_output=True, text=True, check=True).stdout.split()
    for path in capture.files.values():
        path.unlink()
    folder.rmdir()
    return {
        "alone": alone,
        "watched": watched,
        "icmp times": times,
        "series": {name: [one.t_ns, one.tx_bytes, one.backlog_packets] for name, one in sampler.series().items()},
        "interval_ns": sampler.interval_ns,
        "drops": sampler.drops(),
    }


@contextmanager
def blocked(host: NamespaceHost) -> Any:
    """All packets that a host receives vanish."""
    [interface] = host.interfaces[:1]
    host.run(["tc", "qdisc", "add", "dev", interface, "clsact"])
    host.run(["tc", "filter", "add", "dev", interface, "ingress", "matchall", "action", "drop"])
    yield
    host.run(["tc", "qdisc", "delete", "dev", interface, "clsact"])


def ended_soon(name: str) -> threading.Thread:
    """Ends a program of that name shortly after it has started."""

    def end() -> None:
        for _ in range(2000):
            found = subprocess.run(["pgrep", "-x", name], capture_output=True, text=True, check=False).stdout.split()
            if found:
                time.sleep(0.002)
                subprocess.run(["kill", "-KILL", *found], check=False)
                return
            time.sleep(0.001)

    thread = threading.Thread(target=end)
    thread.start()
    return thread


def errors() -> Any:
    specs = [LINE]
    answer = {}
    with chain(specs) as hosts:
        with blocked(hosts["b"]), cell(specs, hosts) as context:
            answer["ping"] = failure(lambda: run(Ping("p", "a", "b", count=2), context))
            answer["poisson"] = failure(lambda: run(Poisson("q", "a", "b", 0.5, packets=1000), context))
            answer["connect"] = failure(lambda: run(NvmeIo("n", ("a",), "b"), context))
        with cell(specs, hosts) as context:
            answer["host"] = failure(lambda: run(Ping("p", "a", "nobody"), context))
            answer["frame"] = failure(lambda: run(Poisson("q", "a", "b", 0.5, frame_bytes=20_000), context))
            answer["depth"] = failure(lambda: run(NvmeIo("n", ("a",), "b", queue_depths=(1, 128)), context))
            answer["congestion"] = failure(
                lambda: run(TcpBulk("t", ("a",), ("b",), size_bytes=10**6, congestion="nonesuch"), context)
            )
            thread = ended_soon("iperf3")
            answer["server dies"] = failure(lambda: run(TcpBulk("t", ("a",), ("b",), duration_ns=10**9), context))
            thread.join()
            thread = ended_soon("fio")
            answer["fio dies"] = failure(
                lambda: run(NvmeIo("n", ("a",), "b", pattern="read", block_bytes=1 << 20, ios=2000), context)
            )
            thread.join()
        slow = MediaModel(10_000, 1 << 30, "test")
        with cell(specs, hosts) as context:
            context.profile = replace(profile("documents"), media=slow)
            figures(context, NvmeIo("n", ("a",), "b", ios=10))
            (Path("/sys/class/nvme/nvme0/delete_controller")).write_text("1")
            answer["volume lost"] = failure(lambda: run(NvmeIo("n", ("a",), "b", ios=10), context))
    return answer


EXPERIMENTS: dict[str, Callable[[], Any]] = {
    one.__name__: one for one in (pings, tcp, queueing, small, nvme, instruments, errors)
}


def main(names: Sequence[str]) -> None:
    before = leftovers()
    result = {}
    for name in names:
        result[name] = EXPERIMENTS[name]()
        after = leftovers()
        result[f"{name} left"] = {key: sorted(set(after[key]) - set(before[key])) for key in after}
    (out_folder() / "result.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
