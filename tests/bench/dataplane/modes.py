"""What is compared. Each mode makes the namespace in the middle carry packets, and takes itself away again."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.errors import MissingCapability
from gateway.offload.steering import Attachment
from gateway.rings import busy
from tests.bench.dataplane.bed import Bench
from tests.bench.dataplane.interrupts import shielded
from tests.bench.dataplane.processes import run_tool, started, until
from tests.bench.dataplane.traffic import load
from tests.support.dummy_ovs import SCHEMA, DummyOvs
from tests.support.rings_bed import GW_LEFT_MAC, LEFT_MAC, RIGHT_MAC

STREAM_PORT = 5001
"""Where the hosts' TCP server listens, and proxies too."""
_LEFT_IP, _RIGHT_IP = "10.0.1.254", "10.0.2.1"
_HEADERS = 14


@dataclass(frozen=True)
class Running:
    """A mode that is running.

    Attributes:
        target_mac: What the left host addresses its packets to.
        target_ip: Where its TCP connections go.
        pid: The process whose memory is of interest; 0: there is none.
    """

    target_mac: str = GW_LEFT_MAC
    target_ip: str = _RIGHT_IP
    pid: int = 0


Start = Callable[[Bench, Path], AbstractContextManager[Running]]


@dataclass(frozen=True)
class Mode:
    """One way of carrying packets.

    Attributes:
        name: In tables and files.
        title: What it is, in a line.
        start: Makes it run.
        packets: It carries packets; else TCP connections only.
        frames: What it sends are XDP's frames, not the kernel's packets; it carries most when it is flooded. Of other
            modes the best rate is looked for: with more than they can carry they get slower.
        rates_only: Delays and streams are not measured.
        needs: Program of a package that may be missing.
        possible: Whether the kernel can do it.
    """

    name: str
    title: str
    start: Start
    packets: bool = True
    frames: bool = False
    rates_only: bool = False
    needs: str = ""
    possible: Callable[[], bool] = lambda: True

    @property
    def is_there(self) -> bool:
        """Whether this machine has what it needs."""
        path = os.environ.get("PATH", "") + ":/usr/sbin"
        return self.possible() and (not self.needs or shutil.which(self.needs, path=path) is not None)


def _fast(kind: str, *, offloaded: bool = False, polling: bool = False) -> Start:
    @contextmanager
    def start(bench: Bench, folder: Path) -> Iterator[Running]:
        with ExitStack() as undo:
            config: dict[str, Any] = {
                "mode": kind,
                "ports": [{"interface": "gl"}, {"interface": "gr"}],
                "next_hops": {"l": {"port": "gl", "mac": LEFT_MAC}, "r": {"port": "gr", "mac": RIGHT_MAC}},
                "routes": [{"network": "10.0.1.0/24", "next_hop": "l"}, {"network": "10.0.2.0/24", "next_hop": "r"}],
            }
            if polling:
                config["xdp"] = {"busy_poll": True}
            if offloaded:
                maps = folder / "bpf"
                maps.mkdir()
                with shielded():
                    run_tool("mount", "-t", "bpf", "bpf", str(maps))
                    undo.callback(run_tool, "umount", str(maps))
                config["offload"] = {"folder": str(maps)}
            (folder / "fast.json").write_text(json.dumps(config))
            control = folder / "control"
            argv = [sys.executable, "-m", "gateway", "fast", "--config", str(folder / "fast.json")]
            argv += ["--control", str(control)]
            process = undo.enter_context(started(bench, argv, lambda process: until(process, control.exists)))
            yield Running(pid=process.pid)

    return start


@contextmanager
def _ip_forwarding(bench: Bench, _folder: Path) -> Iterator[Running]:
    gateway = bench.bed.gw
    gateway.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
    for address, mac, interface in (("10.0.1.1", LEFT_MAC, "gl"), (_RIGHT_IP, RIGHT_MAC, "gr")):
        gateway.run(["ip", "neigh", "replace", address, "lladdr", mac, "dev", interface, "nud", "permanent"])
    yield Running()


def _see_each_other(bench: Bench) -> None:
    """Let the hosts address their packets to each other: what is between them does not route."""
    for host, interface, gateway, mac in (
        (bench.bed.left, "lh", _LEFT_IP, RIGHT_MAC),
        (bench.bed.right, "rh", "10.0.2.254", LEFT_MAC),
    ):
        host.run(["ip", "neigh", "replace", gateway, "lladdr", mac, "dev", interface, "nud", "permanent"])


@contextmanager
def _bridge(bench: Bench, _folder: Path) -> Iterator[Running]:
    gateway = bench.bed.gw
    gateway.run(["ip", "link", "add", "br0", "type", "bridge"])
    for interface, mac in (("gl", LEFT_MAC), ("gr", RIGHT_MAC)):
        gateway.run(["ip", "link", "set", interface, "master", "br0"])
        gateway.run(["bridge", "fdb", "replace", mac, "dev", interface, "master", "static"])
    gateway.run(["ip", "link", "set", "br0", "up"])
    _see_each_other(bench)
    yield Running(target_mac=RIGHT_MAC)


@contextmanager
def _redirect(bench: Bench, _folder: Path) -> Iterator[Running]:
    with ExitStack() as undo, bench.bed.gw.namespace():
        for interface, egress in (("gl", "gr"), ("gr", "gl")):
            programs = load(socket.if_nametoindex(egress))
            undo.callback(programs.close)
            undo.callback(Attachment(interface, programs.program_fd("redirect")).detach)
        _see_each_other(bench)
        yield Running(target_mac=RIGHT_MAC)


