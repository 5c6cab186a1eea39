"""LLDP frames (IEEE 802.1AB-2016) that say which port sent them and prove that this controller did. Pure.

A frame has the mandatory TLVs and one organizationally specific TLV with the datapath id, the port, a serial number and
an HMAC-SHA-256 over these three under a key that nobody else has. Hosts can read such frames, but not make them; and
since serial numbers are known to the sender of the frames, neither can they repeat old ones.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from controller.flows import ETH_TYPE_LLDP

NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
"""Destination address that bridges do not forward (clause 7.1)."""
_END, _CHASSIS_ID, _PORT_ID, _TIME_TO_LIVE, _SYSTEM_NAME, _ORGANIZATION = 0, 1, 2, 3, 5, 127
_LOCALLY_ASSIGNED = 7
_OUI = bytes.fromhex("6a6367")
"""A locally administered identifier (its second bit is set), which no organization is assigned."""
_SUBTYPE = 1
_SIGNED = struct.Struct("!QIQ")
_MAC_BYTES = 16
_HEADER_BYTES = 14


class BadFrame(Exception):
    """The bytes are no frame of ours; says why."""


@dataclass(frozen=True)
class Beacon:
    """What a frame says.

    Attributes:
        dpid: Datapath id of the switch that sent it.
        port: Port by which it was sent.
        serial: Serial number of the frame.
    """

    dpid: int
    port: int
    serial: int


def write_frame(beacon: Beacon, key: bytes, eth_src: str, name: str, lifetime_s: int) -> bytes:
    """The frame for a beacon.

    Args:
        beacon: What to say.
        key: Secret of the controller.
        eth_src: Address of the port.
        name: The switch's name, for people who look at packets.
        lifetime_s: How long a receiver may believe it.
    """
    signed = _SIGNED.pack(beacon.dpid, beacon.port, beacon.serial)
    parts = (
        _tlv(_CHASSIS_ID, bytes((_LOCALLY_ASSIGNED,)) + f"dpid:{beacon.dpid:016x}".encode()),
        _tlv(_PORT_ID, bytes((_LOCALLY_ASSIGNED,)) + str(beacon.port).encode()),
        _tlv(_TIME_TO_LIVE, struct.pack("!H", min(lifetime_s, 0xFFFF))),
        _tlv(_SYSTEM_NAME, name.encode()[:255]),
        _tlv(_ORGANIZATION, _OUI + bytes((_SUBTYPE,)) + signed + _proof(key, signed)),
        _tlv(_END, b""),
    )
    source = bytes.fromhex(eth_src.replace(":", ""))
    return (NEAREST_BRIDGE + source + struct.pack("!H", ETH_TYPE_LLDP) + b"".join(parts)).ljust(60, b"\0")


def read_frame(data: bytes, key: bytes) -> Beacon:
    """The beacon in a frame that was made with the same key.

    Raises:
        BadFrame: It is malformed, or somebody else made it.
    """
    if data[12:14] != struct.pack("!H", ETH_TYPE_LLDP):
        raise BadFrame("it is not LLDP")
    found = list(_tlvs(data[_HEADER_BYTES:]))
    kinds = [kind for kind, _ in found[:3]]
    if kinds != [_CHASSIS_ID, _PORT_ID, _TIME_TO_LIVE]:
        raise BadFrame("it does not begin with chassis, port and time to live")
    ours = [value[4:] for kind, value in found if kind == _ORGANIZATION and value[:4] == _OUI + bytes((_SUBTYPE,))]
    if len(ours) != 1 or len(ours[0]) != _SIGNED.size + _MAC_BYTES:
        raise BadFrame("it is not signed")
    signed, proof = ours[0][: _SIGNED.size], ours[0][_SIGNED.size :]
    if not hmac.compare_digest(_proof(key, signed), proof):
        raise BadFrame("its signature is wrong")
    return Beacon(*_SIGNED.unpack(signed))


def _tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(value)) + value


def _tlvs(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while True:
        if len(data) < offset + 2:
            raise BadFrame("it ends without an end")
        head = int.from_bytes(data[offset : offset + 2], "big")
        kind, length = head >> 9, head & 0x1FF
        offset += 2
        if kind == _END:
            return
        if len(data) < offset + length:
            raise BadFrame("one of its parts is longer than the frame")
        yield kind, data[offset : offset + length]
        offset += length


def _proof(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, sha256)[:_MAC_BYTES]
