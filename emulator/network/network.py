"""Networks as their users see them: hosts to run programs in, counters to read, checks to make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

from emulator.errors import NodeError
from emulator.model.detour import Detour
from emulator.network.construction import Construction, Plan
from emulator.network.counters import QueueReader, read_interface_counters
from emulator.network.faults import Faults
from emulator.network.host import EmulatedHost
from emulator.network.interfaces import InterfaceCounters
from emulator.network.namespace import Namespace
from emulator.network.netlink import NetlinkSocket
from emulator.network.offloads import EthtoolSocket
from emulator.network.openvswitch import OpenVSwitch
from emulator.network.ports import Port
from emulator.network.rerouting import Rerouting
from emulator.network.shaping import class_queues
from emulator.network.tables import Tables
from emulator.network.verification import sample, star, verify
from emulator.network.wiring import check_ports

if TYPE_CHECKING:
    from emulator.network.mininet_view import FabricMininet

CONNECT_TIMEOUT_S = 30
REACH_TIMEOUT_S = 10.0


class Network:
    """A fabric in a kernel, planned by `build`. Use it as a context, so that it is taken down whatever happens.

    Hosts have a network namespace and no process. Switches are bridges of a private Open vSwitch in the namespace of
    the calling thread, as in Mininet.

    Attributes:
        fabric: What is built.
        links: Both ends of every link.
        routing: Routes of hosts that forward for each other; None: all are neighbours.
    """

    def __init__(self, plan: Plan) -> None:
        self.fabric = plan.fabric
        self.links = plan.links
        self.routing = plan.routing
        self._made = Construction(plan)
        self._tables = Tables(self._made, plan.routing) if plan.routing is not None else None
        self._faults = Faults(self._made, self._tables)

    def start(self) -> Network:
        """Build everything and read back what the kernel set.

        Raises:
            LinkError: A link could not be made, or the kernel set something else than was asked for.
            NodeError: A host or switch could not be made.
            HostError: The kernel or the machine lacks something, or another network is in the way.
        """
        self._made.start()
        return self

    def stop(self) -> None:
        """End all programs and take everything down; may be called twice.

        Raises:
            EmulatorError: The first thing that could not be removed; the rest is removed all the same.
        """
        self._forget_mininet()
        self._made.stop()

    def _forget_mininet(self) -> None:
        shown = self.__dict__.pop("mininet", None)
        if shown is not None:
            shown.stop()

    def __enter__(self) -> Network:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            self._forget_mininet()
            self._made.stop_after(error)

    def host(self, name: str) -> EmulatedHost:
        """A running host.

        Raises:
            NodeError: There is none of this name.
        """
        if name not in self._made.hosts:
            raise NodeError(f"there is no host {name!r}")
        return self._made.hosts[name]

    @property
    def hosts(self) -> tuple[EmulatedHost, ...]:
        """All hosts, in the fabric's order."""
        return tuple(self._made.hosts.values())

    @property
    def switches(self) -> OpenVSwitch:
        """The switches' daemons, for flows and for their tools' environment.

        Raises:
            NodeError: The fabric has no switch, or the network is not started.
        """
        if self._made.switches is None:
            raise NodeError("the network has no switch")
        return self._made.switches

    @cached_property
    def mininet(self) -> FabricMininet:
        """The same network as Mininet objects: ``mininet.get('h0').cmd('…')``, tests and the command line work."""
        from emulator.network.mininet_view import FabricMininet

        return FabricMininet(self)

    def wait_connected(self, timeout_s: int = CONNECT_TIMEOUT_S) -> None:
        """Wait until every switch is connected to its controllers; at once if there is none.

        Args:
            timeout_s: How long at most, by this kernel's clock.

        Raises:
            ControllerError: A switch is not connected.
        """
        if self._made.switches is not None:
            self._made.switches.wait_connected(timeout_s)

    def check(self) -> None:
        """Read back what the kernel has set on every link, as `start` did.

        Raises:
            LinkError: Something is not (or no longer) as planned.
        """
        for host in self.hosts:
            self._check_in(host.network_namespace, self._made.ports[host.name])
        self._check_in(self._made.namespace(""), self._made.switch_ports())

    def _check_in(self, namespace: Namespace, ports: Sequence[Port]) -> None:
        with namespace.entered(), NetlinkSocket() as kernel, EthtoolSocket() as features:
            check_ports(kernel, features, ports)

    def verify(self, timeout_s: float = REACH_TIMEOUT_S, far: Mapping[str, str] | None = None) -> None:
        """Make sure that hosts reach each other: every one and the first one; or where they forward, a sample.

        Args:
            timeout_s: How long at most, by this kernel's clock.
            far: For every end of a routed fabric one that it is to reach, besides eight at random; None: only those.

        Raises:
            NodeError: Two hosts do not; names them.
        """
        hosts = self._made.hosts
        verify(hosts, star(list(hosts)) if self.routing is None else sample(self.fabric, far or {}), timeout_s)

    def cut(self, link: str) -> None:
        """Pull a link: both ends lose carrier, and what is on the line or waits for it is lost.

        Args:
            link: Such as ``la1-spa1``; of parallel links, its full name.

        Raises:
            LinkError: There is no such link, or something is wrong with it already.
        """
        self._faults.cut(link)

    def silence(self, link: str) -> None:
        """Let a link lose all packets without either end noticing (see `cut`)."""
        self._faults.silence(link)

    def restore(self, link: str) -> None:
        """Make a link that was cut or silenced whole again, with its shaping and its hosts' routes (see `cut`)."""
        self._faults.restore(link)

    def stop_switch(self, name: str) -> None:
        """Take a switch's power: its links lose carrier, its flows are gone, its controller's connection ends.

        Raises:
            NodeError: There is no such switch, or it is stopped already.
        """
        self._faults.stop_switch(name)

    def start_switch(self, name: str) -> None:
        """Give a stopped switch its power back: it comes back empty and connects to its controller.

        Raises:
            NodeError: There is no such switch, or it is not stopped.
        """
        self._faults.start_switch(name)

    def mend(self) -> None:
        """Start every stopped switch and restore every link that was cut or silenced; nothing if all is well."""
        self._faults.mend()

    def broken_links(self) -> frozenset[int]:
        """Links without carrier, as the nodes of a routed fabric see it, by index in the fabric."""
        return self._rerouting.broken_links()

    def silent_links(self) -> frozenset[int]:
        """Links of a routed fabric with carrier over which nothing passes; takes 1 ms if there are any.

        Raises:
            LinkError: A kernel does not let us look.
        """
        return self._rerouting.silent_links()

    def disable(self, link: str) -> None:
        """Turn a link off that is of no use: both ends lose carrier, until it is restored (see `cut`)."""
        self._faults.disable(link)

    def take_detour(self, detour: Detour | None) -> int:
        """Send packets of a routed fabric around broken links; None: by its own tables again.

        Returns:
            Number of routes that were changed.

        Raises:
            LinkError: The kernel refused a route.
        """
        return self._rerouting.take(detour)

    @cached_property
    def _rerouting(self) -> Rerouting:
        if self.routing is None or self._tables is None:
            raise NodeError("nodes of this network do not forward for each other: there are no routes to change")
        return Rerouting(self._made, self.routing, self._tables)

    def queue_reader(self, names: Sequence[str] | None = None) -> QueueReader:
        """A reader of the queues of some interfaces, to be closed by the caller.

        Args:
            names: Interface names; None: all that are shaped.

        Raises:
            LinkError: One of them does not exist or is not shaped.
        """
        by_name = {port.interface: port for pair in self.links for port in pair if port.qdiscs}
        wanted = list(by_name) if names is None else list(names)
        for name in wanted:
            if name not in by_name:
                raise NodeError(f"there is no shaped interface {name!r}")
        places: dict[int, tuple[Namespace, list[tuple[Port, int]]]] = {}
        for name in wanted:
            namespace = self._made.namespace(by_name[name].node)
            places.setdefault(namespace.fd, (namespace, []))[1].append((by_name[name], self._made.indices[name]))
        return QueueReader(places.values())

    def class_handles(self) -> dict[str, dict[str, int]]:
        """Handles of the queues of storage and compute, by interface, where links keep the two apart."""
        queues = {port.interface: class_queues(port.qdiscs) for pair in self.links for port in pair}
        return {name: {kind: one.handle for kind, one in found.items()} for name, found in queues.items() if found}

    def counters(self) -> dict[str, InterfaceCounters]:
        """Counters of every interface of every link, by interface name."""
        places = [host.network_namespace for host in self._made.hosts.values()]
        if self.fabric.switches:
            places.append(self._made.namespace(""))
        ours = {port.interface for pair in self.links for port in pair}
        return {name: one for name, one in read_interface_counters(places).items() if name in ours}
