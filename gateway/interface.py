"""What a data plane must know of its host: an interface's properties, the host's own addresses, who else forwards."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import socket
import struct
import subprocess
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import psutil

from emulator.errors import GatewayError

SIOCGIFMTU = 0x8921
SIOCGIFHWADDR = 0x8927
SIOCETHTOOL = 0x8946
ETHTOOL_GTSO = 0x1E
_IFNAMSIZ = 16
_ARPHRD_ETHER = 1

_PLAIN_NETEM = frozenset({"limit", "delay", "rate", "ecn", "gap"})
"""Options of a netem that lets every packet through, in order, after a time that depends on nothing but its length."""

_IP_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


@dataclass(frozen=True)
class LineProperties:
    """A line as its queueing discipline states it.

    Attributes:
        rate_bps: Rate in bit/s.
        overhead_bytes: Bytes on the line for each frame besides the frame itself.
        queue_frames: Frames that it holds, on the way and waiting.
    """

    rate_bps: int
    overhead_bytes: int
    queue_frames: int


def _ioctl(sock: socket.socket, request: int, interface: str, payload: bytes = b"") -> bytes:
    name = interface.encode()
    if len(name) >= _IFNAMSIZ:
        raise GatewayError(f"{interface!r} is too long for the name of an interface")
    return fcntl.ioctl(sock, request, struct.pack("16s24s", name, payload))[_IFNAMSIZ:]


def mac_address(sock: socket.socket, interface: str) -> bytes:
    """The Ethernet address, 6 bytes.

    Raises:
        OSError: There is no such interface.
        GatewayError: It is not an Ethernet.
    """
    kind, mac = struct.unpack_from("=H6s", _ioctl(sock, SIOCGIFHWADDR, interface))
    if kind != _ARPHRD_ETHER:
        raise GatewayError(f"{interface} is not an Ethernet interface")
    return bytes(mac)


def mtu_bytes(sock: socket.socket, interface: str) -> int:
    """The longest IP packet that the interface sends.

    Raises:
        OSError: There is no such interface.
    """
    return int(struct.unpack_from("=i", _ioctl(sock, SIOCGIFMTU, interface))[0])


def carries_super_packets(sock: socket.socket, interface: str) -> bool:
    """Whether TCP segmentation offload is on: over a veth then come packets longer than the MTU."""
    command = (ctypes.c_uint32 * 2)(ETHTOOL_GTSO, 0)
    try:
        _ioctl(sock, SIOCETHTOOL, interface, struct.pack("@P", ctypes.addressof(command)))
    except OSError:
        return False
    return command[1] != 0


def check_interface(sock: socket.socket, interface: str) -> None:
    """Make sure that a socket's interface is still there, after waiting for the socket ended with an error.

    Raises:
        GatewayError: It is gone, and with it the reason to go on. (One that is merely down may come up again.)
    """
    sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    try:
        socket.if_nametoindex(interface)
    except OSError:
        raise GatewayError(f"the interface {interface} is gone") from None


def claim(interface: str) -> socket.socket:
    """Serve an interface alone: of those who claim it one succeeds, for as long as the socket is open.

    The kernel lets any number of packet sockets see the same packets, and each of their owners would forward them.

    Raises:
        GatewayError: Another daemon serves it, or there is no such interface.
    """
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        # Names that begin with a zero byte are the network namespace's, and go with their last holder.
        holder.bind(f"\0icgw-gateway-{socket.if_nametoindex(interface)}")
    except OSError as error:
        holder.close()
        if error.errno == errno.EADDRINUSE:
            raise GatewayError(f"another gateway serves {interface}: every packet would leave twice") from None
        raise GatewayError(f"cannot serve {interface}: {error.strerror or error}") from None
    return holder


def parse_line(listing: str) -> LineProperties | None:
    """Read what ``tc -j qdisc show dev X`` says: a line, if there is one netem with a rate that does nothing random."""
    try:
        [qdisc] = json.loads(listing)
        options = qdisc["options"]
        rate = options["rate"]
        plain = (
            qdisc["kind"] == "netem"
            and set(options) <= _PLAIN_NETEM
            and not options["gap"]
            and not options.get("delay", {}).get("jitter")
            and not rate["cellsize"]
        )
        return LineProperties(8 * rate["rate"], rate["packetoverhead"], options["limit"]) if plain else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def line_of(interface: str) -> LineProperties | None:
    """The line that an interface's queueing discipline emulates; None: none, or not one whose timing is certain."""
    argv = ["tc", "-j", "qdisc", "show", "dev", interface]
    try:
        return parse_line(subprocess.run(argv, capture_output=True, text=True, check=False).stdout)
    except OSError:
        return None


def own_addresses() -> frozenset[IPv4Address]:
    """All IPv4 addresses of this network namespace."""
    return frozenset(address for address in host_addresses() if isinstance(address, IPv4Address))


def host_addresses() -> frozenset[IPv4Address | IPv6Address]:
    """All IP addresses of this network namespace; those that hold on one link only without its name."""
    return frozenset(
        ip_address(address.address.partition("%")[0])
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    )


def refuse_kernel_forwarding() -> None:
    """Make sure that the kernel of this namespace does not forward as well.

    Raises:
        GatewayError: It does; every packet would leave twice, once of them without passing the station.
    """
    try:
        forwards = _IP_FORWARD.read_text(encoding="ascii").strip() != "0"
    except OSError:
        return
    if forwards:
        raise GatewayError("the kernel forwards here too: set net.ipv4.ip_forward=0, or every packet leaves twice")
