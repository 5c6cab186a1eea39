"""What an unloaded fabric would give each workload, from its links and stations alone. Pure closed forms.

Latency counts serialization and propagation on every link, the stations of visited nodes and the storage media; the
hosts' own software costs nothing. Capacity is that of the tightest link or station, for all flows of a workload
together, when each of them gets the same share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from emulator.errors import ScenarioError
from emulator.model.fabric import ETHERNET_HEADER_BYTES, Fabric, LinkSpec, Role
from emulator.model.profile import Profile, StationModel
from emulator.model.theory import (
    ICMP_HEADER_BYTES,
    IPV4_HEADER_BYTES,
    TCP_HEADER_BYTES,
    TCP_TIMESTAMP_BYTES,
    md1_mean_wait_ns,
)
from emulator.model.workload import Checkpoint, NvmeIo, Ping, Poisson, Probe, SmallPackets, Workload
from emulator.scenario.resolve import flows_of

UDP_HEADER_BYTES = 8
NVME_COMMAND_BYTES = 72
"""NVMe/TCP command capsule without in-capsule data: 8 bytes PDU header and 64 bytes submission queue entry."""
NVME_DATA_HEADER_BYTES = 24
NVME_RESPONSE_BYTES = 24

_TCP_OVERHEAD = IPV4_HEADER_BYTES + TCP_HEADER_BYTES + TCP_TIMESTAMP_BYTES

Flow = tuple[str, str, str]
"""Initiator, target and protocol: ``icmp``, ``tcp`` or ``udp``."""


@dataclass(frozen=True)
class Route:
    """Nodes that packets visit from initiator to target and back, ends included, each node once where it is passed.

    Attributes:
        there, back: Nodes, on one way if there are several that are equally good.
        shares_there, shares_back: The share of traffic that leaves each interface, by its name, where traffic is spread
            over several ways; None: all of it goes by the nodes.
    """

    there: tuple[str, ...]
    back: tuple[str, ...]
    shares_there: Mapping[str, float] | None = None
    shares_back: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Prediction:
    """What to expect of one workload.

    Attributes:
        workload: Its name.
        kind: Its kind.
        route: Nodes from the first initiator to its target.
        latency_ns: Unloaded latency of its smallest exchange; None: it has none.
        latency_of: What that is the latency of.
        capacity_bps: Payload bit/s of all its flows together at most; None: it does not fill anything.
        bottleneck: What limits that.
        note: Anything else that can be foretold.
    """

    workload: str
    kind: str
    route: tuple[str, ...]
    latency_ns: int | None
    latency_of: str
    capacity_bps: float | None
    bottleneck: str
    note: str = ""


def needed_flows(workloads: Iterable[Workload]) -> tuple[Flow, ...]:
    """The flows whose routes a prediction needs, each once."""
    return tuple(dict.fromkeys(flow for workload in workloads for flow in _flows(workload)))


def predict(fabric: Fabric, profile: Profile, routes: Mapping[Flow, Route], workload: Workload) -> Prediction:
    """Predict one workload.

    Raises:
        ScenarioError: A route is missing, or passes from one node to another that is not linked to it.
    """
    network = _Network(fabric, profile)
    flows = _flows(workload)
    for flow in flows:
        if flow not in routes:
            raise ScenarioError(f"workload {workload.name!r} has no route from {flow[0]} to {flow[1]}")
    route = routes[flows[0]]
    there, back = network.stages(route.there), network.stages(route.back)
    latency, latency_of, note = _latency(profile, workload, there, back)
    mtu = min((stage.mtu_bytes for stage in there if stage.mtu_bytes), default=1500)
    capacity, bottleneck = _capacity(network, workload, [routes[flow] for flow in flows], mtu)
    if capacity is not None and isinstance(workload, Checkpoint) and workload.size_bytes:
        note = f"at least {workload.size_bytes * 8 / capacity * 1e3:.4g} ms for {workload.size_bytes} B"
    if isinstance(workload, Poisson):
        slowest = max(stage.occupied_ns(workload.frame_bytes) for stage in there)
        note = f"mean wait {md1_mean_wait_ns(workload.load, slowest):.1f} ns (M/D/1)"
    return Prediction(workload.name, workload.kind, route.there, latency, latency_of, capacity, bottleneck, note)


@dataclass(frozen=True)
class _Stage:
    """A link in one direction, or a station."""

    name: str
    link: LinkSpec | None = None
    station: StationModel | None = None

    @property
    def mtu_bytes(self) -> int | None:
        return self.link.mtu_bytes if self.link else None

    def occupied_ns(self, frame_bytes: int) -> int:
        """Time for which a frame occupies it."""
        if self.link:
            return self.link.serialization_ns(frame_bytes)
        return self.station.service_ns(frame_bytes) if self.station else 0

    def passing_ns(self, frame_bytes: int) -> int:
        """Time from a frame's arrival to its departure, if it finds nobody waiting."""
        if self.link:
            return self.link.delay_ns + self.link.serialization_ns(frame_bytes)
        return self.station.latency_ns if self.station else 0