@contextmanager
def _open_vswitch(bench: Bench, folder: Path) -> Iterator[Running]:
    ovs = DummyOvs(folder)
    for interface in ("gl", "gr"):
        # It cannot carry what is longer than the MTU.
        bench.bed.gw.run(["ip", "link", "set", interface, "gro_max_size", str(bench.mtu + _HEADERS)])
    ovs.tool("ovsdb-tool", "create", f"{folder}/conf.db", str(SCHEMA))
    remote, database = f"--remote=punix:{folder}/db.sock", f"unix:{folder}/db.sock"
    server = ["ovsdb-server", f"{folder}/conf.db", remote, f"--unixctl={folder}/db.ctl"]
    switch = ["ovs-vswitchd", database, "--disable-system", f"--unixctl={folder}/vswitchd.ctl"]

    def answers(process: subprocess.Popen[str]) -> bool:
        return until(process, (folder / "vswitchd.ctl").exists)

    with (
        started(bench, server, lambda process: until(process, (folder / "db.sock").exists), env=ovs.environment),
        contextlib.nullcontext(ovs.vsctl("--no-wait", "init")),
        started(bench, switch, answers, env=ovs.environment) as process,
    ):
        words = ["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"]
        ovs.vsctl(*words, "--", "add-port", "br0", "gl", "--", "add-port", "br0", "gr")
        for one, other in (("gl", "gr"), ("gr", "gl")):
            flow = f"in_port={one},actions=output:{other}"
            ovs.tool("ovs-ofctl", "--names", "add-flow", f"unix:{folder}/br0.mgmt", flow)
        _see_each_other(bench)
        bench.own(process.pid)  # with the threads that it has started by now
        yield Running(target_mac=RIGHT_MAC, pid=process.pid)


def _relay(kind: str) -> Start:
    @contextmanager
    def start(bench: Bench, _folder: Path) -> Iterator[Running]:
        port = str(STREAM_PORT)
        argv = [sys.executable, "-m", "tests.bench.dataplane.relay", kind, _LEFT_IP, port, _RIGHT_IP, port]

        def is_ready(process: subprocess.Popen[str]) -> bool:
            return process.stdout is not None and process.stdout.readline() == "ready\n"

        with started(bench, argv, is_ready) as process:
            yield Running(target_ip=_LEFT_IP, pid=process.pid)

    return start


@contextmanager
def _haproxy(bench: Bench, folder: Path) -> Iterator[Running]:
    (folder / "haproxy.cfg").write_text(
        "global\n  nbthread 1\n  maxconn 64\n"
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
        "  option splice-auto\n"
        f"listen through\n  bind {_LEFT_IP}:{STREAM_PORT}\n  server right {_RIGHT_IP}:{STREAM_PORT}\n"
    )

    def listens(process: subprocess.Popen[str]) -> bool:
        with bench.bed.left.namespace():
            return until(process, _connects)

    with started(bench, ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")], listens) as process:
        yield Running(target_ip=_LEFT_IP, pid=process.pid)


def _connects() -> bool:
    try:
        socket.create_connection((_LEFT_IP, STREAM_PORT), timeout=1).close()
    except OSError:
        return False
    return True


def _apart(name: str, title: str, start: Start) -> Mode:
    """A mode whose interfaces are polled on the CPU of the traffic: its processes have theirs for themselves."""

    @contextmanager
    def start_apart(bench: Bench, folder: Path) -> Iterator[Running]:
        bench.poll_elsewhere()
        with start(bench, folder) as running:
            yield running

    return Mode(f"{name}_apart", f"{title}; interfaces polled on the CPU of the traffic", start_apart, rates_only=True)


MODES = {
    mode.name: mode
    for mode in (
        Mode("redirect", "XDP program that only redirects: the most that passes this bed", _redirect, frames=True),
        Mode("ip_forwarding", "the kernel's IP forwarding", _ip_forwarding),
        Mode("bridge", "Linux bridge", _bridge),
        Mode("open_vswitch", "Open vSwitch's datapath in user space", _open_vswitch, needs="ovs-vswitchd"),
        Mode("sockets", "gateway, plain packet sockets", _fast("socket")),
        Mode("packet_mmap", "gateway, PACKET_MMAP", _fast("packet_mmap")),
        Mode("af_xdp", "gateway, AF_XDP from Python", _fast("af_xdp")),
        Mode(
            "af_xdp_polling",
            "the same, polling its queues itself",
            _fast("af_xdp", polling=True),
            possible=busy.is_possible,
        ),
        Mode("offload", "gateway, flows offloaded to XDP", _fast("af_xdp", offloaded=True), frames=True),
        _apart("ip_forwarding", "the kernel's IP forwarding", _ip_forwarding),
        _apart("sockets", "gateway, plain packet sockets", _fast("socket")),
        _apart("packet_mmap", "gateway, PACKET_MMAP", _fast("packet_mmap")),
        _apart("af_xdp", "gateway, AF_XDP from Python", _fast("af_xdp")),
        Mode("proxy_copies", "TCP proxy in Python, recv and send", _relay("copies"), packets=False),
        Mode("proxy_splice", "TCP proxy in Python, splice", _relay("splice"), packets=False),
        Mode("haproxy", "HAProxy, TCP mode, splice-auto", _haproxy, packets=False, needs="haproxy"),
    )
}


def chosen(names: Sequence[str]) -> list[Mode]:
    """The modes of these names; of none: all that this machine has.

    Raises:
        MissingCapability: One needs a package.
    """
    modes = [MODES[name] for name in names] or [mode for mode in MODES.values() if mode.is_there]
    for mode in modes:
        if not mode.is_there:
            missing = mode.needs or "busy polling"
            raise MissingCapability(missing, "run 'scripts/setup.sh --bench'" if mode.needs else "it needs Linux 6.13")
    return modes
