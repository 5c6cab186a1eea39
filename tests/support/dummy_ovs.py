"""Open vSwitch without root: its daemons in a private folder, with the dummy datapath in user space.

Switches of a fabric become bridges joined by patch ports, hosts become dummy ports. Packets are put in and flows traced
with ``ovs-appctl``; that is an oracle for the project's own model of a switch, written by others.

``python -m tests.support.dummy_ovs fabric.json 127.0.0.1:6653`` gives a controller the switches of a fabric to try
things with, until it is interrupted. Nobody sends packets there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from emulator.model.codec import fabric_from_json
from emulator.model.fabric import Fabric

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
TOOLS = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-appctl", "ovs-ofctl")
_TIMEOUT_S = 30


def missing() -> list[str]:
    """Which of the tools this machine lacks."""
    return [tool for tool in TOOLS if shutil.which(tool, path=_PATH) is None]


_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


class DummyOvs:
    """Running daemons."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PATH": _PATH, "OVS_RUNDIR": str(folder), "OVS_LOGDIR": str(folder)}

    def tool(self, *argv: str, check: bool = True) -> str:
        """Run one of Open vSwitch's tools and return what it prints."""
        result = subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if check and result.returncode:
            raise AssertionError(f"{' '.join(argv)}: {result.stderr or result.stdout}")
        return result.stdout

    def vsctl(self, *words: str) -> str:
        """Run ``ovs-vsctl``."""
        database = f"--db=unix:{self.folder}/db.sock"
        return self.tool("ovs-vsctl", database, "--retry", f"--timeout={_TIMEOUT_S}", *words)

    def ofctl(self, *words: str) -> str:
        """Run ``ovs-ofctl`` with OpenFlow 1.3; it finds switches by their names."""
        return self.tool("ovs-ofctl", "-O", "OpenFlow13", *words)

    def appctl(self, method: str, *words: str) -> str:
        """Ask the switch daemon, as ``ovs-appctl`` does (JSON-RPC), but without starting a program each time."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(_TIMEOUT_S)
            sock.connect(str(self.folder / "vswitchd.ctl"))
            sock.sendall(json.dumps({"id": 0, "method": method, "params": words}).encode())
            received = b""
            while True:
                received += sock.recv(1 << 20)
                with contextlib.suppress(ValueError):
                    answer = json.loads(received)
                    break
        assert answer["error"] is None, answer["error"]
        return str(answer["result"])

    def build(
        self,
        fabric: Fabric,
        controller: str | None,
        skip: frozenset[str] = frozenset(),
        record: Callable[[str], str] | None = None,
    ) -> None:
        """Make all switches of a fabric, in one transaction.

        Args:
            fabric: What to build.
            controller: Where the switches connect to; None: nowhere.
            skip: Switches to leave out.
            record: For the name of a host's port, the option that makes it keep a record.
        """
        words: list[str] = []
        for node in fabric.switches:
            if node.name in skip:
                continue
            words += ["--", "add-br", node.name, "--", "set", "bridge", node.name, "datapath_type=dummy"]
            words += [f"other-config:datapath-id={node.dpid:016x}", "protocols=OpenFlow13", "fail_mode=secure"]
            words += ["other-config:disable-in-band=true"]
            if controller is not None:
                words += ["--", "set-controller", node.name, controller]
                words += ["--", "set", "controller", node.name, "max_backoff=1000"]
            for link in fabric.links_of(node.name):
                mine, port, theirs, peer = (
                    (link.a_interface, link.a_port, link.b_interface, link.b)
                    if link.a == node.name
                    else (link.b_interface, link.b_port, link.a_interface, link.a)
                )
                if fabric.by_name[peer].is_switch and peer not in skip:
                    words += add_patch_port(node.name, mine, port, theirs)
                    continue
                words += ["--", "add-port", node.name, mine, "--", "set", "interface", mine, f"ofport_request={port}"]
                words += ["type=dummy", *([record(mine)] if record else [])]
        self.vsctl(*words)

    def trace(self, fabric: Fabric, host: str, flow: str) -> tuple[str | None, str]:
        """Ask where a packet that a host sends comes out.

        Args:
            fabric: What was built.
            host: The sender.
            flow: The packet, in ``ovs-appctl ofproto/trace``'s syntax, without ``in_port``.

        Returns:
            Name of the host that gets it (None: nobody), and the Ethernet destination that it has then.
        """
        bridge, port, _ = far_end(fabric, host)
        text = self.appctl("ofproto/trace", bridge, f"in_port={port},{flow}")
        found = re.search(r"^Datapath actions: (?P<actions>.*)$", text, re.MULTILINE)
        assert found, text
        actions = found["actions"]
        outputs = re.findall(r"(?:^|,)(\d+)(?=,|$)", re.sub(r"\([^()]*(\([^()]*\))*[^()]*\)", "", actions))
        assert len(outputs) <= 1, text
        addressed = re.search(r"dl_dst=([0-9a-f:]{17})", flow)
        rewritten = re.findall(r"dst=([0-9a-f:]{17})", actions)
        assert addressed, flow
        eth_dst = rewritten[-1] if rewritten else addressed[1]
        if not outputs:
            return None, eth_dst
        interface = self.interfaces()[int(outputs[0])]
        return next(node.name for node in fabric.hosts if far_end(fabric, node.name)[2] == interface), eth_dst

    def interfaces(self) -> dict[int, str]:
        """Names of the datapath's ports by number."""
        shown = self.appctl("dpif/show")
        return {int(number): name for name, number in re.findall(r"^\s+(\S+) \d+/(\d+):", shown, re.MULTILINE)}

    def send(self, fabric: Fabric, host: str, packet: bytes) -> None:
        """Let a packet come in from a host."""
        self.appctl("netdev-dummy/receive", far_end(fabric, host)[2], packet.hex())