class _Network:
    def __init__(self, fabric: Fabric, profile: Profile) -> None:
        self._fabric = fabric
        self._stations = {Role.GATEWAY: profile.gateway, Role.ROUTER: profile.router, Role.COMPUTE: profile.compute}
        self._links: dict[tuple[str, str], tuple[str, LinkSpec]] = {}
        self.lines: dict[str, _Stage] = {}
        for link in fabric.links:
            for interface in (link.a_interface, link.b_interface):
                self.lines[interface] = _Stage(interface, link=link.spec)
            self._links.setdefault((link.a, link.b), (link.a_interface, link.spec))
            self._links.setdefault((link.b, link.a), (link.b_interface, link.spec))

    def stages(self, nodes: Sequence[str]) -> list[_Stage]:
        """Links and stations along a route; the stations are those of the nodes between its ends."""
        return list(self._walk(nodes))

    def _walk(self, nodes: Sequence[str]) -> Iterator[_Stage]:
        for position, (here, there) in enumerate(pairwise(nodes)):
            station = self._stations.get(self._fabric.by_name[here].role) if position else None
            if station:
                yield _Stage(here, station=station)
            if (here, there) not in self._links:
                raise ScenarioError(f"a route passes from {here} to {there}, which are not linked")
            interface, spec = self._links[here, there]
            yield _Stage(interface, link=spec)


def _flows(workload: Workload) -> tuple[Flow, ...]:
    protocols = {Ping: "icmp", Poisson: "udp", SmallPackets: "udp", Probe: "udp"}
    protocol = protocols.get(type(workload), "tcp")
    return tuple((source, target, protocol) for source, target in flows_of(workload))


