"""Unloaded latency of one NVMe/TCP command, worked out from its messages on the wire.

A read of *n* bytes is a command capsule (72 bytes of TCP payload) one way, the media's latency, and a data PDU
(24 + *n*) with the response capsule (24) behind it in the same segment the other way. A write that fits into the
command capsule (up to 16 KiB with Linux's target) carries its data along; a larger one is asked for with a
ready-to-transfer PDU (24) and then sent as a data PDU (24 + *n*). Sizes are those of NVM Express TCP Transport 1.0
without digests. Computing takes no time.
"""

from __future__ import annotations

from collections.abc import Sequence

from emulator.model.fabric import ETHERNET_HEADER_BYTES, LinkSpec
from emulator.model.profile import StationModel
from emulator.model.theory import IPV4_HEADER_BYTES, TCP_HEADER_BYTES, TCP_TIMESTAMP_BYTES

COMMAND_BYTES = 8 + 64
RESPONSE_BYTES = 8 + 16
DATA_HEADER_BYTES = 24
READY_BYTES = 24
INLINE_BYTES = 16 << 10
INITIAL_WINDOW_SEGMENTS = 10
"""Segments that TCP sends before the first acknowledgement (RFC 6928): beyond, latency depends on the window."""

_HEADERS_BYTES = IPV4_HEADER_BYTES + TCP_HEADER_BYTES + TCP_TIMESTAMP_BYTES


def segments(path: Sequence[LinkSpec], message_bytes: int) -> list[int]:
    """Payloads of the TCP segments of a message on a path."""
    largest = min(spec.mtu_bytes for spec in path) - _HEADERS_BYTES
    full, rest = divmod(message_bytes, largest)
    return [largest] * full + ([rest] if rest else [])


def message_ns(path: Sequence[LinkSpec], stations: Sequence[StationModel], message_bytes: int) -> int:
    """Time from sending the first byte of a message until its last segment has arrived, on an unloaded path.

    Segments follow each other: each link starts on one when it has arrived there and the one before has left. The
    stations' service is taken to keep up with the links.
    """
    frames = [ETHERNET_HEADER_BYTES + _HEADERS_BYTES + payload for payload in segments(path, message_bytes)]
    arrivals = [0] * len(frames)
    for spec in path:
        free_ns = 0
        for index, frame_bytes in enumerate(frames):
            free_ns = max(arrivals[index], free_ns) + spec.serialization_ns(frame_bytes)
            arrivals[index] = free_ns + spec.delay_ns
    return arrivals[-1] + sum(station.latency_ns for station in stations)


def command_ns(
    to_target: tuple[Sequence[LinkSpec], Sequence[StationModel]],
    to_initiator: tuple[Sequence[LinkSpec], Sequence[StationModel]],
    block_bytes: int,
    media_ns: int,
    *,
    write: bool,
) -> int | None:
    """Unloaded latency of one command, or None where it depends on more than the path.

    Args:
        to_target: Links and stations on the way there.
        to_initiator: Links and stations on the way back.
        block_bytes: Data of the command.
        media_ns: Latency of the media.
        write: A write; else a read.
    """
    path = to_target[0]
    if not all(spec.true_packets for spec in path):
        return None
    if len(segments(path, DATA_HEADER_BYTES + block_bytes + RESPONSE_BYTES)) > INITIAL_WINDOW_SEGMENTS:
        return None
    if not write:
        data = DATA_HEADER_BYTES + block_bytes + RESPONSE_BYTES
        return message_ns(*to_target, COMMAND_BYTES) + media_ns + message_ns(*to_initiator, data)
    response_ns = message_ns(*to_initiator, RESPONSE_BYTES)
    if block_bytes <= INLINE_BYTES:
        return message_ns(*to_target, COMMAND_BYTES + block_bytes) + media_ns + response_ns
    asked_ns = message_ns(*to_target, COMMAND_BYTES) + message_ns(*to_initiator, READY_BYTES)
    return asked_ns + message_ns(*to_target, DATA_HEADER_BYTES + block_bytes) + media_ns + response_ns
