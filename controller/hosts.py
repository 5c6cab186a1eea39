"""What the hosts of a fabric do with packets, as `pathtrace` follows them: receive, forward, terminate, answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from controller.designs import Hop
from controller.flows import ETH_TYPE_IPV4, IP_PROTO_ICMP, IP_PROTO_TCP, IP_PROTO_UDP, NO_VLAN
from controller.frame import Frame
from emulator.errors import ControllerError
from emulator.model.fabric import Fabric, Node

PROTOCOLS: Mapping[str, int] = {"icmp": IP_PROTO_ICMP, "tcp": IP_PROTO_TCP, "udp": IP_PROTO_UDP}
_GROUP_BIT = 1
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_TTL = 64


class Hosts:
    """The software of all hosts.

    Args:
        fabric: Who there is.
        hops: What the software of visited nodes does with packets for others; the other nodes drop them.
        services: Address and TCP port of each service that proxies know.
        addresses: Addresses of hosts that do not use their fabric address, by name: members of a VPC.
    """

    def __init__(
        self,
        fabric: Fabric,
        hops: Mapping[str, Hop],
        services: Collection[tuple[str, int]],
        addresses: Mapping[str, str],
    ) -> None:
        self._fabric = fabric
        self._hops = hops
        self._services = services
        self._private = addresses
        self._owners = {str(node.ip.ip): node for node in fabric.hosts if node.ip}

    def host(self, name: str) -> Node:
        """A host by name. Raises: ControllerError: there is none."""
        node = self._fabric.by_name.get(name)
        if node is None or node.is_switch:
            raise ControllerError(f"there is no host {name!r} in the fabric {self._fabric.name!r}")
        return node

    def address(self, node: Node) -> str:
        """The address that a host uses."""
        return self._private.get(node.name) or (str(node.ip.ip) if node.ip else "")

    def request(self, source: str, target: str, protocol: str, source_port: int, port: int) -> Frame:
        """What opens an exchange: a TCP segment without ACK, a UDP datagram, or an ICMP echo request.

        Raises:
            ControllerError: Unknown host or protocol.
        """
        here, there = self.host(source), self.host(target)
        if protocol not in PROTOCOLS:
            raise ControllerError(f"unknown protocol {protocol!r}: {', '.join(PROTOCOLS)}")
        ports = (source_port, port)
        tcp_src, tcp_dst = ports if protocol == "tcp" else (None, None)
        udp_src, udp_dst = ports if protocol == "udp" else (None, None)
        return Frame(
            eth_src=here.mac or "",
            eth_dst=there.mac or "",
            eth_type=ETH_TYPE_IPV4,
            ipv4_src=self.address(here),
            ipv4_dst=self.address(there),
            ip_proto=PROTOCOLS[protocol],
            tcp_src=tcp_src,
            tcp_dst=tcp_dst,
            udp_src=udp_src,
            udp_dst=udp_dst,
            icmp_type=_ECHO_REQUEST if protocol == "icmp" else None,
            ttl=_TTL,
        )

    def answer(self, name: str, frame: Frame) -> Frame:
        """The packet that a host sends back: addresses reversed, Ethernet by its neighbour table.

        A member of a VPC talks to its peers directly, so there the neighbour is whoever the frame came from.
        """
        asker = None if name in self._private else self._owners.get(frame.ipv4_src or "")
        return replace(
            frame,
            eth_src=self._fabric.by_name[name].mac or "",
            eth_dst=asker.mac or "" if asker else frame.eth_src,
            ipv4_src=frame.ipv4_dst,
            ipv4_dst=frame.ipv4_src,
            tcp_src=frame.tcp_dst,
            tcp_dst=frame.tcp_src,
            tcp_ack=frame.ip_proto == IP_PROTO_TCP,
            udp_src=frame.udp_dst,
            udp_dst=frame.udp_src,
            icmp_type=_ECHO_REPLY if frame.icmp_type == _ECHO_REQUEST else frame.icmp_type,
            ttl=_TTL,
        )

    def treats(self, node: Node, frame: Frame) -> tuple[str, str]:
        """What a host does with a packet: ``receives``, ``forwards``, ``terminates`` or ``drops``, and why if it does.

        Who has the destination's Ethernet address gets the packet; whether it is meant then depends on the IP address.
        """
        if frame.vlan != NO_VLAN:
            return "drops", f"{node.name} does not look into tagged frames"
        everybody = bool(int(frame.eth_dst[:2], 16) & _GROUP_BIT)
        if frame.eth_dst != node.mac and not everybody:
            return "drops", f"{node.name} is not addressed"
        if everybody or frame.ipv4_dst in (None, self.address(node)):
            return "receives", ""
        hop = self._hops.get(node.name)
        if hop is None or frame.ipv4_dst not in self._owners:
            return "drops", f"{node.name} is not addressed and does not forward it"
        if Hop.TERMINATE in hop and frame.ip_proto == IP_PROTO_TCP:
            if (frame.ipv4_dst, frame.tcp_dst) in self._services:
                return "terminates", ""
            return "drops", f"{node.name} ends no connections to port {frame.tcp_dst}"
        if frame.ttl <= 1:
            return "drops", f"the packet's time to live ends at {node.name}"
        return "forwards", ""

    def forwarded(self, node: Node, frame: Frame) -> Frame:
        """A packet as a forwarding host passes it on."""
        target = self._owners[frame.ipv4_dst or ""]
        return replace(frame, eth_src=node.mac or "", eth_dst=target.mac or "", ttl=frame.ttl - 1)

    def onward(self, proxy: str, frame: Frame, source_port: int) -> Frame:
        """What opens a proxy's own connection to the service that a connection which it ended was for."""
        target = self._owners[frame.ipv4_dst or ""]
        return self.request(proxy, target.name, "tcp", source_port, frame.tcp_dst or 0)
