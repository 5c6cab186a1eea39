"""What the data plane should find in a frame, byte by byte and one frame at a time: slow, and written from the RFCs."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.dataplane.reasons import Reason

TAGS = (0x8100, 0x88A8, 0x9100)
SKIPPED = (0, 43, 44, 51, 60)


@dataclass
class Found:
    """A frame's headers; positions count from the frame's begin. Field names are those of `Headers`."""

    reason: Reason = Reason.FORWARDED
    target_mac: int = 0
    source_mac: int = 0
    ethertype: int = 0
    tags: int = 0
    vlan: int = 0
    inner_vlan: int = 0
    family: int = 0
    network: int = 0
    transport: int = 0
    payload: int = 0
    ends: int = 0
    protocol: int = 0
    ttl: int = 0
    source: int = 0
    target: int = 0
    source_port: int = 0
    target_port: int = 0
    vni: int | None = None
    inner: Found | None = None
    bth: dict[str, int] = field(default_factory=dict)
    pdu: dict[str, int] = field(default_factory=dict)


def number(data: bytes, at: int, size: int) -> int:
    """A big-endian number that must be there."""
    piece = data[at : at + size]
    if len(piece) != size:
        raise AssertionError("the reference reads beyond a frame")
    return int.from_bytes(piece, "big")


def ones_complement(data: bytes) -> int:
    """The Internet checksum by the book (RFC 1071)."""
    total = 0
    for at in range(0, len(data), 2):
        total += int.from_bytes(data[at : at + 2].ljust(2, b"\0"), "big")
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def look(data: bytes, max_bytes: int = 65557) -> Found:
    """Parse one frame."""
    found = Found()
    found.reason = _ethernet(data, found, max_bytes)
    if found.reason is Reason.FORWARDED:
        found.reason = _special(data, found)
    return found


def _ethernet(data: bytes, found: Found, max_bytes: int) -> Reason:
    if len(data) < 14:
        return Reason.RUNT
    found.target_mac, found.source_mac, kind = number(data, 0, 6), number(data, 6, 6), number(data, 12, 2)
    found.ethertype = kind
    if len(data) > max_bytes:
        return Reason.JUMBO
    at = 14
    while kind in TAGS:
        if found.tags == 2:
            return Reason.TOO_MANY_TAGS
        if len(data) < at + 4:
            return Reason.TRUNCATED
        identifier = number(data, at, 2) & 0xFFF
        if found.tags == 0:
            found.vlan = identifier
        else:
            found.inner_vlan = identifier
        found.tags += 1
        kind = number(data, at + 2, 2)
        at += 4
    found.ethertype = kind
    if kind not in (0x0800, 0x86DD):
        return Reason.NOT_IP
    found.network = at
    return _ipv4(data, at, found) if kind == 0x0800 else _ipv6(data, at, found)


def _ipv4(data: bytes, at: int, found: Found) -> Reason:
    if len(data) < at + 20:
        return Reason.TRUNCATED
    header, total = (data[at] & 15) * 4, number(data, at + 2, 2)
    if data[at] >> 4 != 4 or header < 20 or total < header:
        return Reason.MALFORMED
    if at + total > len(data):
        return Reason.TRUNCATED
    if ones_complement(data[at : at + header]) != 0:
        return Reason.BAD_CHECKSUM
    found.family, found.ends, found.ttl, found.protocol = 4, at + total, data[at + 8], data[at + 9]
    found.source, found.target = number(data, at + 12, 4), number(data, at + 16, 4)
    found.transport = found.payload = at + header
    if number(data, at + 6, 2) & 0x3FFF:
        return Reason.FRAGMENT
    return _transport(data, found)


def _ipv6(data: bytes, at: int, found: Found) -> Reason:
    if len(data) < at + 40:
        return Reason.TRUNCATED
    if data[at] >> 4 != 6:
        return Reason.MALFORMED
    end = at + 40 + number(data, at + 4, 2)
    if end > len(data):
        return Reason.TRUNCATED
    found.family, found.ends, found.ttl = 6, end, data[at + 7]
    found.source, found.target = number(data, at + 8, 16), number(data, at + 24, 16)
    kind, at = data[at + 6], at + 40
    count = 0
    while kind in SKIPPED:
        if count == 8:
            return Reason.TOO_MANY_EXTENSIONS
        if count and kind == 0:
            return Reason.MALFORMED
        if end - at < 8:
            return Reason.TRUNCATED
        units = data[at + 1]
        length = 8 if kind == 44 else (units + 2) * 4 if kind == 51 else (units + 1) * 8
        if at + length > end:
            return Reason.TRUNCATED
        if kind == 44 and number(data, at + 2, 2) & 0xFFF9:
            return Reason.FRAGMENT
        kind, at, count = data[at], at + length, count + 1
    found.protocol, found.transport, found.payload = kind, at, at
    return _transport(data, found)


def _transport(data: bytes, found: Found) -> Reason:
    at, end = found.transport, found.ends
    if found.protocol == 6:
        if end - at < 20:
            return Reason.TRUNCATED
        header = (data[at + 12] >> 4) * 4
        if header < 20:
            return Reason.MALFORMED
        if at + header > end:
            return Reason.TRUNCATED
    elif found.protocol == 17:
        if end - at < 8:
            return Reason.TRUNCATED
        header, length = 8, number(data, at + 4, 2)
        if length < 8:
            return Reason.MALFORMED
        if at + length > end:
            return Reason.TRUNCATED
    else:
        return Reason.FORWARDED
    found.payload = at + header
    found.source_port, found.target_port = number(data, at, 2), number(data, at + 2, 2)
    return Reason.FORWARDED


def _special(data: bytes, found: Found) -> Reason:
    at = found.payload
    if found.protocol == 17:
        content = data[at : found.transport + number(data, found.transport + 4, 2)]
        if found.target_port == 4789:
            if len(content) < 8:
                return Reason.TRUNCATED
            if not content[0] & 8:
                return Reason.MALFORMED
            found.vni, found.inner = number(content, 4, 3), look(content[8:])
        if found.target_port == 4791:
            if len(content) < 16:
                return Reason.TRUNCATED
            found.bth = {
                "opcode": content[0],
                "partition": number(content, 2, 2),
                "queue_pair": number(content, 5, 3),
                "sequence": number(content, 9, 3),
                "acknowledge": content[8] >> 7,
            }
    if found.protocol == 6 and 4420 in (found.source_port, found.target_port):
        content = data[at : found.ends]
        if len(content) >= 8:
            kind, flags, header, offset = content[:4]
            length = int.from_bytes(content[4:8], "little")
            sizes = {0: 128, 1: 128, 2: 24, 3: 24, 4: 72, 5: 24, 6: 24, 7: 24, 9: 24}
            if sizes.get(kind) == header and length >= header and offset <= length:
                found.pdu = {"kind": kind, "flags": flags, "header_bytes": header, "data_offset": offset}
                found.pdu["length_bytes"] = length
    return Reason.FORWARDED
