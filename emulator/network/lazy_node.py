"""Mininet nodes without a process: the shell starts when the first command is given to it.

Method names follow Mininet, whose classes these stand in for.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from ipaddress import IPv4Address
from typing import Any, Protocol

from emulator.network import interfaces
from emulator.network.host import EmulatedHost, end_programs
from emulator.network.mininet_import import Host, Switch
from emulator.network.namespace import Namespace, quiet_sysctls
from emulator.network.netlink import NetlinkSocket
from emulator.network.wiring import LOOPBACK_INDEX, list_interfaces

_MNEXEC_OPTIONS = "-d"
"""Detach from the terminal. Mininet's own ``-c`` besides closes every descriptor number up to the limit of open files,
a million system calls on some machines; what this process has open is not inherited anyway."""


class LazyShell:
    """Mixed into a Mininet `Node`: starts the node's shell on demand, in the node's namespace.

    Mininet's own way, ``mnexec -n``, makes namespace and shell in one and mounts a fresh ``/sys``; here the shell joins
    a namespace that is there already, and the mounts stay as they are.
    """

    shell: Any
    inNamespace: bool  # noqa: N815
    _shell_wanted = False
    _pid: int | None = None

    def entered(self) -> AbstractContextManager[None]:
        """Put the calling thread where the node's programs run."""
        return nullcontext()

    @property
    def pid(self) -> int | None:
        """Process number of the shell; Mininet's own helpers use it to find the namespace, so it starts the shell."""
        self.need_shell()
        return self._pid

    @pid.setter
    def pid(self, value: int | None) -> None:
        self._pid = value

    def need_shell(self) -> None:
        """Start the shell if it is not running."""
        if self.shell is None and not self._shell_wanted:
            self._shell_wanted = True
            self.startShell()

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802
        """Start the shell, unless this is the constructor's call."""
        if not self._shell_wanted:
            return
        # A namespace of its own would be made for the shell if this were set.
        own, self.inNamespace = self.inNamespace, False
        try:
            with self.entered():
                super().startShell(mnopts or _MNEXEC_OPTIONS)  # type: ignore[misc]
        finally:
            self.inNamespace = own

    def sendCmd(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802
        """Give the shell a command."""
        self.need_shell()
        return super().sendCmd(*args, **kwargs)  # type: ignore[misc]

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        """Give the shell a command and return what it prints."""
        self.need_shell()
        return super().cmd(*args, **kwargs)  # type: ignore[misc]

    def popen(self, *args: Any, **kwargs: Any) -> Any:
        """Start a program beside the shell, without needing one."""
        kwargs.setdefault("mncmd", [])
        kwargs.setdefault("start_new_session", True)
        with self.entered():
            return super().popen(*args, **kwargs)  # type: ignore[misc]

    def __repr__(self) -> str:
        interfaces_text = ",".join(f"{one.name}:{one.IP()}" for one in self.intfList())  # type: ignore[attr-defined]
        pid = self._pid if self.shell else None
        return f"<{type(self).__name__} {self.name}: {interfaces_text} pid={pid}> "  # type: ignore[attr-defined]


class LazyHost(LazyShell, Host):  # type: ignore[misc]
    """A Mininet host that is a network namespace, without a process until a command is given to it.

    Args:
        name: Of the host.
        host: The host of a built network that it shows; None: make a namespace of its own.
    """

    def __init__(self, name: str, host: EmulatedHost | None = None, **params: Any) -> None:
        self._own = host is None
        if host is None:
            namespace = Namespace.create(name, quiet_sysctls())
            host = EmulatedHost(name, "", (), namespace)
        self.emulated = host
        super().__init__(name, **{**params, "inNamespace": True})

    def entered(self) -> AbstractContextManager[None]:
        """Put the calling thread into the host's namespace."""
        return self.emulated.namespace()

    def config(
        self,
        mac: str | None = None,
        ip: str | None = None,
        defaultRoute: str | None = None,  # noqa: N803
        lo: str = "up",
        **_: Any,
    ) -> dict[str, Any]:
        """Configure addresses without a shell; a default route needs one."""
        if lo == "up":
            with self.entered(), NetlinkSocket() as kernel:
                kernel.execute([interfaces.set_up(LOOPBACK_INDEX, self.name)])
        results: dict[str, Any] = {}
        self.setParam(results, "setMAC", mac=mac)
        self.setParam(results, "setIP", ip=ip)
        self.setParam(results, "setDefaultRoute", defaultRoute=defaultRoute)
        return results

    def setARP(self, ip: str, mac: str) -> str:  # noqa: N802
        """Enter a permanent ARP entry."""
        first = self.defaultIntf()
        with self.entered(), NetlinkSocket() as kernel:
            index = list_interfaces(kernel)[first.name].index
            kernel.execute(
                interfaces.add_neighbours(index, [interfaces.neighbour_tail(IPv4Address(ip), mac)], self.name)
            )
        return ""

    def terminate(self) -> None:
        """End the shell and whatever else runs in the host."""
        super().terminate()
        if self._own and self.emulated.network_namespace.fd >= 0:
            end_programs([self.emulated])
            self.emulated.network_namespace.close()


class LazyForwarder(LazyShell, Switch):  # type: ignore[misc]
    """A switch that routes, with a namespace of its own: shown as a switch, so that ``pingall`` does not ask it.

    Args:
        name: Of the switch.
        host: Where it lives in the built network.
        number: Unique; Mininet wants one for every switch.
    """

    def __init__(self, name: str, host: EmulatedHost, number: int, **params: Any) -> None:
        self.emulated = host
        super().__init__(name, dpid=f"{number:016x}", **{**params, "inNamespace": True})

    def entered(self) -> AbstractContextManager[None]:
        """Put the calling thread into the switch's namespace."""
        return self.emulated.namespace()

    def defaultIntf(self) -> None:  # noqa: N802
        """No interface is special: the address is the node's."""

    def dpctl(self, *_args: str) -> str:
        """Say that there is nothing to ask; for the command line, which asks all switches."""
        return f"{self.name} routes by prefixes: it has no flows (see: {self.name} ip route)\n"

    def start(self, controllers: Any) -> None:
        """Nothing: it runs as long as its network."""

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803
        """Nothing: it runs as long as its network."""


class Power(Protocol):
    """What stops and starts switches: the network that they belong to."""

    def stop_switch(self, name: str) -> None:
        """Stop one."""

    def start_switch(self, name: str) -> None:
        """Start it again."""


class LazySwitch(LazyShell, Switch):  # type: ignore[misc]
    """A switch of a built network as a Mininet node; making and removing it is the network's business."""

    def __init__(self, name: str, dpid: int, environment: dict[str, str], power: Power, **params: Any) -> None:
        self._environment = environment
        self._power = power
        self._runs = True
        super().__init__(name, dpid=f"{dpid:016x}", **{**params, "inNamespace": False})

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802
        """Start the shell with the switch's tools pointed at its daemons."""
        super().startShell(mnopts)
        if self.shell is not None:
            words = " ".join(f"{key}='{value}'" for key, value in self._environment.items())
            self.cmd(f"export {words}")

    def dpctl(self, *args: str) -> Any:
        """Run ``ovs-ofctl`` on this switch."""
        return self.cmd("ovs-ofctl", "-O", "OpenFlow13", args[0], self.name, *args[1:])

    def start(self, controllers: Any) -> None:  # noqa: ARG002
        """Start it again, empty, with the network's controller; nothing if it runs."""
        if not self._runs:
            self._power.start_switch(self.name)
            self._runs = True

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: ARG002, N803
        """Take its power, as the command line's ``switch s1 stop`` does; nothing if it is stopped."""
        if self._runs:
            self._power.stop_switch(self.name)
            self._runs = False
