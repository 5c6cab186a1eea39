"""The corpus of frames that the data plane is fuzzed with: ``python -m tests.support.frame_corpus`` writes it anew.

Each is one kind of frame that a branch of the parser is about. Mutations of them, in `mutated`, reach the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_LSRR, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6ND_NS,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH, ESP
from scapy.layers.l2 import ARP, GRE, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from tests.support.dataplane_frames import ethernet, ipv4

FOLDER = Path(__file__).resolve().parents[1] / "fuzz" / "corpus" / "frames"


def _bth(opcode: int) -> bytes:
    return bytes([opcode, 0x40, 0xFF, 0xFF, 0, 0, 0, 17, 0x80, 0, 0, 42]) + bytes(28)


def _pdu(kind: int, header: int, offset: int = 0) -> bytes:
    return bytes([kind, 0, header, offset]) + header.to_bytes(4, "little") + bytes(header - 8)


def _ipv6(*extensions: object) -> IPv6:
    packet = IPv6(src="fd00::1", dst="fd00::2", hlim=64)
    for extension in extensions:
        packet = packet / extension
    return packet / UDP(sport=1, dport=2) / Raw(b"six")


def _tunnel(inner: bytes) -> bytes:
    return ethernet(ipv4(UDP(sport=50000, dport=4789) / VXLAN(vni=7001, flags=8) / Ether(inner)))


def seeds() -> dict[str, bytes]:
    """All frames by name."""
    tcp, udp = TCP(sport=40000, dport=80), UDP(sport=40000, dport=2000)
    common, bare = ethernet(ipv4(tcp / Raw(b"GET /"))), ethernet(ipv4(udp))
    six = _ipv6()
    return {
        "empty": b"",
        "runt": bytes(13),
        "bare-header": bytes(14),
        "llc": bytes(12) + b"\x00\x26" + bytes(46),
        "arp": ethernet(ARP()),
        "tcp": common,
        "tcp-options": ethernet(ipv4(TCP(sport=1, dport=2, options=[("MSS", 1460), ("NOP", None)]))),
        "tcp-offset-60": ethernet(ipv4(TCP(sport=1, dport=2, dataofs=15) / Raw(bytes(40)))),
        "tcp-offset-4": ethernet(ipv4(TCP(sport=1, dport=2, dataofs=4))),
        "udp": ethernet(ipv4(udp / Raw(b"payload"))),
        "udp-bare": bare,
        "udp-padded": bare + bytes(18),
        "udp-no-checksum": ethernet(ipv4(UDP(sport=1, dport=2, chksum=0))),
        "udp-length-7": ethernet(ipv4(UDP(sport=1, dport=2, len=7))),
        "udp-length-long": ethernet(ipv4(UDP(sport=1, dport=2, len=99))),
        "icmp": ethernet(ipv4(ICMP())),
        "gre": ethernet(ipv4(GRE() / IP())),
        "multicast": ethernet(ipv4(udp, dst="224.0.0.9"), target="01:00:5e:00:00:09"),
        "broadcast": ethernet(ipv4(udp), target="ff:ff:ff:ff:ff:ff"),
        "ttl-1": ethernet(ipv4(udp, ttl=1)),
        "options": ethernet(ipv4(udp, options=[IPOption_Router_Alert()])),
        "options-40": ethernet(ipv4(udp, options=[IPOption_Router_Alert()] * 10)),
        "source-route": ethernet(ipv4(udp, options=[IPOption_LSRR(routers=["192.0.2.1"])])),
        "first-fragment": ethernet(ipv4(udp, flags="MF")),
        "last-fragment": ethernet(ipv4(udp, frag=185)),
        "bad-checksum": ethernet(ipv4(udp, chksum=1)),
        "version-5": ethernet(ipv4(udp, version=5)),
        "header-16": ethernet(ipv4(udp, ihl=4)),
        "header-60-cut": ethernet(ipv4(udp, ihl=15)),
        "total-19": ethernet(ipv4(udp, len=19)),
        "total-0": ethernet(ipv4(udp, len=0)),
        "total-65535": ethernet(ipv4(udp, len=65535)),
        "tag": ethernet(ipv4(udp), [100]),
        "priority-tag": ethernet(ipv4(udp), [0]),
        "tag-cut": ethernet(ipv4(udp), [100])[:17],
        "qinq": ethernet(ipv4(tcp), [100, 200]),
        "qinq-cut": ethernet(ipv4(tcp), [100, 200])[:20],
        "three-tags": ethernet(ipv4(tcp), [1, 2, 3]),
        "ipv6": ethernet(six),
        "ipv6-tcp": ethernet(IPv6(src="fd00::1", dst="fd00::2") / tcp),
        "ipv6-icmp": ethernet(IPv6(src="fd00::1", dst="ff02::1") / ICMPv6ND_NS()),
        "ipv6-cut": ethernet(six)[:53],
        "ipv6-version-4": ethernet(IPv6(version=4) / udp),
        "ipv6-length-0": ethernet(IPv6(plen=0, nh=0) / Raw(bytes(40))),
        "ipv6-all-extensions": ethernet(
            _ipv6(
                IPv6ExtHdrHopByHop(), IPv6ExtHdrDestOpt(), IPv6ExtHdrRouting(), AH(nh=17, payloadlen=4, icv=bytes(12))
            )
        ),
        "ipv6-atomic-fragment": ethernet(_ipv6(IPv6ExtHdrFragment())),
        "ipv6-atomic-fragment-reserved-bits": ethernet(_ipv6(IPv6ExtHdrFragment(res1=255, res2=3))),
        "ipv6-fragment": ethernet(_ipv6(IPv6ExtHdrFragment(m=1))),
        "ipv6-nine-extensions": ethernet(_ipv6(*(IPv6ExtHdrDestOpt() for _ in range(9)))),
        "ipv6-late-hop-by-hop": ethernet(_ipv6(IPv6ExtHdrDestOpt(), IPv6ExtHdrHopByHop())),
        "ipv6-no-next": ethernet(IPv6(nh=59)),
        "ipv6-esp": ethernet(IPv6(src="fd00::1", dst="fd00::2") / ESP(data=bytes(16))),
        "vxlan": _tunnel(common),
        "vxlan-ipv6": _tunnel(ethernet(six)),
        "vxlan-tagged": _tunnel(ethernet(ipv4(tcp), [5])),
        "vxlan-in-vxlan": _tunnel(_tunnel(common)),
        "vxlan-empty": ethernet(ipv4(UDP(sport=1, dport=4789) / VXLAN(vni=1, flags=8))),
        "vxlan-no-vni": ethernet(ipv4(UDP(sport=1, dport=4789) / VXLAN(vni=1, flags=0) / Ether(common))),
        "vxlan-cut": ethernet(ipv4(UDP(sport=1, dport=4789) / Raw(bytes(7)))),
        "roce-write": ethernet(ipv4(UDP(sport=49152, dport=4791) / Raw(_bth(10)))),
        "roce-acknowledge": ethernet(ipv4(UDP(sport=49152, dport=4791) / Raw(_bth(17)[:20]))),
        "roce-cut": ethernet(ipv4(UDP(sport=49152, dport=4791) / Raw(_bth(10)[:15]))),
        "nvme-connect": ethernet(ipv4(TCP(sport=40000, dport=4420) / Raw(_pdu(0, 128)))),
        "nvme-command": ethernet(ipv4(TCP(sport=40000, dport=4420) / Raw(_pdu(4, 72)))),
        "nvme-data": ethernet(ipv4(TCP(sport=4420, dport=40000) / Raw(_pdu(7, 24, 24) + bytes(100)))),
        "nvme-middle": ethernet(ipv4(TCP(sport=4420, dport=40000) / Raw(bytes(range(64))))),
        "nvme-cut": ethernet(ipv4(TCP(sport=40000, dport=4420) / Raw(b"\x04\x00\x48"))),
    }


def load() -> dict[str, bytes]:
    """The frames as they are kept."""
    return {file.name: bytes.fromhex(file.read_text(encoding="ascii")) for file in sorted(FOLDER.iterdir())}


def mutated(frames: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Damaged frames: some bytes changed, a piece of another frame put in, cut off, or made longer."""
    random = np.random.default_rng(seed)
    interesting = np.array(
        [0, 1, 4, 5, 6, 8, 17, 43, 44, 51, 59, 60, 69, 70, 79, 96, 127, 128, 129, 136, 255], np.uint8
    )
    for _ in range(count):
        data = bytearray(frames[random.integers(len(frames))])
        reach = min(len(data), int(random.choice([24, 48, 80, 140])))
        for position in random.integers(0, reach, random.integers(0, 5)) if reach else []:
            data[position] = random.choice(interesting) if random.random() < 0.7 else random.integers(256)
        kind = random.integers(6)
        if kind == 0:
            del data[random.integers(len(data) + 1) :]
        elif kind == 1:
            other = frames[random.integers(len(frames))]
            data[12:] = other[random.integers(len(other) + 1) :]
        elif kind == 2:
            data += bytes(random.integers(0, 256, random.integers(40), np.uint8))
        yield bytes(data)


def main() -> None:
    """Write the corpus."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in seeds().items():
        (FOLDER / name).write_text(data.hex() + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
