"""Builds a fabric in the current kernel, virtual or native, and takes it down again."""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from emulator.errors import EmulatorError, HostError, InternalError, LinkError, NodeError, TopologyError
from emulator.model.fabric import Fabric
from emulator.network import capability, interfaces
from emulator.network.counters import QueueReader, read_interface_counters
from emulator.network.host import EmulatedHost, end_programs
from emulator.network.interfaces import InterfaceCounters
from emulator.network.namespace import Namespace, read_sysctl, write_sysctl
from emulator.network.netlink import NetlinkSocket
from emulator.network.offloads import EthtoolSocket
from emulator.network.openvswitch import Bridge, OpenVSwitch
from emulator.network.ports import Port, link_ports
from emulator.network.probe import unreachable
from emulator.network.wiring import Address, bring_up, check_ports, create_links, indices, not_running, set_up_ports

if TYPE_CHECKING:
    from emulator.network.mininet_view import FabricMininet

HOST_SYSCTLS: Mapping[str, str] = {
    # IPv6's own packets (neighbour discovery, group reports) would be noise on the lines.
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
}
"""Set in every host, besides what the caller asks for."""

CONNECT_TIMEOUT_S = 30
RUNNING_TIMEOUT_S = 10.0
_TUNNELS = "net.core.fb_tunnels_only_for_init_net"
_CONGESTION = "net.ipv4.tcp_congestion_control"
_ALLOWED = "net.ipv4.tcp_allowed_congestion_control"
RUNNING_POLL_S = 0.01
REACH_TIMEOUT_S = 10.0


