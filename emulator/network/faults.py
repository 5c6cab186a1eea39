"""Links and switches of a running network that fail and come back.

What is wished for is kept apart from what the kernel was last told, so that faults may overlap: a link that was cut
while its switch was stopped is still dark when the switch comes back, and one interface is told once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence

from emulator.errors import LinkError, NodeError
from emulator.linux import xdp
from emulator.model.fabric import Link
from emulator.model.fault import link_named, short_name, switch_named
from emulator.network import interfaces
from emulator.network.construction import Construction
from emulator.network.host import kill_programs
from emulator.network.host_state import Forgotten, forgotten
from emulator.network.netlink import RTM_NEWNEIGH, RTM_SETLINK, NetlinkSocket, Request
from emulator.network.openvswitch import OpenVSwitch
from emulator.network.ports import Port
from emulator.network.tables import Tables
from emulator.units import NS_PER_S

_NOTICE_NS = 100_000
"""A switch without power is emptied this long after it lost its links."""


class Faults:
    """The faults of one network; taking the network down needs nothing from here.

    Args:
        made: The network.
        tables: Its routing tables, where nodes forward for each other; they follow the links.
    """

    def __init__(self, made: Construction, tables: Tables | None = None) -> None:
        self._made = made
        self._tables = tables
        self._fabric = made.plan.fabric
        self._ports = {port.interface: port for pair in made.plan.links for port in pair}
        self._lock = threading.Lock()
        self._cut: dict[str, Link] = {}
        self._silent: dict[str, Link] = {}
        self._disabled: dict[str, Link] = {}
        self._stopped: set[str] = set()
        self._down: set[str] = set()
        self._remembered: dict[str, list[Forgotten]] = {}

    def cut(self, name: str) -> None:
        """Pull a link: one end goes down, so the other loses carrier; what is on the line or waits for it is lost.

        Raises:
            LinkError: There is no such link, or it is cut or silent already.
        """
        with self._lock:
            link = self._whole(name)
            self._cut[link.name] = link
            self._settle()

    def silence(self, name: str) -> None:
        """Let a link lose everything that arrives over it, at both ends, which notice nothing.

        Raises:
            LinkError: There is no such link, or it is cut or silent already.
            MissingCapability: The kernel has no BPF.
        """
        with self._lock:
            link = self._whole(name)
            program = xdp.load_drop_all()
            try:
                self._attach(link, program)
            finally:
                os.close(program)
            self._silent[link.name] = link

    def disable(self, name: str) -> None:
        """Turn a silent link off, so that both ends notice; it stays so until it is restored.

        Raises:
            LinkError: There is no such link, or it is not silent.
        """
        with self._lock:
            link = link_named(self._fabric, name)
            if link.name not in self._silent:
                raise LinkError(f"link {name} is not silent, so it is not to be disabled")
            self._disabled[link.name] = link
            self._settle()

    def restore(self, name: str) -> None:
        """Make a link that was cut or silenced whole again.

        Raises:
            LinkError: There is no such link, or nothing is wrong with it.
        """
        with self._lock:
            link = link_named(self._fabric, name)
            if link.name in self._cut:
                del self._cut[link.name]
                self._settle()
            elif link.name in self._silent:
                self._attach(link, -1)
                del self._silent[link.name]
                if self._disabled.pop(link.name, None):
                    self._settle()
            else:
                raise LinkError(f"link {name} is neither cut nor silent, so it cannot be restored")

    def stop_switch(self, name: str) -> None:
        """Take a switch's power: its links lose carrier, its flows and its connection to the controller are gone.

        In a routed fabric any node's: its programs end. A program elsewhere keeps sockets that it has in the node.

        Raises:
            NodeError: There is no such switch, or it is stopped already.
        """
        with self._lock:
            switch = switch_named(self._fabric, name)
            if name in self._stopped:
                raise NodeError(f"switch {name} is stopped already")
            self._stopped.add(name)
            self._settle()
            if not switch.is_switch:
                kill_programs(self._made.hosts[name])
                return
            self._switches.cut_off(switch.name)
            # Making it anew disturbs how the other switches take notice of this: they do so first.
            time.sleep(_NOTICE_NS / NS_PER_S)
            self._switches.renew(self._made.bridge(switch))

    def start_switch(self, name: str) -> None:
        """Give a stopped switch its power back: it connects to the controller, empty, then its links.

        Raises:
            NodeError: There is no such switch, or it is not stopped.
        """
        with self._lock:
            switch = switch_named(self._fabric, name)
            if name not in self._stopped:
                raise NodeError(f"switch {name} is not stopped")
            if switch.is_switch:
                self._switches.reconnect(switch.name)
            self._stopped.remove(name)
            self._settle()

    def mend(self) -> None:
        """Start every stopped switch and restore every link."""
        for name in sorted(self._stopped):
            self.start_switch(name)
        for link in [*self._cut, *self._silent]:
            self.restore(link)

    @property
    def _switches(self) -> OpenVSwitch:
        if self._made.switches is None:
            raise NodeError("the network has no switch, or is not started")
        return self._made.switches

    def _whole(self, name: str) -> Link:
        link = link_named(self._fabric, name)
        for what, links in (("cut", self._cut), ("silent", self._silent)):
            if link.name in links:
                raise LinkError(f"link {name} is {what} already")
        return link

    def _dark_end(self, link: Link) -> str:
        """The end that goes down: a switch's if there is one, for a host forgets routes and neighbours by it."""
        return link.a_interface if self._fabric.by_name[link.a].is_switch else link.b_interface

    def _settle(self) -> None:
        """Take interfaces down and bring them up until they are as they should be."""
        off = [*self._cut.values(), *self._disabled.values()]
        wanted = {self._dark_end(link) for link in off}
        wanted |= {port.interface for name in self._stopped for port in self._made.ports[name]}
        dark = {*off, *(link for name in self._stopped for link in self._fabric.links_of(name))}
        if self._tables is not None:
            self._tables.lose(dark)
        self._tell(sorted(wanted - self._down), down=True)
        self._tell(sorted(self._down - wanted), down=False)
        if self._tables is not None:
            self._tables.use_all_but(dark)

    def _tell(self, names: Iterable[str], *, down: bool) -> None:
        for node, ports in self._by_place(names).items():
            with self._made.namespace(node).entered(), NetlinkSocket() as kernel:
                kernel.execute(self._take_down(kernel, ports) if down else self._bring_up(ports))
            self._down ^= {port.interface for port in ports}

    def _take_down(self, kernel: NetlinkSocket, ports: Sequence[Port]) -> list[Request]:
        for port in ports:
            if port.at_host:
                found = forgotten(kernel, self._made.indices[port.interface], port.node)
                # Routes between nodes that forward are put back from their tables: they may be others by then.
                ours = [one for one in found if self._tables is None or one.request.kind == RTM_NEWNEIGH]
                self._remembered[port.interface] = ours
        return [interfaces.set_down(self._made.indices[port.interface], port.node) for port in ports]

    def _bring_up(self, ports: Sequence[Port]) -> list[Request]:
        """Bring interfaces of one place up, all of them before what a host has forgotten: a route may need several."""
        requests = [interfaces.set_up(self._made.indices[port.interface], port.node) for port in ports]
        others = self._down.difference(port.interface for port in ports)
        down = {self._made.indices[name] for name in others if self._ports[name].node == ports[0].node}
        for port in ports:
            requests += [one.again(down) for one in self._remembered.pop(port.interface, [])]
        return requests

    def _by_place(self, names: Iterable[str]) -> dict[str, list[Port]]:
        """Ports by the host whose namespace they are in; those of switches share one, under no name."""
        places: dict[str, list[Port]] = {}
        for name in names:
            port = self._ports[name]
            places.setdefault(port.node if port.at_host else "", []).append(port)
        return places

    def _attach(self, link: Link, program: int) -> None:
        for node, ports in self._by_place((link.a_interface, link.b_interface)).items():
            with self._made.namespace(node).entered(), NetlinkSocket() as kernel:
                kernel.execute(
                    [
                        Request(
                            RTM_SETLINK,
                            xdp.attach_body(self._made.indices[port.interface], program),
                            f"link {short_name(link)}: XDP program at {port.interface}",
                        )
                        for port in ports
                    ]
                )
