"""The switch for stock ``mn``: Open vSwitch with whatever datapath and service the machine has, safe with loops.

Method names follow Mininet's `OVSSwitch`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from emulator.errors import CommandError, NodeError
from emulator.network import capability
from emulator.network.mininet_import import Controller, OVSSwitch, info
from emulator.network.netlink_intf import NetlinkIntf
from emulator.network.openvswitch import OpenVSwitch

UNDO = ExitStack()
"""Removes what this process made and Mininet did not come to remove; its owner closes it at the end."""


class _Service:
    """The Open vSwitch that is used: the machine's, or a private one that is started when none runs."""

    def __init__(self) -> None:
        self.userspace = False
        self._ready = False

    def ensure(self) -> None:
        """Make sure that an Open vSwitch answers; from then on its tools find it by the environment."""
        if self._ready:
            return
        self.userspace = not capability.has_kernel_datapath()
        if not _answers():
            self._start_private()
        self._ready = True

    def _start_private(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="icgw-ovs-"))
        UNDO.callback(shutil.rmtree, folder, ignore_errors=True)
        private = OpenVSwitch(folder, userspace=self.userspace, die_with_parent=True)
        UNDO.callback(private.stop)
        os.environ.update(private.environment)
        info("*** No Open vSwitch is running: starting a private one\n")
        private.start()


def _answers() -> bool:
    try:
        return subprocess.run(["ovs-vsctl", "-t", "1", "show"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


SERVICE = _Service()


class BridgeSwitch(OVSSwitch):  # type: ignore[misc]
    """An Open vSwitch bridge for any fabric, on any machine that has Open vSwitch.

    With a controller of the user's choice it is an OpenFlow 1.3 switch. Without one, or with Mininet's learning
    controllers, which cannot handle loops, it is a learning bridge on a spanning tree of the switches that start with
    it. The tree is computed, not negotiated: it is there at once and the same every time, but a link of it that goes
    down is not replaced.

    Attributes:
        controlled: Whether a controller decides; known once it is started.
    """

    controlled = False

    def __init__(self, name: str, **params: Any) -> None:
        self.checkSetup()  # which datapath there is, is known only afterwards
        params["datapath"] = "user" if SERVICE.userspace else params.get("datapath", "kernel")
        super().__init__(name, **params)

    @classmethod
    def setup(cls) -> None:
        """Find Open vSwitch or start it."""
        SERVICE.ensure()
        super().setup()

    def start(self, controllers: Sequence[Any]) -> None:
        """Start as an OpenFlow switch, or as a bridge that does not forward yet."""
        chosen = [one for one in controllers if not _only_learns(one)]
        self.controlled = bool(chosen)
        # Also as a bridge: nothing may be forwarded before the flows that prevent loops are there.
        self.failMode = "secure"
        if chosen and not self.protocols:
            self.protocols: str = "OpenFlow13"
        UNDO.callback(_delete_bridge, self.name)
        super().start(chosen)

    @classmethod
    def batchStartup(cls, switches: Sequence[Any], run: Any = None) -> Any:  # noqa: N802
        """Start all switches, shape their ports again (Open vSwitch removes qdiscs), and let bridges forward."""
        started = super().batchStartup(switches) if run is None else super().batchStartup(switches, run)
        _check_interfaces({name for switch in switches for name in (switch.name, *switch.intfNames())})
        for switch in switches:
            for intf in switch.intfList():
                if isinstance(intf, NetlinkIntf):
                    intf.shape_again()
        bridges = [switch for switch in switches if not switch.controlled]
        blocked = outside_tree([switch.name for switch in bridges], _joints(bridges))
        for switch in bridges:
            _output("ovs-ofctl", "add-flows", switch.name, "-", stdin=bridge_flows(blocked.get(switch.name, ())))
        return started

    def connected(self) -> bool:
        """Whether it forwards: as a bridge it does once `batchStartup` has returned."""
        return not self.controlled or bool(super().connected())


Joint = tuple[str, int, str, int]
"""A link between two switches: name and port number of either."""


def outside_tree(switches: Sequence[str], joints: Sequence[Joint]) -> dict[str, set[int]]:
    """Find the ports that a spanning tree does not use.

    Args:
        switches: All switches.
        joints: All links between them; the tree is the breadth-first one from the first switch, in this order.

    Returns:
        Port numbers by switch, both ends of every link outside the tree.
    """
    reached: set[str] = set()
    tree: set[Joint] = set()
    for root in switches:
        frontier = [] if root in reached else [root]
        reached.add(root)
        while frontier:
            here = frontier.pop(0)
            for joint in joints:
                a, _, b, _ = joint
                there = b if a == here else a if b == here else None
                if there is not None and there not in reached:
                    reached.add(there)
                    tree.add(joint)
                    frontier.append(there)
    outside: dict[str, set[int]] = {}
    for joint in joints:
        if joint not in tree:
            a, a_port, b, b_port = joint
            outside.setdefault(a, set()).add(a_port)
            outside.setdefault(b, set()).add(b_port)
    return outside


def bridge_flows(blocked: Iterable[int]) -> str:
    """Flows of a learning bridge that hears nothing from some ports, and so never learns or loops over them."""
    return (
        "".join(f"priority=1,in_port={port},actions=drop\n" for port in sorted(blocked)) + "priority=0,actions=NORMAL\n"
    )


def _joints(switches: Sequence[Any]) -> list[Joint]:
    found = []
    for switch in switches:
        for port, intf in sorted(switch.intfs.items()):
            # Each link is met at both ends; it is taken at its first.
            if intf.link is not None and intf.link.intf1 is intf and intf.link.intf2.node in switches:
                other = intf.link.intf2
                found.append((switch.name, port, other.node.name, other.node.ports[other]))
    return found


def _delete_bridge(name: str) -> None:
    subprocess.run(["ovs-vsctl", "-t", "5", "--if-exists", "del-br", name], capture_output=True, check=False)


def _check_interfaces(names: Collection[str]) -> None:
    """Make sure that Open vSwitch could use every interface: Mininet does not look.

    Raises:
        NodeError: It could not; with its reason.
    """
    table = json.loads(_output("ovs-vsctl", "--format=json", "--columns=name,error", "list", "Interface"))
    for name, error in table["data"]:
        if name in names and isinstance(error, str):
            raise NodeError(f"Open vSwitch cannot use {name}: {error}")


def _output(*argv: str, stdin: str = "") -> str:
    result = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if result.returncode:
        raise CommandError(argv, result.returncode, result.stderr)
    return result.stdout


def _only_learns(controller: Any) -> bool:
    """Whether a controller is one of those that Mininet starts by itself: plain learning switches."""
    return type(controller) is Controller or type(controller).__name__ == "OVSController"
