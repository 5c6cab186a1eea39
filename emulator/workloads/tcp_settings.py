"""Kernel settings that a bulk TCP transfer needs on its two ends, worked out from the path.

Linux's defaults are sized for 10 Gbit/s at most. A window must hold everything in flight: the unloaded round trip and
what may wait in the slowest link's queue. What TCP may keep in the sender's own queue (`tcp_limit_output_bytes`) must
hold everything that waits for the first line or travels along it, since the emulated line holds both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from emulator.engine.host import HostHandle
from emulator.errors import WorkloadError
from emulator.linux import sysctl
from emulator.model.fabric import ETHERNET_HEADER_BYTES, LinkSpec
from emulator.model.theory import one_way_ns

LEAST_BUFFER_BYTES = 64 << 20
MOST_BUFFER_BYTES = (1 << 31) - 1
"""Sysctls are signed 32-bit numbers."""
_MEMORY_FACTOR = 4
"""Socket memory for each byte in flight: the kernel's own overhead, and room for the window to grow into."""
_LEAST_OUTPUT_BYTES = 4 << 20
_LEAST_START_BYTES = 4 << 20
"""Receive buffer at the start: room for the blocks in which the server reads, beside the window."""
_MOST_START_BYTES = LEAST_BUFFER_BYTES
_SEND_START_BYTES = 1 << 20


def in_flight_bytes(path: Sequence[LinkSpec]) -> int:
    """Bytes between two hosts when the slowest link's queue is full."""
    slowest = min(path, key=lambda spec: spec.rate_bps)
    frame_bytes = slowest.mtu_bytes + ETHERNET_HEADER_BYTES
    round_trip_ns = one_way_ns(path, frame_bytes) + one_way_ns(path, 100)
    return slowest.rate_bps * round_trip_ns // (8 * 10**9) + slowest.waiting_packets * frame_bytes


def settings(path: Sequence[LinkSpec], *, ecn: bool) -> dict[str, str]:
    """The settings for both ends of a path."""
    buffer_bytes = min(MOST_BUFFER_BYTES, max(LEAST_BUFFER_BYTES, _MEMORY_FACTOR * in_flight_bytes(path)))
    start_bytes = min(_MOST_START_BYTES, max(_LEAST_START_BYTES, 2 * in_flight_bytes(path)))
    return {
        "net.ipv4.tcp_rmem": f"4096 {start_bytes} {buffer_bytes}",
        "net.ipv4.tcp_wmem": f"4096 {_SEND_START_BYTES} {buffer_bytes}",
        "net.ipv4.tcp_limit_output_bytes": str(output_limit_bytes(path[0])),
        "net.ipv4.tcp_ecn": "1" if ecn else "0",
        # A flow must not start from what an earlier one learned.
        "net.ipv4.tcp_no_metrics_save": "1",
    }


def output_limit_bytes(first: LinkSpec) -> int:
    """What TCP may keep below it at the sender, given the link that it sends by."""
    on_first_bytes = first.rate_bps * first.delay_ns // (8 * 10**9) + first.waiting_packets * first.mtu_bytes
    return min(MOST_BUFFER_BYTES, max(_LEAST_OUTPUT_BYTES, 2 * on_first_bytes))


@contextmanager
def applied(host: HostHandle, wanted: dict[str, str], what: str) -> Iterator[None]:
    """While this lasts, a host has these settings.

    Raises:
        WorkloadError: The kernel refuses one.
    """
    try:
        with host.namespace():
            before = sysctl.write(wanted)
    except OSError as error:
        raise WorkloadError(f"workload {what}: cannot set TCP's buffers on {host.name}: {error}") from error
    try:
        yield
    finally:
        with host.namespace():
            sysctl.write(before)