def _train_ns(stages: Sequence[_Stage], payload_bytes: int, header_bytes: int, mtu_bytes: int) -> int:
    """Time for a message cut into full packets to pass: its first packet's way, then the rest at the tightest stage."""
    room = mtu_bytes - header_bytes
    packets = max(1, -(-payload_bytes // room))
    frame = ETHERNET_HEADER_BYTES + header_bytes + min(payload_bytes, room)
    first = sum(stage.passing_ns(frame) for stage in stages)
    last = ETHERNET_HEADER_BYTES + header_bytes + payload_bytes - (packets - 1) * room
    rest = max(stage.occupied_ns(frame) for stage in stages) * (packets - 2) if packets > 1 else 0
    return first + rest + (max(stage.occupied_ns(last) for stage in stages) if packets > 1 else 0)


def _latency(
    profile: Profile, workload: Workload, there: Sequence[_Stage], back: Sequence[_Stage]
) -> tuple[int | None, str, str]:
    mtu = min((stage.mtu_bytes for stage in there if stage.mtu_bytes), default=1500)
    if isinstance(workload, Ping):
        if IPV4_HEADER_BYTES + ICMP_HEADER_BYTES + workload.payload_bytes > mtu:
            return None, "", "sent in fragments: latency not predicted"
        frame = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES + ICMP_HEADER_BYTES + workload.payload_bytes
        return sum(stage.passing_ns(frame) for stage in [*there, *back]), "round trip", ""
    if isinstance(workload, (NvmeIo, Checkpoint)):
        writes = isinstance(workload, Checkpoint) or "write" in workload.pattern
        out = NVME_COMMAND_BYTES + (NVME_DATA_HEADER_BYTES + workload.block_bytes if writes else 0)
        home = NVME_RESPONSE_BYTES + (0 if writes else NVME_DATA_HEADER_BYTES + workload.block_bytes)
        media = profile.media.latency_ns
        if profile.media.rate_bytes_per_s:
            media += -(-workload.block_bytes * 10**9 // profile.media.rate_bytes_per_s)
        total = _train_ns(there, out, _TCP_OVERHEAD, mtu) + media + _train_ns(back, home, _TCP_OVERHEAD, mtu)
        return total, f"one {'write' if writes else 'read'}, media {media} ns included", ""
    if isinstance(workload, Poisson):
        return sum(stage.passing_ns(workload.frame_bytes) for stage in there), "one way", ""
    if isinstance(workload, (SmallPackets, Probe)):
        payload = workload.payload_bytes if isinstance(workload, Probe) else workload.message_bytes
        frame = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES + UDP_HEADER_BYTES + payload
        return sum(stage.passing_ns(frame) for stage in there), "one way", ""
    smallest = ETHERNET_HEADER_BYTES + _TCP_OVERHEAD
    return sum(stage.passing_ns(smallest) for stage in [*there, *back]), "round trip of an empty segment", ""


def _capacity(
    network: _Network, workload: Workload, routes: Sequence[Route], mtu_bytes: int
) -> tuple[float | None, str]:
    if isinstance(workload, (Ping, Poisson, Probe)):
        return None, ""
    payload, header = mtu_bytes - _TCP_OVERHEAD, _TCP_OVERHEAD
    if isinstance(workload, SmallPackets):
        payload, header = workload.message_bytes, IPV4_HEADER_BYTES + UDP_HEADER_BYTES
    reads = isinstance(workload, NvmeIo) and "read" in workload.pattern
    crossings: dict[str, float] = {}
    stages: dict[str, _Stage] = {}
    for route in routes:
        shares = route.shares_back if reads else route.shares_there
        passed = network.stages(route.back if reads else route.there)
        stages.update((stage.name, stage) for stage in passed)
        for name, share in (dict.fromkeys((stage.name for stage in passed), 1.0) if shares is None else shares).items():
            crossings[name] = crossings.get(name, 0.0) + share
            if name not in stages:
                stages[name] = network.lines[name]
    frame = ETHERNET_HEADER_BYTES + header + payload
    # However thinly flows are spread, each single one is on one line at a time.
    limits = {
        name: _payload_rate(stage, frame, payload) * len(routes) / max(1.0, crossings.get(name, 0.0))
        for name, stage in stages.items()
    }
    tightest = min(limits, key=lambda name: (limits[name], name))
    return limits[tightest], tightest


def _payload_rate(stage: _Stage, frame_bytes: int, payload_bytes: int) -> float:
    """Payload bit/s that a stage passes, without the rounding of single packets' times."""
    if stage.link:
        return stage.link.rate_bps * payload_bytes / (frame_bytes + stage.link.overhead_bytes)
    station = stage.station
    by_packet = station.packet_rate * payload_bytes * 8.0 if station and station.packet_rate else float("inf")
    by_bits = station.bit_rate_bps * payload_bytes / frame_bytes if station and station.bit_rate_bps else float("inf")
    return min(by_packet, by_bits)
