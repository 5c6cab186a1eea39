"""Frames of the flow model as bytes and back, by scapy: an implementation of the protocols that is not ours."""

from __future__ import annotations

from typing import Any

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw

from controller.flows import ETH_TYPE_ARP, ETH_TYPE_IPV4, IP_PROTO_ICMP, IP_PROTO_TCP, IP_PROTO_UDP
from controller.frame import Frame

_ACK, _SYN = "A", "S"
_NOBODY = "00:00:00:00:00:00"


def frame_bytes(frame: Frame, mark: int) -> bytes:
    """The packet that a frame describes; *mark* goes into its last 4 bytes."""
    packet: Packet = Ether(src=frame.eth_src, dst=frame.eth_dst)
    if frame.vlan:
        for vlan in (frame.vlan, *frame.inner_vlans):
            packet /= Dot1Q(vlan=vlan)
    packet.lastlayer().type = frame.eth_type
    if frame.eth_type == ETH_TYPE_ARP:
        packet /= ARP(
            op=frame.arp_op,
            psrc=frame.arp_spa,
            pdst=frame.arp_tpa,
            hwsrc=frame.arp_sha,
            hwdst=frame.arp_tha or _NOBODY,
        )
    elif frame.eth_type == ETH_TYPE_IPV4:
        packet /= IP(src=frame.ipv4_src, dst=frame.ipv4_dst, proto=frame.ip_proto, ttl=frame.ttl)
        if frame.ip_proto == IP_PROTO_TCP:
            packet /= TCP(sport=frame.tcp_src, dport=frame.tcp_dst, flags=_ACK if frame.tcp_ack else _SYN)
        elif frame.ip_proto == IP_PROTO_UDP:
            packet /= UDP(sport=frame.udp_src, dport=frame.udp_dst)
        elif frame.ip_proto == IP_PROTO_ICMP:
            packet /= ICMP(type=frame.icmp_type)
    return bytes(packet / Raw(bytes(20) + mark.to_bytes(4, "big")))


def bytes_frame(data: bytes) -> tuple[Frame, int]:
    """What `frame_bytes` was made from."""
    packet = Ether(data)
    fields: dict[str, Any] = {"eth_src": packet.src, "eth_dst": packet.dst, "eth_type": packet.type}
    vlans = []
    layer = packet
    while Dot1Q in layer:
        layer = layer[Dot1Q]
        vlans.append(layer.vlan)
        fields["eth_type"] = layer.type
        layer = layer.payload
    if vlans:
        fields |= {"vlan": vlans[0], "inner_vlans": tuple(vlans[1:])}
    if ARP in packet:
        arp = packet[ARP]
        fields |= {"arp_op": arp.op, "arp_spa": arp.psrc, "arp_tpa": arp.pdst, "arp_sha": arp.hwsrc}
        fields["arp_tha"] = arp.hwdst
    if IP in packet:
        ip = packet[IP]
        fields |= {"ipv4_src": ip.src, "ipv4_dst": ip.dst, "ip_proto": ip.proto, "ttl": ip.ttl}
        if TCP in ip:
            fields |= {"tcp_src": ip[TCP].sport, "tcp_dst": ip[TCP].dport, "tcp_ack": "A" in ip[TCP].flags}
        elif UDP in ip:
            fields |= {"udp_src": ip[UDP].sport, "udp_dst": ip[UDP].dport}
        elif ICMP in ip:
            fields["icmp_type"] = ip[ICMP].type
    return Frame(**fields), int.from_bytes(data[-4:], "big")


def checksums_hold(data: bytes) -> bool:
    """Whether the checksums of IPv4, TCP and UDP fit the rest of the packet."""
    packet = Ether(data)
    again = Ether(data)
    for kind in (IP, TCP, UDP):
        if kind in again:
            del again[kind].chksum
    return bytes(packet) == bytes(again)
