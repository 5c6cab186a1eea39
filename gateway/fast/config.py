"""The fast gateway's file: its ports, who is who, what may pass and where things are. See ``docs/dataplane.md``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from ipaddress import ip_network
from pathlib import Path

from gateway.config import read_object
from gateway.dataplane.parse import MAX_BYTES
from gateway.dataplane.pipeline import Configuration
from gateway.dataplane.policy import Rule
from gateway.dataplane.route import LOCAL, NextHop, Route
from gateway.fast.reader import Address, Section
from gateway.fast.tables import (
    ENDPOINT_KEYS,
    ROUTE_KEYS,
    RULE_KEYS,
    read_endpoint,
    read_next_hops,
    read_route,
    read_rule,
    read_tenants,
    read_tunnel_ends,
)
from gateway.offload.steering import Hook
from gateway.rings.xsk import Mode

_KEYS = (
    "mode",
    "ports",
    "tenants",
    "rules",
    "next_hops",
    "routes",
    "endpoints",
    "tunnel_ends",
    "flow_capacity",
    "idle_s",
    "batch_frames",
    "frames",
    "ring_entries",
    "headroom_bytes",
    "xdp",
    "offload",
)

_MOST_FRAMES = 1 << 20


class PortKind(str, Enum):
    """How frames get in and out."""

    AF_XDP = "af_xdp"
    PACKET_MMAP = "packet_mmap"
    SOCKET = "socket"


@dataclass(frozen=True)
class PortSettings:
    """One interface.

    Attributes:
        interface: Its name.
        queues: Queues of it that are served, from the first.
    """

    interface: str
    queues: int


@dataclass(frozen=True)
class OffloadSettings:
    """The offload.

    Attributes:
        folder: Where its maps have their names, in a BPF file system.
        capacity: Flows at most.
        stay: Whether its flows go on when the daemon is stopped in order.
    """

    folder: Path
    capacity: int
    stay: bool


@dataclass(frozen=True)
class FastConfig:
    """The whole file.

    Attributes:
        kind: How frames get in and out.
        ports: The interfaces; a port's number is its place here.
        configuration: What the pipeline is told, without the ports' own Ethernet addresses.
        idle_ns: Flows without a packet for so long are forgotten.
        batch_frames: Frames that are handled at a time.
        frames: Frames that the memory has, or the ring of each port.
        ring_entries: Entries of each ring.
        headroom_bytes: Room before each frame for headers to come.
        hook: Where XDP programs see packets.
        mode: How AF_XDP moves bytes.
        busy_poll: Queues of AF_XDP are polled by the daemon while much arrives.
        offload: The offload; None: everything goes through user space.
    """

    kind: PortKind
    ports: Sequence[PortSettings]
    configuration: Configuration
    idle_ns: int
    batch_frames: int
    frames: int
    ring_entries: int
    headroom_bytes: int
    hook: Hook
    mode: Mode
    busy_poll: bool
    offload: OffloadSettings | None

    def for_host(self, macs: Mapping[int, bytes], own: Collection[Address], mtus: Mapping[int, int]) -> Configuration:
        """The pipeline's configuration on a host: what the file says, fitted to it; see `fitted`."""
        return self.fitted(self.configuration, macs, own, mtus)

    def fitted(
        self, told: Configuration, macs: Mapping[int, bytes], own: Collection[Address], mtus: Mapping[int, int]
    ) -> Configuration:
        """A configuration, from wherever it comes, as it has to be on a host.

        Args:
            told: What somebody wants.
            macs: The ports' Ethernet addresses, from which next hops are reached that name no address of their own.
            own: The host's own addresses, which are the kernel's business whoever asks.
            mtus: Longest IP packet of each port.

        Raises:
            ValueError: A next hop is behind a port that there is not.
        """
        hops = []
        for number, hop in enumerate(told.next_hops, start=1):
            if hop.port not in macs:
                raise ValueError(f"next hop {number} is behind port {hop.port}: there are {len(macs)} ports, from 0")
            mac, tunnel = macs[hop.port], hop.tunnel
            if tunnel is not None and not any(tunnel.source_mac):
                tunnel = replace(tunnel, source_mac=mac)
            most = min(hop.max_bytes, self._most_bytes(hop, mtus[hop.port]))
            source_mac = hop.source_mac if any(hop.source_mac) else mac
            hops.append(replace(hop, source_mac=source_mac, max_bytes=most, tunnel=tunnel))
        tenants = {*told.tenants.by_port.values(), *told.tenants.by_vlan.values()}
        named = {(route.tenant, route.network) for route in told.routes}
        local = [
            Route(tenant, ip_network(address), LOCAL)
            for tenant in sorted(tenants)
            for address in sorted(own, key=lambda one: (one.version, int(one)))
            if (tenant, ip_network(address)) not in named
        ]
        return replace(told, macs=macs, next_hops=hops, routes=[*told.routes, *local])

    def _most_bytes(self, hop: NextHop, mtu: int) -> int:
        """Longest frame that the port is given: packet sockets make frames of super-packets, but not in a tunnel."""
        if self.kind is PortKind.AF_XDP or hop.tunnel is not None:
            return mtu + 14 + (4 if hop.vlan else 0)
        return MAX_BYTES


