"""The first packet between two hosts: the controller, whose rules are there before, next to Ryu's ``simple_switch_13``.

Both run the same Open vSwitch with its datapath in user space and real interfaces into network namespaces, one pair of
hosts for each round. The first echo includes finding the other host's address: the controller has switches answer ARP,
Ryu's application floods it and learns. The second echo finds everything in place.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from controller.client import wait_ready
from emulator.errors import EngineError
from emulator.model.fabric import Fabric, Node
from tests.bench.apart import Figures, main
from tests.bench.controller_flows import wait_for
from tests.bench.table import Row, spread
from tests.support.controller_process import running_controller
from tests.support.dummy_ovs import DummyOvs, dummy_ovs
from tests.support.stock_ryu import stock_ryu
from topologies import single

_RYU = ("ryu.app.simple_switch_13", "ryu.app.ofctl_rest")
_REPOSITORY = Path(__file__).resolve().parents[2]
_PAUSE_S = "0.3"
_UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc")
_WAIT_NS = 120 * 10**9


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _make_host(node: Node, interface: str) -> None:
    """A namespace with one interface; the other end is here. Nothing but what tests send leaves it."""
    _run("ip", "netns", "add", node.name)
    _run("ip", "netns", "exec", node.name, "sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1")
    _run("ip", "netns", "exec", node.name, "sysctl", "-q", "-w", "net.ipv6.conf.default.disable_ipv6=1")
    inside = ("name", "eth0", "netns", node.name, "address", str(node.mac))
    _run("ip", "link", "add", interface, "type", "veth", "peer", *inside)
    _run("ip", "-n", node.name, "address", "add", str(node.ip), "dev", "eth0")
    _run("ip", "-n", node.name, "link", "set", "eth0", "up")
    _run("ip", "link", "set", interface, "up")


@contextmanager
def _bridge(ovs: DummyOvs, fabric: Fabric, controller: str) -> Iterator[None]:
    [switch] = fabric.switches
    words = ["add-br", switch.name, "--", "set", "bridge", switch.name, "datapath_type=netdev"]
    words += [f"other-config:datapath-id={switch.dpid:016x}", "protocols=OpenFlow13", "fail_mode=secure"]
    words += ["--", "set-controller", switch.name, f"tcp:{controller}"]
    for link in fabric.links:
        name, port = (link.a_interface, link.a_port) if link.a == switch.name else (link.b_interface, link.b_port)
        words += ["--", "add-port", switch.name, name, "--", "set", "interface", name, f"ofport_request={port}"]
    ovs.vsctl(*words)
    try:
        yield
    finally:
        ovs.vsctl("del-br", switch.name)


def _echoes_ms(source: Node, target: Node) -> list[float]:
    """Round trips of the first two echoes."""
    assert target.ip
    command = ("ping", "-n", "-c", "2", "-i", _PAUSE_S, "-W", "5", str(target.ip.ip))
    found = [float(ms) for ms in re.findall(r"time=([\d.]+) ms", _run("ip", "netns", "exec", source.name, *command))]
    if len(found) != 2:
        raise EngineError(f"echoes from {source.name} to {target.name} were lost")
    return found


def inside(folder: str, rounds: str) -> Figures:
    """In namespaces of its own: all rounds with either controller."""
    fabric = single(hosts=2 * int(rounds))
    [switch] = fabric.switches
    base = Path(folder)
    _run("mount", "-t", "tmpfs", "tmpfs", "/run")
    _run("ip", "link", "set", "lo", "up")
    pairs = list(zip(fabric.hosts[::2], fabric.hosts[1::2], strict=True))
    for node in fabric.hosts:
        [link] = fabric.links_of(node.name)
        _make_host(node, link.a_interface if link.a == switch.name else link.b_interface)
    figures: Figures = {}

    def take(name: str) -> None:
        for number, pair in enumerate(pairs):
            figures[f"{name} first {number}"], figures[f"{name} second {number}"] = _echoes_ms(*pair)

    with ExitStack() as stack:
        ovs = stack.enter_context(dummy_ovs(_sub(base, "ovs")))
        with (
            running_controller(_sub(base, "icgw"), fabric, "shortest-path", ()) as running,
            _bridge(ovs, fabric, running.openflow),
        ):
            wait_ready(f"http://{running.rest}", 1, _WAIT_NS)
            take("icgw")
        for node in fabric.hosts:
            _run("ip", "-n", node.name, "neighbour", "flush", "all")
        with stock_ryu(base / "ryu.log", *_RYU) as (openflow, client), _bridge(ovs, fabric, openflow):
            wait_for(lambda: client.get("/stats/switches") == [switch.dpid], "Ryu has no switch")
            wait_for(
                lambda: bool(client.get(f"/stats/flow/{switch.dpid}")[str(switch.dpid)]), "Ryu's entries are not there"
            )
            take("ryu")
    return figures


def _sub(base: Path, name: str) -> Path:
    folder = base / name
    folder.mkdir()
    return folder


def measure(rounds: int) -> list[Row]:
    """All in one run of both."""
    with tempfile.TemporaryDirectory(prefix="icgw-bench-") as folder:
        argv = [*_UNSHARE, sys.executable, "-m", __name__, "inside", folder, str(rounds)]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=_REPOSITORY, check=False)
    if done.returncode:
        raise EngineError(f"first packets: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    figures = json.loads(done.stdout.splitlines()[-1])
    found = {
        name: [figures[f"{name} {number}"] for number in range(rounds)]
        for name in ("icgw first", "icgw second", "ryu first", "ryu second")
    }
    ratios = [theirs / ours for ours, theirs in zip(found["icgw first"], found["ryu first"], strict=True)]
    return [
        Row("icgw, first echo with its ARP: ms", spread(found["icgw first"]), "user-space datapath"),
        Row("Ryu's simple_switch_13, the same: ms", spread(found["ryu first"])),
        Row("ratio Ryu / icgw", spread(ratios)),
        Row("second echo with icgw's rules: ms", spread(found["icgw second"])),
        Row("second echo with Ryu's entries: ms", spread(found["ryu second"])),
    ]


if __name__ == "__main__":
    main({"inside": inside})