def add_patch_port(bridge: str, interface: str, port: int, peer: str) -> list[str]:
    """Words for ``ovs-vsctl`` that add one end of a link between two bridges."""
    words = ["--", "add-port", bridge, interface, "--", "set", "interface", interface, f"ofport_request={port}"]
    return [*words, "type=patch", f"options:peer={peer}"]


def far_end(fabric: Fabric, host: str) -> tuple[str, int, str]:
    """The switch, port and interface where a host is attached."""
    link = fabric.links_of(host)[0]
    if link.a == host:
        return link.b, link.b_port, link.b_interface
    return link.a, link.a_port, link.a_interface


@contextmanager
def dummy_ovs(folder: Path) -> Iterator[DummyOvs]:
    """Run the daemons until the block ends."""
    ovs = DummyOvs(folder)
    database = folder / "conf.db"
    ovs.tool("ovsdb-tool", "create", str(database), str(SCHEMA))
    with ExitStack() as stack:
        remote = f"--remote=punix:{folder}/db.sock"
        _daemon(stack, ovs, "ovsdb-server", str(database), remote, f"--unixctl={folder}/db.ctl")
        ovs.vsctl("--no-wait", "init")
        dummy = ("--enable-dummy", "--disable-system", f"--unixctl={folder}/vswitchd.ctl")
        _daemon(stack, ovs, "ovs-vswitchd", f"unix:{folder}/db.sock", *dummy)
        # A transaction that the switch daemon must take part in returns when it runs.
        ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=10000")
        yield ovs


def _daemon(stack: ExitStack, ovs: DummyOvs, *argv: str) -> None:
    file = stack.enter_context((ovs.folder / f"{argv[0]}.log").open("w"))
    process = subprocess.Popen(argv, env=ovs.environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def end() -> None:
        process.terminate()
        try:
            process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)


def main(arguments: list[str]) -> int:
    """Run the switches of a fabric file until Ctrl-C or SIGTERM."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m tests.support.dummy_ovs FABRIC.json ADDRESS:PORT\n")
        return 2
    if missing():
        sys.stderr.write(f"not installed: {', '.join(missing())}\n")
        return 3
    fabric = fabric_from_json(json.loads(Path(arguments[0]).read_text()))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="icgw-ovs-") as folder,
        dummy_ovs(Path(folder)) as ovs,
    ):
        ovs.build(fabric, f"tcp:{arguments[1]}")
        sys.stdout.write(f"switches: {' '.join(node.name for node in fabric.switches)}\n")
        sys.stdout.flush()
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
