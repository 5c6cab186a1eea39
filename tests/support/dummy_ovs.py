"""Open vSwitch without root: its daemons in a private folder, with the dummy datapath in user space.

Switches of a fabric become bridges joined by patch ports, hosts become dummy ports. Packets are put in and flows traced
with ``ovs-appctl``; that is an oracle for the project's own model of a switch, written by others.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

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
        self._folder = folder
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
        database = f"--db=unix:{self._folder}/db.sock"
        return self.tool("ovs-vsctl", database, "--retry", f"--timeout={_TIMEOUT_S}", *words)

    def appctl(self, *words: str) -> str:
        """Ask the switch daemon."""
        return self.tool("ovs-appctl", "-t", str(self._folder / "vswitchd.ctl"), *words)

    def build(self, fabric: Fabric, controller: str, skip: frozenset[str] = frozenset()) -> None:
        """Make all switches of a fabric, in one transaction."""
        words: list[str] = []
        for node in fabric.switches:
            if node.name in skip:
                continue
            words += ["--", "add-br", node.name, "--", "set", "bridge", node.name, "datapath_type=dummy"]
            words += [f"other-config:datapath-id={node.dpid:016x}", "protocols=OpenFlow13", "fail_mode=secure"]
            words += ["other-config:disable-in-band=true"]
            words += ["--", "set-controller", node.name, controller]
            words += ["--", "set", "controller", node.name, "max_backoff=1000"]
            for link in fabric.links_of(node.name):
                mine, port, theirs, peer = (
                    (link.a_interface, link.a_port, link.b_interface, link.b)
                    if link.a == node.name
                    else (link.b_interface, link.b_port, link.a_interface, link.a)
                )
                words += ["--", "add-port", node.name, mine, "--", "set", "interface", mine, f"ofport_request={port}"]
                if fabric.by_name[peer].is_switch and peer not in skip:
                    words += ["type=patch", f"options:peer={theirs}"]
                else:
                    words += ["type=dummy"]
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
        link = fabric.links_of(host)[0]
        bridge, port = (link.b, link.b_port) if link.a == host else (link.a, link.a_port)
        text = self.appctl("ofproto/trace", bridge, f"in_port={port},{flow}")
        # The datapath actions name the port by the datapath's number, which dpctl translates.
        final = re.search(r"^Final flow: (?P<flow>.*)$", text, re.MULTILINE)
        actions = re.search(r"^Datapath actions: (?P<actions>.*)$", text, re.MULTILINE)
        assert actions, text
        outputs = re.findall(r"(?:^|,)(\d+)(?=,|$)", actions["actions"])
        assert len(outputs) <= 1, text
        if not outputs:
            return None, text
        interface = self._interfaces()[int(outputs[0])]
        rewritten = re.search(r"set\(eth\((?:src=[^,)]*,)?dst=([0-9a-f:]{17})", actions["actions"])
        sent_to = re.search(r"dl_dst=([0-9a-f:]{17})", flow)
        assert sent_to, flow
        assert final, text
        peer = next(
            link.b if link.a_interface == interface else link.a
            for link in fabric.links
            if interface in (link.a_interface, link.b_interface)
        )
        return peer, rewritten[1] if rewritten else sent_to[1]

    def _interfaces(self) -> dict[int, str]:
        shown = self.appctl("dpif/show")
        return {int(number): name for name, number in re.findall(r"^\s+(\S+) \d+/(\d+):", shown, re.MULTILINE)}


@contextmanager
def dummy_ovs(folder: Path) -> Iterator[DummyOvs]:
    """Run the daemons until the block ends."""
    ovs = DummyOvs(folder)
    database = folder / "conf.db"
    ovs.tool("ovsdb-tool", "create", str(database), str(SCHEMA))
    with ExitStack() as stack:
        _daemon(
            stack,
            ovs.environment,
            ["ovsdb-server", str(database), f"--remote=punix:{folder}/db.sock", f"--unixctl={folder}/db.ctl"],
            folder / "ovsdb.log",
        )
        ovs.vsctl("--no-wait", "init")
        _daemon(
            stack,
            ovs.environment,
            ["ovs-vswitchd", f"unix:{folder}/db.sock", "--enable-dummy", "--disable-system"]
            + [f"--unixctl={folder}/vswitchd.ctl"],
            folder / "vswitchd.log",
        )
        # A transaction that the switch daemon must take part in returns when it runs.
        ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=10000")
        yield ovs


def _daemon(stack: ExitStack, environment: Mapping[str, str], argv: list[str], log: Path) -> None:
    file = stack.enter_context(log.open("w"))
    process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def end() -> None:
        process.terminate()
        try:
            process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)
