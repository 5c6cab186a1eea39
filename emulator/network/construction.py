"""The making of a network in the kernel, step by step, and its undoing in reverse."""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import EmulatorError, HostError, InternalError, LinkError, NodeError
from emulator.model.fabric import Fabric, Node
from emulator.model.routing import Routing
from emulator.network import capability, interfaces
from emulator.network.bridge import Bridge
from emulator.network.collecting import uncollected
from emulator.network.host import EmulatedHost, end_programs
from emulator.network.inheritance import inherited
from emulator.network.namespace import Namespace, coming_back, read_sysctl, write_sysctl
from emulator.network.netlink import NetlinkSocket
from emulator.network.offloads import EthtoolSocket
from emulator.network.openvswitch import OpenVSwitch, datapath_interface
from emulator.network.ports import Port
from emulator.network.reach import Neighbours, Prefixes, Reach
from emulator.network.wiring import (
    bring_up,
    by_second_host,
    check_ports,
    create_links,
    create_running_links,
    indices,
    is_between_hosts,
    not_running,
    port_requests,
    set_up_ports,
    settled_interfaces,
)

RUNNING_TIMEOUT_S = 10.0
RUNNING_POLL_S = 0.01
_TUNNELS = "net.core.fb_tunnels_only_for_init_net"
_CONGESTION = "net.ipv4.tcp_congestion_control"
_ALLOWED = "net.ipv4.tcp_allowed_congestion_control"


@dataclass(frozen=True)
class Plan:
    """What is to be made.

    Attributes:
        fabric: Nodes and links.
        links: Both ends of every link, shaped or not.
        controllers: OpenFlow controllers of the switches.
        fail_mode: What switches do without one.
        sysctls: Set in every host.
        userspace: Open vSwitch forwards in its daemon.
        routing: Routes of the nodes, where they forward for each other; None: all hosts are neighbours.
    """

    fabric: Fabric
    links: Sequence[tuple[Port, Port]]
    controllers: Sequence[str]
    fail_mode: str
    sysctls: Mapping[str, str]
    userspace: bool
    routing: Routing | None = None


