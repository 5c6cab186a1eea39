"""Open vSwitch, private to one network: its own database, daemons and sockets in a folder of their own.

``ovs-ctl`` is not used: it would take over the machine's own switch and unload kernel modules. The daemons are started
directly, and every bridge and port is made in one transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from emulator.errors import CommandError, ControllerError, NodeError
from emulator.linux.virtual_clock import clock_is_virtual
from emulator.network.bridge import Bridge
from emulator.network.ovs_daemons import Daemons
from emulator.network.revalidators import go_last

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")

FIRST_CPU_COUNT_S = 10.0
"""Open vSwitch counts the CPUs only once CLOCK_MONOTONIC has passed this; before, it runs no upcall handler at all."""

_START_S = 60
_CONFIGURE_S = 300
_FLOW_IDLE_MS = 3_600_000
"""Cached flows stay for an hour instead of 10 s, so that a pause in the traffic does not slow the next packet."""


def datapath_interface(*, userspace: bool) -> str:
    """Name of the interface that stands for the datapath itself; two daemons in one namespace would share it."""
    return "ovs-netdev" if userspace else "ovs-system"


class OpenVSwitch:
    """The daemons and what was configured in them.

    Args:
        folder: An existing folder of its own, with a path short enough for sockets in it.
        userspace: Forward in the daemon (netdev datapath) instead of in the kernel.
        die_with_parent: The daemons end when the calling thread ends, however it does.
    """

    def __init__(self, folder: Path, *, userspace: bool = False, die_with_parent: bool = False) -> None:
        self._folder = folder
        self._userspace = userspace
        self._daemons = Daemons(folder, die_with_parent=die_with_parent)
        self._bridges: list[str] = []
        self._connections: dict[str, Sequence[str]] = {}
        self._controllers: Sequence[str] = ()
        self._fail_mode = "secure"
        self._qos = ""
        self._virtual = clock_is_virtual()

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which ``ovs-vsctl``, ``ovs-ofctl`` and ``ovs-appctl`` find these daemons."""
        return self._daemons.environment

    def start(self) -> None:
        """Start the database and the switch daemon and wait until they answer.

        Raises:
            MissingCapability: Open vSwitch is not installed.
            NodeError: A daemon ended.
        """
        database = self._folder / "conf.db"
        self._daemons.run("ovsdb-tool", "create", str(database), str(SCHEMA))
        remote = f"--remote=punix:{self._folder}/db.sock"
        self._daemons.start("ovsdb-server", str(database), remote)
        self._vsctl("--retry", "--no-wait", "init", timeout_s=_START_S)
        idle = f"other_config:max-idle={_FLOW_IDLE_MS}"
        self._vsctl("--no-wait", "set", "Open_vSwitch", ".", idle, timeout_s=_START_S)
        wait_for_clock()
        self._daemons.start("ovs-vswitchd", f"unix:{self._folder}/db.sock")

    def configure(self, bridges: Sequence[Bridge], *, controllers: Sequence[str], fail_mode: str) -> None:
        """Make all bridges and ports in one transaction and wait until the daemon has them.

        Args:
            bridges: What to make.
            controllers: Targets such as ``tcp:127.0.0.1:6653``; empty: none.
            fail_mode: ``secure`` or ``standalone`` (learning bridge while there is no controller).

        Raises:
            NodeError: A port could not be added, or has another number.
        """
        self._controllers, self._fail_mode = tuple(controllers), fail_mode
        # linux-noop: Open vSwitch would otherwise remove the qdiscs of its ports.
        self._qos = self._vsctl("--no-wait", "create", "QoS", "type=linux-noop", timeout_s=_START_S).strip()
        self._bridges = [bridge.name for bridge in bridges]
        self._make(bridges, self._controllers)

    def _make(self, bridges: Sequence[Bridge], targets: Sequence[str]) -> None:
        words: list[str] = []
        for bridge in bridges:
            words += bridge.words(
                controllers=targets, fail_mode=self._fail_mode, userspace=self._userspace, qos=self._qos
            )
        printed = self._vsctl(*words, timeout_s=_CONFIGURE_S).split()
        # One line for each `create`, in order.
        count = len(targets)
        for index, bridge in enumerate(bridges):
            self._connections[bridge.name] = printed[index * count : (index + 1) * count]
        self._check_ports(bridges)
        if self._virtual:
            for _name, daemon in self._daemons.running:
                go_last(daemon.pid)

    def cut_off(self, name: str) -> None:
        """Take a bridge's connections to controllers away, for good until `reconnect`; its rules stay."""
        self._connect(name, self._nowhere)

    def renew(self, bridge: Bridge) -> None:
        """Throw a bridge away that is cut off, with all that it knows and what is cached of it, and make it anew.

        Open vSwitch also throws away what it caches of all other bridges, and starts its threads anew.
        """
        self._vsctl("del-br", bridge.name, timeout_s=_CONFIGURE_S)
        self._make([bridge], self._nowhere)

    def reconnect(self, name: str) -> None:
        """Let a bridge that is cut off connect to its controllers."""
        self._connect(name, self._controllers)

    @property
    def _nowhere(self) -> Sequence[str]:
        # A bridge without any controller is another thing: to become one flushes the caches of all bridges.
        return [f"unix:{self._folder}/nobody"] * len(self._controllers)

    def _connect(self, name: str, targets: Sequence[str]) -> None:
        words: list[str] = []
        for uuid, target in zip(self._connections[name], targets, strict=True):
            words += ["--", "set", "Controller", uuid, f'target="{target}"']
        if words:
            self._vsctl(*words, timeout_s=_CONFIGURE_S)

    def _check_ports(self, bridges: Sequence[Bridge]) -> None:
        text = self._vsctl("--format=json", "--columns=name,ofport,error", "list", "Interface", timeout_s=_START_S)
        found: dict[str, tuple[Any, Any]] = {name: (number, error) for name, number, error in json.loads(text)["data"]}
        for bridge in bridges:
            for interface, number in bridge.ports:
                there, error = found.get(interface, (None, None))
                if there != number:
                    said = f": {error}" if isinstance(error, str) else ""
                    raise NodeError(f"switch {bridge.name}: port {interface} has number {there}, not {number}{said}")

    def wait_connected(self, timeout_s: int) -> None:
        """Wait until every switch is connected to each of its controllers.

        Args:
            timeout_s: How long at most, by the clock of the kernel that this runs in.

        Raises:
            ControllerError: A switch is not connected; names it and the reason that Open vSwitch gives.
        """
        words: list[str] = []
        for uuid in chain.from_iterable(self._connections.values()):
            words += ["--", "wait-until", "Controller", uuid, "is_connected=true"]
        if not words:
            return
        try:
            self._vsctl(*words, timeout_s=timeout_s)
        except CommandError:
            raise ControllerError(self._not_connected(timeout_s)) from None

    def _not_connected(self, timeout_s: int) -> str:
        columns = "--columns=_uuid,target,is_connected,status"
        rows = json.loads(self._vsctl("--format=json", columns, "list", "Controller", timeout_s=_START_S))["data"]
        for bridge, uuids in self._connections.items():
            for (_kind, row_uuid), target, connected, (_map, status) in rows:
                if row_uuid in uuids and not connected:
                    reason = dict(status).get("last_error", "no answer")
                    return f"switch {bridge} did not connect to {target} within {timeout_s} s: {reason}"
        return f"a switch did not connect to its controllers within {timeout_s} s"

    def roles(self) -> dict[str, set[str]]:
        """By controller: the roles that it has at the switches; ``other`` where it asked for none."""
        listed = self._vsctl("--format=json", "--columns=target,role", "list", "Controller", timeout_s=_START_S)
        found: dict[str, set[str]] = {}
        for target, role in json.loads(listed)["data"]:
            found.setdefault(target, set()).add(role if isinstance(role, str) else "")
        return found

    def ofctl(self, *words: str, stdin: str | None = None) -> str:
        """Run ``ovs-ofctl`` with OpenFlow 1.3 and return what it prints.

        Raises:
            CommandError: It failed.
        """
        return self._daemons.run("ovs-ofctl", "-O", "OpenFlow13", *words, stdin=stdin)

    def stop(self) -> None:
        """Remove the bridges and end the daemons; may be called at any time, also twice.

        Raises:
            NodeError: A daemon does not end.
        """
        if self._bridges:
            try:
                self._daemons.check()
                words = [word for name in self._bridges for word in ("--", "--if-exists", "del-br", name)]
                self._vsctl(*words, timeout_s=_CONFIGURE_S)
            except (CommandError, NodeError):
                self._remove_datapath()
        self._bridges = []
        self._daemons.end()

    def _remove_datapath(self) -> None:
        """What the daemons would have removed if they were well: all bridges' interfaces go with the datapath."""
        if not self._userspace:
            with suppress(CommandError, NodeError):
                self._daemons.run("ovs-dpctl", "del-dp", datapath_interface(userspace=False))

    def _vsctl(self, *words: str, timeout_s: int) -> str:
        return self._daemons.run("ovs-vsctl", f"--timeout={timeout_s}", *words)


def wait_for_clock() -> None:
    """Let the clock pass the time before which Open vSwitch sees no CPU: free in virtual time, long past elsewhere."""
    missing = FIRST_CPU_COUNT_S - time.monotonic()
    if missing > 0:
        time.sleep(missing)