def load_fast(path: Path) -> FastConfig:
    """Read the file.

    Raises:
        ScenarioError: Names the file, the key and what is wrong with it.
    """
    top = Section(str(path), "", read_object(path), _KEYS)
    kind = top.one_of("mode", {kind.value: kind for kind in PortKind})
    ports = [_port(one) for one in top.sections("ports", ("interface", "queues"))]
    if not ports:
        top.fail("ports", "a gateway has at least one port")
    numbers = {port.interface: number for number, port in enumerate(ports)}
    if len(numbers) < len(ports):
        top.fail("ports", "an interface is named twice")
    if kind is not PortKind.AF_XDP and any(port.queues > 1 for port in ports):
        top.fail("ports", f"queues are served one by one with af_xdp only, not with {kind.value}")
    hops = read_next_hops(top, numbers)
    configuration = Configuration(
        macs={},
        tenants=read_tenants(top, numbers),
        rules=[read_rule(one) for one in top.sections("rules", RULE_KEYS)] if "rules" in top else [Rule(allow=True)],
        routes=[read_route(one, hops) for one in top.sections("routes", ROUTE_KEYS)],
        next_hops=[hop for hop, _ in sorted(hops.values(), key=lambda one: one[1])],
        endpoints=[read_endpoint(one) for one in top.sections("endpoints", ENDPOINT_KEYS)],
        tunnel_ends=read_tunnel_ends(top),
        flow_capacity=top.whole("flow_capacity", 1, 1 << 22, 1 << 16),
    )
    xdp = top.section("xdp", ("hook", "copy", "busy_poll"))
    busy_poll = xdp.flag("busy_poll", default=False)
    if busy_poll and kind is not PortKind.AF_XDP:
        xdp.fail("busy_poll", f"needs the mode af_xdp, not {kind.value}")
    entries = top.whole("ring_entries", 64, 1 << 16, 2048)
    if entries & (entries - 1):
        top.fail("ring_entries", f"{entries} is not a power of two")
    in_rings = entries * sum(port.queues for port in ports) if kind is PortKind.AF_XDP else 0
    frames = top.whole("frames", 64, _MOST_FRAMES, min(max(2048, 4 * in_rings), _MOST_FRAMES))
    if frames < in_rings:
        # The queue that comes first would take them all, and the others could never receive anything.
        top.fail("frames", f"{frames} are too few: the rings for arrivals of all queues take {in_rings}")
    offload = _offload(top.section("offload", ("folder", "capacity", "stay"))) if "offload" in top else None
    if offload is not None and kind is not PortKind.AF_XDP:
        top.fail("offload", f"needs the mode af_xdp, not {kind.value}")
    return FastConfig(
        kind,
        ports,
        configuration,
        idle_ns=top.whole("idle_s", 1, 86_400, 60) * 10**9,
        batch_frames=top.whole("batch_frames", 1, 8192, 2048),
        frames=frames,
        ring_entries=entries,
        headroom_bytes=top.whole("headroom_bytes", 0, 256, 64),
        hook=xdp.one_of("hook", {hook.value: hook for hook in Hook}, Hook.DRIVER.value),
        mode=xdp.one_of("copy", {mode.value: mode for mode in Mode}, Mode.AUTO.value),
        busy_poll=busy_poll,
        offload=offload,
    )


def _port(one: Section) -> PortSettings:
    return PortSettings(one.text("interface"), one.whole("queues", 1, 64, 1))


def _offload(one: Section) -> OffloadSettings:
    folder = Path(one.text("folder"))
    if not folder.is_absolute():
        one.fail("folder", f"{folder} is not an absolute path")
    return OffloadSettings(folder, one.whole("capacity", 16, 1 << 20, 1 << 16), one.flag("stay", default=False))
