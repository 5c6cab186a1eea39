"""Frames that are quickly made."""

from __future__ import annotations

import socket
import struct


def udp_frame(mac: bytes, target: str, port: int, ttl: int, serial: int) -> bytes:
    """A UDP datagram without a checksum from 10.7.0.1 that carries a number."""
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 46, 0, 0, ttl, 17, 0)
    ip += socket.inet_aton("10.7.0.1") + socket.inet_aton(target)
    checksum = 0xFFFF - int.from_bytes(ip, "big") % 0xFFFF
    ip = ip[:10] + checksum.to_bytes(2, "big") + ip[12:]
    payload = serial.to_bytes(4, "big") + bytes(14)
    return mac + b"\2\7\0\0\0\0\x08\0" + ip + struct.pack("!HHHH", 1000, port, 26, 0) + payload
