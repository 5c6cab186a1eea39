"""A gateway between two hosts, in network namespaces of its own: ``left`` - ``gw`` - ``right``, over veth pairs.

Both hosts are in one subnet (the gateway then is a bump in the wire) or in two, as the test likes; addresses are only
there so that hosts have some. Who needs this: root over network namespaces, as inside a virtual-time kernel.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.support.netns_hosts import NamespaceHost, _tool

LEFT_MAC, RIGHT_MAC = "02:00:00:00:01:01", "02:00:00:00:02:01"
GW_LEFT_MAC, GW_RIGHT_MAC = "02:00:00:00:01:fe", "02:00:00:00:02:fe"
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23


@dataclass(frozen=True)
class Bed:
    """The three; the gateway's interfaces are ``gl`` and ``gr``, those of the hosts ``lh`` and ``rh``."""

    left: NamespaceHost
    gw: NamespaceHost
    right: NamespaceHost

    def raw(self, host: NamespaceHost, interface: str) -> socket.socket:
        """A packet socket that sees what arrives at an interface, and sends out of it."""
        with host.namespace():
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            sock.bind((interface, 3))
            sock.settimeout(5)
        return sock


def may_make_namespaces() -> bool:
    """Whether this process may do all that."""
    return subprocess.run(["unshare", "-nm", "true"], capture_output=True).returncode == 0 and os.geteuid() == 0


@contextmanager
def bed(mtu: int = 1500, queues: int = 1, *, left_ip: str = "10.0.1.1", right_ip: str = "10.0.2.1") -> Iterator[Bed]:
    """Build it, and take it down.

    Args:
        mtu: Of all interfaces.
        queues: Receive and transmit queues of all interfaces.
        left_ip, right_ip: Addresses of the hosts, in networks of 24 bits; the gateway has .254 in both.
    """
    tag = f"b{os.getpid()}"
    hosts = {name: f"{tag}-{name}" for name in ("left", "gw", "right")}
    width = ["numtxqueues", str(queues), "numrxqueues", str(queues)]
    with ExitStack() as undo:
        for name in hosts.values():
            _tool("ip", "netns", "add", name)
            undo.callback(_tool, "ip", "netns", "delete", name)
            _tool("ip", "-n", name, "link", "set", "lo", "up")
            _tool("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        for host, own, mac, gateway, gateway_mac, address in (
            ("left", "lh", LEFT_MAC, "gl", GW_LEFT_MAC, left_ip),
            ("right", "rh", RIGHT_MAC, "gr", GW_RIGHT_MAC, right_ip),
        ):
            near = [own, "netns", hosts[host], "address", mac, "mtu", str(mtu), *width]
            far = [gateway, "netns", hosts["gw"], "address", gateway_mac, "mtu", str(mtu), *width]
            _tool("ip", "link", "add", *near, "type", "veth", "peer", "name", *far)
            _tool("ip", "-n", hosts[host], "addr", "add", f"{address}/24", "dev", own)
            _tool("ip", "-n", hosts["gw"], "addr", "add", f"{address.rsplit('.', 1)[0]}.254/24", "dev", gateway)
            _tool("ip", "-n", hosts[host], "link", "set", own, "up")
            _tool("ip", "-n", hosts["gw"], "link", "set", gateway, "up")
            # AF_XDP carries no note that a checksum is still to be made.
            _tool("ip", "netns", "exec", hosts[host], "ethtool", "-K", own, "tx", "off")
            # The peer of an interface that programs redirect to must poll, or it takes nothing.
            _tool("ip", "netns", "exec", hosts[host], "ethtool", "-K", own, "gro", "on")
        yield Bed(
            NamespaceHost(hosts["left"], left_ip, ("lh",)),
            NamespaceHost(hosts["gw"], "", ("gl", "gr")),
            NamespaceHost(hosts["right"], right_ip, ("rh",)),
        )
