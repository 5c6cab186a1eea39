"""Cost models: what processing costs on the nodes that emulated packets cross. Everything here is a stated input.

In virtual time computing is free, so what a hop's software or hardware costs must be put in. A `Profile` names those
costs and the source of each; a `Station` is the queueing model that a data plane runs packets through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from emulator.errors import ScenarioError


@dataclass(frozen=True)
class StationModel:
    """A single-server FIFO with a finite queue, followed by a fixed latency.

    A packet of L bytes occupies the server for ``max(1/packet_rate, 8 L/bit_rate)``, waits for those before it, and is
    dropped when it would have to wait and ``queue_packets`` wait already. It leaves ``latency_ns`` after its service
    began, but not before its service ended; so a packet that finds the station empty takes exactly ``latency_ns``,
    unless serving it takes longer. Packets leave in the order in which they came.

    Attributes:
        latency_ns: Processing latency of one traversal in one direction, without waiting.
        packet_rate: Packets/s that the station can serve; None: not limited by packets.
        bit_rate_bps: Bit/s that it can serve; None: not limited by bytes.
        queue_packets: Packets that may wait.
        source: Where the figures come from.
    """

    latency_ns: int
    packet_rate: int | None
    bit_rate_bps: int | None
    queue_packets: int
    source: str

    def service_ns(self, size_bytes: int) -> int:
        """Time for which a packet of the given size occupies the server, in ns (rounded up)."""
        by_packet = -(-(10**9) // self.packet_rate) if self.packet_rate else 0
        by_bits = -(-size_bytes * 8 * 10**9 // self.bit_rate_bps) if self.bit_rate_bps else 0
        return max(by_packet, by_bits)


@dataclass(frozen=True)
class MediaModel:
    """Storage media behind a target.

    Attributes:
        latency_ns: Time that the media takes for one command.
        rate_bytes_per_s: Transfer rate, None: not limited below the network's rate.
        source: Where the figures come from.
    """

    latency_ns: int
    rate_bytes_per_s: int | None
    source: str


@dataclass(frozen=True)
class Profile:
    """A named set of costs.

    Attributes:
        name: For example ``documents``.
        title: One line for the report.
        gateway: The gateway's data plane.
        router: The VPC router of the conventional design.
        compute: A general compute node's forwarding software in the conventional design.
        media: The storage media.
    """

    name: str
    title: str
    gateway: StationModel
    router: StationModel
    compute: StationModel
    media: MediaModel


_FLASH = MediaModel(
    latency_ns=20_000,
    rate_bytes_per_s=None,
    source="null_blk with completion_nsec=20000: the order of low-latency NVMe flash (modelled, both designs alike)",
)

_KERNEL_FORWARDING = (
    "0.5 million packets/s assumed for one core that terminates TCP and copies; the documents state no capacity"
)

# What follows is quoted from what was read; docs/profiles.md says where each figure stands and what it leaves out.
_XDP_STUDY = (
    "Hoiland-Jorgensen et al., The eXpress Data Path, CoNEXT 2018, data at github.com/tohojo/xdp-paper (3.6 GHz Xeon"
    " E5-1650 v4, 100 Gbit/s ConnectX-5, Linux 4.18)"
)
_XDP = (
    f"{_XDP_STUDY}: XDP, 7 us mean latency at 1 Mpps (bench07_latency.org), 5 355 583 packets/s routed on one core"
    " (bench04_fwd.org); line rate assumed"
)
_LINUX_ROUTER = (
    f"{_XDP_STUDY}: Linux, 20 us mean latency at 1 Mpps (bench07_latency.org), 1 739 672 packets/s routed on one core"
    " (bench04_fwd.org)"
)
_PROXY = (
    "HAProxy adds 400 us to a request and its answer at 2.04 million requests/s on 64 cores (HAProxy Technologies 2021,"
    " as reported by tfir.io), so 200 us a traversal, some waiting included; no faster than Linux routes on one core: "
    "1 739 672 packets/s (CoNEXT 2018 as above)"
)
_MEASURED_FLASH = MediaModel(
    latency_ns=77_900,
    rate_bytes_per_s=None,
    source="Intel SSD DC P3700, 4 KiB random read at queue depth 1, mean 77.9 us (AnandTech, review of the Intel Optane"
    " SSD DC P4800X, 2017); no limit of rate below the network's assumed",
)

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "documents": Profile(
            name="documents",
            title="as the documents state: 100 us a traversal before, 5 us after",
            gateway=StationModel(5_000, None, 100_000_000_000, 4096, "claim G01: 5 us a traversal; line rate assumed"),
            router=StationModel(100_000, 500_000, None, 4096, f"claim G01: 100 us a traversal; {_KERNEL_FORWARDING}"),
            compute=StationModel(100_000, 500_000, None, 4096, f"claim G01: 100 us a traversal; {_KERNEL_FORWARDING}"),
            media=_FLASH,
        ),
        "published": Profile(
            name="published",
            title="as measurements in the literature say: Linux and a TCP proxy on one core against XDP on one core",
            gateway=StationModel(7_000, 5_355_583, 100_000_000_000, 4096, _XDP),
            router=StationModel(20_000, 1_739_672, None, 4096, _LINUX_ROUTER),
            compute=StationModel(200_000, 1_739_672, None, 4096, _PROXY),
            media=_MEASURED_FLASH,
        ),
    }
)


def profile_from_json(data: Mapping[str, Any]) -> Profile:
    """Read back what `dataclasses.asdict` made of a profile."""
    stations = {name: StationModel(**data[name]) for name in ("gateway", "router", "compute")}
    return Profile(data["name"], data["title"], **stations, media=MediaModel(**data["media"]))


def profile(name: str) -> Profile:
    """Look a profile up.

    Raises:
        ScenarioError: There is none of that name.
    """
    try:
        return PROFILES[name]
    except KeyError:
        raise ScenarioError(
            f"there is no profile {name!r}: choose from {', '.join(PROFILES)}, or name a .yaml file", key="profiles"
        ) from None