class Network:
    """A fabric in a kernel, made by `build`. Use it as a context, so that it is taken down whatever happens.

    Hosts have a network namespace and no process. Switches are bridges of a private Open vSwitch in the namespace of
    the calling thread, as in Mininet.

    Attributes:
        fabric: What is built.
        links: Both ends of every link.
    """

    def __init__(
        self,
        fabric: Fabric,
        links: Sequence[tuple[Port, Port]],
        *,
        controller: str | None,
        fail_mode: str,
        sysctls: Mapping[str, str],
        userspace: bool,
    ) -> None:
        self.fabric = fabric
        self.links = links
        self._controller = controller
        self._fail_mode = fail_mode
        self._sysctls = sysctls
        self._userspace = userspace
        self._hosts: dict[str, EmulatedHost] = {}
        self._indices: dict[str, int] = {}
        self._here: Namespace | None = None
        self._switches: OpenVSwitch | None = None
        self._undo = ExitStack()
        self._ports: dict[str, list[Port]] = {node.name: [] for node in fabric.nodes}
        for pair in links:
            for port in pair:
                self._ports[port.node].append(port)

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> Network:
        """Build everything and read back what the kernel set.

        Raises:
            LinkError: A link could not be made, or the kernel set something else than was asked for.
            NodeError: A host or switch could not be made.
            HostError: The kernel or the machine lacks something, or another network is in the way.
        """
        try:
            self._start()
        except BaseException as error:
            self._stop_after(error)
            raise
        return self

    def _start(self) -> None:
        if any(port.qdiscs for pair in self.links for port in pair):
            capability.require_netem()
        if self.fabric.switches and not self._userspace:
            capability.require_kernel_datapath()
        _allow_descriptors(4 * len(self.fabric.nodes) + 256)
        self._here = Namespace.current("switches")
        self._undo.callback(self._here.close)
        self._check_names_free()
        self._skip_tunnels()
        self._allow_congestion_control()
        for node in self.fabric.hosts:
            namespace = Namespace.create(node.name, self._sysctls)
            self._undo.callback(namespace.close)
            own = tuple(port.interface for port in self._ports[node.name])
            self._hosts[node.name] = EmulatedHost(node.name, str(node.ip.ip) if node.ip else "", own, namespace)
        self._undo.callback(self._remove_switch_interfaces)
        create_links(self.links, self._namespace_fd)
        with NetlinkSocket() as kernel:
            bring_up(kernel, self._switch_ports())
        self._set_up_hosts()
        if self.fabric.switches:
            self._set_up_switches()
        self._wait_running()
        self._undo.callback(self._end_programs)

    def _switch_ports(self) -> list[Port]:
        return [port for switch in self.fabric.switches for port in self._ports[switch.name]]

    def _wait_running(self) -> None:
        """Wait until the kernel uses every link: it notices up to a second late that both ends are up."""
        deadline = time.monotonic() + RUNNING_TIMEOUT_S
        places = [(host.network_namespace, self._ports[host.name]) for host in self.hosts]
        for namespace, ports in [*places, (self._namespace(""), self._switch_ports())]:
            with namespace.entered(), NetlinkSocket() as kernel:
                while late := not_running(kernel, ports):
                    if time.monotonic() > deadline:
                        raise LinkError(f"interface {late[0]} does not run within {RUNNING_TIMEOUT_S:g} s")
                    time.sleep(RUNNING_POLL_S)

    def _skip_tunnels(self) -> None:
        """Keep the kernel from making half a dozen tunnel interfaces in every new namespace; restored afterwards."""
        with suppress(NodeError):  # a kernel without tunnels, or not its first namespace
            before = write_sysctl(_TUNNELS, "1", "switches")
            self._undo.callback(write_sysctl, _TUNNELS, before, "switches")

    def _allow_congestion_control(self) -> None:
        """Let hosts have the congestion control that they are to have: some are for the first namespace only."""
        wanted = self._sysctls.get(_CONGESTION)
        if wanted is None:
            return
        allowed = read_sysctl(_ALLOWED, "switches")
        if wanted not in allowed.split():
            self._undo.callback(write_sysctl, _ALLOWED, allowed, "switches")
            write_sysctl(_ALLOWED, f"{allowed} {wanted}", "switches")

    def _check_names_free(self) -> None:
        with NetlinkSocket() as kernel:
            taken = indices(kernel)
        for switch in self.fabric.switches:
            for name in (switch.name, *(port.interface for port in self._ports[switch.name])):
                if name in taken:
                    raise HostError(f"there is an interface {name!r} already: another network is running, or left it")

    def _namespace_fd(self, name: str) -> int:
        return self._namespace(name).fd

    def _namespace(self, name: str) -> Namespace:
        if name in self._hosts:
            return self._hosts[name].network_namespace
        if self._here is None:
            raise InternalError("the network is not started")
        return self._here

    def _set_up_hosts(self) -> None:
        tails = {
            node.name: interfaces.neighbour_tail(node.ip.ip, node.mac)
            for node in self.fabric.hosts
            if node.ip and node.mac
        }
        for node in self.fabric.hosts:
            ports = self._ports[node.name]
            others = [tail for name, tail in tails.items() if name != node.name]
            address = Address(node.name, node.ip, others) if node.ip and ports else None
            with self._hosts[node.name].namespace(), NetlinkSocket() as kernel, EthtoolSocket() as features:
                self._indices.update(set_up_ports(kernel, features, ports, address))
                check_ports(kernel, features, ports)

    def _set_up_switches(self) -> None:
        ports = self._switch_ports()
        for port in ports:
            with suppress(NodeError):  # a kernel without IPv6
                write_sysctl(f"net/ipv6/conf/{port.interface}/disable_ipv6", "1", port.node)
        folder = Path(tempfile.mkdtemp(prefix="icgw-ovs-"))
        self._undo.callback(shutil.rmtree, folder, ignore_errors=True)
        self._switches = OpenVSwitch(folder, userspace=self._userspace)
        self._undo.callback(self._switches.stop)
        self._switches.start()
        bridges = [
            Bridge(one.name, one.dpid or 0, tuple((port.interface, port.number) for port in self._ports[one.name]))
            for one in self.fabric.switches
        ]
        self._switches.configure(bridges, controller=self._controller, fail_mode=self._fail_mode)
        with NetlinkSocket() as kernel, EthtoolSocket() as features:
            self._indices.update(set_up_ports(kernel, features, ports))
            check_ports(kernel, features, ports)

    def stop(self) -> None:
        """End all programs and take everything down; may be called twice.

        Raises:
            EmulatorError: The first thing that could not be removed; the rest is removed all the same.
        """
        shown = self.__dict__.pop("mininet", None)
        if shown is not None:
            shown.stop()
        self._undo.close()

    def _stop_after(self, error: BaseException) -> None:
        try:
            self.stop()
        except EmulatorError as second:
            error.__context__ = second  # beside the first, never instead of it

    def _end_programs(self) -> None:
        end_programs(list(self._hosts.values()))

    def _remove_switch_interfaces(self) -> None:
        """Remove what is not in a host's namespace: one end of each pair, the other goes with it."""
        with NetlinkSocket() as kernel:
            found = indices(kernel)
            ends = (
                next((one for one in pair if one.interface in found and not one.at_host), None) for pair in self.links
            )
            kernel.execute([interfaces.delete(found[one.interface], one.interface) for one in ends if one])

    def __enter__(self) -> Network:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            self._stop_after(error)

    # -- use ----------------------------------------------------------------------------------------------------------

    def host(self, name: str) -> EmulatedHost:
        """A running host.

        Raises:
            NodeError: There is none of this name.
        """
        if name not in self._hosts:
            raise NodeError(f"there is no host {name!r}")
        return self._hosts[name]

    @property
    def hosts(self) -> tuple[EmulatedHost, ...]:
        """All hosts, in the fabric's order."""
        return tuple(self._hosts.values())

    @property
    def switches(self) -> OpenVSwitch:
        """The switches' daemons, for flows and for their tools' environment.

        Raises:
            NodeError: The fabric has no switch, or the network is not started.
        """
        if self._switches is None:
            raise NodeError("the network has no switch")
        return self._switches

    @cached_property
    def mininet(self) -> FabricMininet:
        """The same network as Mininet objects: ``mininet.get('h0').cmd('…')``, tests and the command line work."""
        from emulator.network.mininet_view import FabricMininet

        return FabricMininet(self)

    def wait_connected(self, timeout_s: int = CONNECT_TIMEOUT_S) -> None:
        """Wait until every switch is connected to its controller; at once if there is none.

        Args:
            timeout_s: How long at most, by this kernel's clock.

        Raises:
            ControllerError: A switch is not connected.
        """
        if self._switches is not None:
            self._switches.wait_connected(timeout_s)

    def verify(self, timeout_s: float = REACH_TIMEOUT_S) -> None:
        """Make sure that every host and the first one reach each other.

        Args:
            timeout_s: How long at most, by this kernel's clock.

        Raises:
            NodeError: Two hosts do not; names them.
        """
        first, *others = self.hosts
        lost = unreachable([(other, first) for other in others], timeout_s)
        if lost:
            source, target = lost[0]
            more = f" (and {len(lost) - 1} more do not)" if len(lost) > 1 else ""
            raise NodeError(f"{source.name} does not reach {target.name} within {timeout_s:g} s{more}")

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
            namespace = self._namespace(by_name[name].node)
            places.setdefault(namespace.fd, (namespace, []))[1].append((by_name[name], self._indices[name]))
        return QueueReader(places.values())

    def counters(self) -> dict[str, InterfaceCounters]:
        """Counters of every interface of every link, by interface name."""
        places = [host.network_namespace for host in self._hosts.values()]
        if self._here is not None and self.fabric.switches:
            places.append(self._here)
        ours = {port.interface for pair in self.links for port in pair}
        return {name: one for name, one in read_interface_counters(places).items() if name in ours}