class Construction:
    """A plan made real. Whatever is made is noted first, and removed in reverse on every way out.

    Attributes:
        plan: What is made.
        hosts: By name, in the fabric's order; filled by `start`.
        indices: Interface number by interface name; filled by `start`.
        switches: The switches' daemons; None before `start`, and if there are no switches.
        ports: Ends of links by node, in port order.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.hosts: dict[str, EmulatedHost] = {}
        self.indices: dict[str, int] = {}
        self.switches: OpenVSwitch | None = None
        self.ports: dict[str, list[Port]] = {node.name: [] for node in plan.fabric.nodes}
        for pair in plan.links:
            for port in pair:
                self.ports[port.node].append(port)
        for ports in self.ports.values():
            ports.sort(key=lambda port: port.number)  # links may come in any order
        self._here: Namespace | None = None
        self._undo = ExitStack()

    def start(self) -> None:
        """Build everything and read back what the kernel set.

        Raises:
            LinkError: A link could not be made, or the kernel set something else than was asked for.
            NodeError: A host or switch could not be made.
            HostError: The kernel or the machine lacks something, or another network is in the way.
        """
        try:
            with uncollected(), ExitStack() as sockets:
                self._start(sockets)
        except BaseException as error:
            self.stop_after(error)
            raise

    def _start(self, sockets: ExitStack) -> None:
        if any(port.qdiscs for pair in self.plan.links for port in pair):
            capability.require_netem()
        if self.plan.fabric.switches and not self.plan.userspace:
            capability.require_kernel_datapath()
        _allow_descriptors(4 * len(self.plan.fabric.nodes) + 256)
        self._here = Namespace.current("switches")
        self._undo.callback(self._here.close)
        self._check_names_free()
        self._skip_tunnels()
        self._allow_congestion_control()
        kernels = self._make_hosts(sockets)
        self._undo.callback(self._remove_switch_interfaces)
        create_links([pair for pair in self.plan.links if not is_between_hosts(pair)], self._namespace_fd)
        with NetlinkSocket() as kernel:
            bring_up(kernel, self.switch_ports())
        self._set_up_hosts(kernels)
        if self.plan.fabric.switches:
            self._set_up_switches()
        self._check(kernels)
        self._undo.callback(self._end_programs)

    def _make_hosts(self, sockets: ExitStack) -> dict[str, NetlinkSocket]:
        """Make the namespaces of hosts, and the links between two hosts as soon as there are both.

        Returns:
            A socket in each, by which everything in it can be set without going there again; closed by *sockets*.
        """
        kernels: dict[str, NetlinkSocket] = {}
        links = by_second_host(self.plan.links, [node.name for node in self.plan.fabric.hosts])
        with inherited(self.plan.sysctls) as lacking, coming_back("switches"):
            for node in self.plan.fabric.hosts:
                namespace = Namespace.create_here(node.name, lacking)
                self._undo.callback(namespace.close)
                address = str(node.ip.ip) if node.ip else ""
                self.hosts[node.name] = EmulatedHost(node.name, address, self._interfaces(node.name), namespace)
                kernel = kernels[node.name] = sockets.enter_context(NetlinkSocket())
                create_running_links(kernel, links.get(node.name, ()), self._namespace_fd)
        return kernels

    def switch_ports(self) -> list[Port]:
        """Ends of links that belong to switches; all are in the namespace that the network was made from."""
        return [port for switch in self.plan.fabric.switches for port in self.ports[switch.name]]

    def _check(self, kernels: Mapping[str, NetlinkSocket]) -> None:
        """Wait until the kernel uses every link, some time after both ends are up, and read back what it set."""
        deadline = time.monotonic() + RUNNING_TIMEOUT_S
        with NetlinkSocket() as here:
            places = [(kernels[name], self.ports[name]) for name in self.hosts]
            for kernel, ports in [*places, (here, self.switch_ports())]:
                while late := not_running(there := settled_interfaces(kernel, ports), ports):
                    if time.monotonic() > deadline:
                        raise LinkError(f"interface {late[0]} does not run within {RUNNING_TIMEOUT_S:g} s")
                    time.sleep(RUNNING_POLL_S)
                check_ports(kernel, EthtoolSocket(kernel), ports, there)

    def _skip_tunnels(self) -> None:
        """Keep the kernel from making half a dozen tunnel interfaces in every new namespace; restored afterwards."""
        with suppress(NodeError):  # a kernel without tunnels, or not its first namespace
            before = write_sysctl(_TUNNELS, "1", "switches")
            self._undo.callback(write_sysctl, _TUNNELS, before, "switches")

    def _allow_congestion_control(self) -> None:
        """Let hosts have the congestion control that they are to have: some are for the first namespace only."""
        wanted = self.plan.sysctls.get(_CONGESTION)
        if wanted is None:
            return
        allowed = read_sysctl(_ALLOWED, "switches")
        if wanted not in allowed.split():
            self._undo.callback(write_sysctl, _ALLOWED, allowed, "switches")
            write_sysctl(_ALLOWED, f"{allowed} {wanted}", "switches")

    def _check_names_free(self) -> None:
        with NetlinkSocket() as kernel:
            taken = indices(kernel)
        names = [name for switch in self.plan.fabric.switches for name in (switch.name, *self._interfaces(switch.name))]
        if names:
            names.append(datapath_interface(userspace=self.plan.userspace))
        for name in names:
            if name in taken:
                raise HostError(f"there is an interface {name!r} already: another network is running, or left it")

    def _interfaces(self, node: str) -> tuple[str, ...]:
        return tuple(port.interface for port in self.ports[node])

    def _namespace_fd(self, name: str) -> int:
        return self.namespace(name).fd

    def namespace(self, name: str) -> Namespace:
        """The namespace of a host; of anything else, the one that the network was made from.

        Raises:
            InternalError: Nothing is made yet.
        """
        if name in self.hosts:
            return self.hosts[name].network_namespace
        if self._here is None:
            raise InternalError("the network is not started")
        return self._here

    def _set_up_hosts(self, kernels: Mapping[str, NetlinkSocket]) -> None:
        routing = self.plan.routing
        reach: Reach = Neighbours(self.plan.fabric) if routing is None else Prefixes(routing, self.plan.links)
        for node in self.plan.fabric.hosts:
            ports, kernel = self.ports[node.name], kernels[node.name]
            found = indices(kernel)
            self.indices.update(found)
            needs = reach.needs(node.name, ports, found)
            kernel.execute([*port_requests(EthtoolSocket(kernel), ports, found), *needs.requests])
            for key, value in needs.sysctls.items():
                self.hosts[node.name].sysctl(key, value)

    def _set_up_switches(self) -> None:
        ports = self.switch_ports()
        for port in ports:
            with suppress(NodeError):  # a kernel without IPv6
                write_sysctl(f"net/ipv6/conf/{port.interface}/disable_ipv6", "1", port.node)
        folder = Path(tempfile.mkdtemp(prefix="icgw-ovs-"))
        self._undo.callback(shutil.rmtree, folder, ignore_errors=True)
        self.switches = OpenVSwitch(folder, userspace=self.plan.userspace)
        self._undo.callback(self.switches.stop)
        self.switches.start()
        bridges = [self.bridge(one) for one in self.plan.fabric.switches]
        self.switches.configure(bridges, controllers=self.plan.controllers, fail_mode=self.plan.fail_mode)
        with NetlinkSocket() as kernel, EthtoolSocket() as features:
            self.indices.update(set_up_ports(kernel, features, ports))

    def bridge(self, switch: Node) -> Bridge:
        """What a switch is made of."""
        ports = tuple((port.interface, port.number) for port in self.ports[switch.name])
        return Bridge(switch.name, switch.dpid or 0, ports)

    def stop(self) -> None:
        """End all programs and take everything down; may be called twice.

        Raises:
            EmulatorError: The first thing that could not be removed; the rest is removed all the same.
        """
        self._undo.close()

    def stop_after(self, error: BaseException) -> None:
        """Take everything down because of an error, which stays the one that is raised."""
        try:
            self.stop()
        except EmulatorError as second:
            error.__context__ = second  # beside the first, never instead of it

    def _end_programs(self) -> None:
        end_programs(list(self.hosts.values()))

    def _remove_switch_interfaces(self) -> None:
        """Remove what is not in a host's namespace: one end of each pair, the other goes with it."""
        with NetlinkSocket() as kernel:
            found = indices(kernel)
            ends = (
                next((one for one in pair if one.interface in found and not one.at_host), None)
                for pair in self.plan.links
            )
            kernel.execute([interfaces.delete(found[one.interface], one.interface) for one in ends if one])


def _allow_descriptors(wanted: int) -> None:
    """Raise this process's limit of open files; other processes are not affected."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise HostError(f"{wanted} open files are needed and {hard} allowed: raise the limit (ulimit -n)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