def build(
    fabric: Fabric,
    *,
    controller: str | None = None,
    fail_mode: str | None = None,
    shaped: bool = True,
    checksum_offload: bool = True,
    userspace: bool = False,
    sysctls: Mapping[str, str] | None = None,
    seed: int = 1,
) -> Network:
    """Plan a network; `Network.start`, or entering it as a context, builds it.

    Args:
        fabric: What to build.
        controller: OpenFlow controller such as ``tcp:127.0.0.1:6653``; None: none.
        fail_mode: What switches do without a controller: ``secure`` (only flows that they are given) or ``standalone``
            (learning bridges). None: ``secure`` with a controller, else ``standalone``.
        shaped: Whether links have their rate, delay and queue.
        checksum_offload: Whether hosts leave TCP and UDP checksums unfinished, which is free and fine between kernels.
            False where a program reads packets off an interface and sends them on. The userspace datapath is one.
        userspace: Open vSwitch forwards in its daemon, not in the kernel.
        sysctls: To set in every host, such as ``{"net.ipv4.tcp_ecn": "1"}``.
        seed: Of random losses.

    Raises:
        LinkError: A link's properties are beyond what the kernel can do.
        TopologyError: Learning bridges in a fabric with loops, where broadcasts would circle for ever.
    """
    mode = fail_mode or ("secure" if controller else "standalone")
    if mode == "standalone" and _has_loop(fabric):
        raise TopologyError(f"the switches of {fabric.name!r} form loops: without a controller broadcasts would circle")
    checksums = checksum_offload and not userspace
    links = link_ports(fabric, shaped=shaped, checksum_offload=checksums, seed=seed)
    return Network(
        fabric,
        links,
        controller=controller,
        fail_mode=mode,
        sysctls={**HOST_SYSCTLS, **(sysctls or {})},
        userspace=userspace,
    )


def _has_loop(fabric: Fabric) -> bool:
    """Whether the switches are joined in more ways than a tree."""
    leader = {switch.name: switch.name for switch in fabric.switches}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for link in fabric.links:
        if link.a in leader and link.b in leader:
            a, b = find(link.a), find(link.b)
            if a == b:
                return True
            leader[a] = b
    return False


def _allow_descriptors(wanted: int) -> None:
    """Raise this process's limit of open files; other processes are not affected."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise HostError(f"{wanted} open files are needed and {hard} allowed: raise the limit (ulimit -n)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
