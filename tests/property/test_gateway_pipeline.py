"""The pipeline on arbitrary bytes: only declared outcomes, headers equal to scapy's, nothing else touched."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP, IPOption_Router_Alert
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from gateway.counters import Reason
from gateway.pipeline import ForwardingTable, decide, header_is_intact, rewrite

MAC = bytes.fromhex("020000000001")
PEER = bytes.fromhex("0200000000aa")
OWN, NEXT = IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2")
TABLE = ForwardingTable.build(MAC, [OWN], {NEXT: PEER})


def text(mac: bytes) -> str:
    return mac.hex(":")


def packet(ttl: int, payload: bytes, *, options: bool, udp: bool, tos: int, ident: int, flags: int) -> bytes:
    ip = IP(src="192.0.2.7", dst=str(NEXT), ttl=ttl, tos=tos, id=ident, flags=flags)
    if options:
        ip.options = [IPOption_Router_Alert()]
    layer4 = UDP(sport=1, dport=2) if udp else TCP(sport=1, dport=2)
    return bytes(Ether(src=text(PEER), dst=text(MAC)) / ip / layer4 / Raw(payload))


packets = st.builds(
    packet,
    st.integers(2, 255),
    st.binary(max_size=200),
    options=st.booleans(),
    udp=st.booleans(),
    tos=st.integers(0, 255),
    ident=st.integers(0, 65535),
    flags=st.integers(0, 7),
)


@given(st.binary(max_size=120), st.integers(0, 7))
def test_any_bytes_have_a_declared_outcome(data: bytes, offset: int) -> None:
    """Whatever arrives, at whatever alignment, `decide` returns a reason or 12 bytes, and changes nothing."""
    buffer = bytearray(offset) + data
    outcome = decide(buffer, offset, len(buffer), TABLE)
    assert isinstance(outcome, Reason) or (type(outcome) is bytes and len(outcome) == 12)
    assert buffer == bytearray(offset) + data


@given(packets, st.data())
def test_damaged_headers_have_a_declared_outcome(data: bytes, draw: st.DataObject) -> None:
    """A good frame with some bytes changed and its end cut off: still only declared outcomes."""
    damaged = bytearray(data)
    for position in draw.draw(st.lists(st.integers(0, min(len(data), 54) - 1), max_size=4)):
        damaged[position] = draw.draw(st.integers(0, 255))
    del damaged[draw.draw(st.integers(0, len(damaged))) :]
    outcome = decide(damaged, 0, len(damaged), TABLE)
    assert isinstance(outcome, (Reason, bytes))
    if type(outcome) is bytes:
        before = bytes(damaged)
        rewrite(damaged, 0, outcome)
        header = 4 * (damaged[14] & 15)
        assert header_is_intact(damaged, 14, header)
        assert damaged[14 + header :] == before[14 + header :]


@given(packets)
def test_rewriting_equals_scapy(data: bytes) -> None:
    """Forwarded frames equal what scapy builds with the new addresses and one hop less, checksum included."""
    addresses = decide(bytearray(data), 0, len(data), TABLE)
    assert addresses == PEER + MAC
    frame = bytearray(b"\xee" * 3 + data + b"\xee" * 3)
    rewrite(frame, 3, addresses)
    expected = Ether(data)
    expected.dst, expected.src = text(PEER), text(MAC)
    expected[IP].ttl -= 1
    del expected[IP].chksum
    assert bytes(frame[3:-3]) == bytes(expected)
    assert frame[:3] == frame[-3:] == b"\xee" * 3


def test_every_checksum_is_updated_rightly() -> None:
    """All 65536 values of the rest of the header's sum, hence every carry and both zeros of one's complement."""
    frame = bytearray(packet(64, b"", options=False, udp=True, tos=0, ident=0, flags=0))
    for ident in range(0x10000):
        frame[18:20] = ident.to_bytes(2, "big")
        frame[22] = 64
        frame[24:26] = b"\0\0"
        frame[24:26] = ones_complement(frame[14:34]).to_bytes(2, "big")
        assert header_is_intact(frame, 14, 20)
        rewrite(frame, 0, PEER + MAC)
        stored = bytes(frame[24:26])
        frame[24:26] = b"\0\0"
        assert stored == ones_complement(frame[14:34]).to_bytes(2, "big")


def ones_complement(header: bytes) -> int:
    """RFC 1071 by the book."""
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def frame(**changes: object) -> bytes:
    """A forwardable frame with some fields changed; the checksum is right unless given."""
    ether = {key[4:]: value for key, value in changes.items() if key.startswith("eth_")}
    ip = {key[3:]: value for key, value in changes.items() if key.startswith("ip_")}
    built = Ether(**{"dst": text(MAC), "src": text(PEER), **ether}) / IP(**{"dst": str(NEXT), "src": "192.0.2.7", **ip})
    return bytes(built / UDP() / Raw(bytes(30)))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", Reason.TRUNCATED),
        (bytes(13), Reason.TRUNCATED),
        (frame(eth_dst="ff:ff:ff:ff:ff:ff"), Reason.GROUP),
        (frame(eth_dst="01:00:5e:00:00:01"), Reason.GROUP),
        (frame(eth_dst="ff:ff:ff:ff:ff:ff")[:14], Reason.GROUP),
        (frame(eth_dst="02:00:00:00:00:02"), Reason.NOT_FOR_US),
        (frame(eth_type=0x86DD), Reason.IPV6),
        (frame(eth_type=0x8100), Reason.VLAN),
        (frame(eth_type=0x88A8), Reason.VLAN),
        (frame(eth_type=0x0806), Reason.NOT_IP),
        (frame(eth_type=0x88CC)[:20], Reason.NOT_IP),
        (frame()[:33], Reason.TRUNCATED),
        (frame()[:-1], Reason.TRUNCATED),
        (frame(ip_version=6), Reason.MALFORMED),
        (frame(ip_ihl=4), Reason.MALFORMED),
        (frame(ip_len=19), Reason.MALFORMED),
        (frame(ip_ihl=14, ip_len=58), Reason.BAD_CHECKSUM),
        (frame(ip_chksum=1), Reason.BAD_CHECKSUM),
        (frame(ip_dst=str(OWN)), Reason.OWN_ADDRESS),
        (frame(ip_dst=str(OWN), ip_ttl=1), Reason.OWN_ADDRESS),
        (frame(ip_dst="203.0.113.9"), Reason.NO_NEIGHBOUR),
        (frame(ip_ttl=1), Reason.TTL_EXPIRED),
        (frame(ip_ttl=0), Reason.TTL_EXPIRED),
    ],
)
def test_reasons(data: bytes, expected: Reason) -> None:
    """Every reason that the headers can give, at the border where it begins."""
    assert decide(bytearray(data), 0, len(data), TABLE) is expected


@pytest.mark.parametrize("ttl", [2, 255])
def test_fragments_padding_and_extreme_ttl_are_forwarded(ttl: int) -> None:
    """Fragments need no reassembly here; bytes behind the packet (Ethernet padding) are left as they are."""
    data = frame(ip_ttl=ttl, ip_flags="MF", ip_frag=100) + b"padding"
    assert decide(bytearray(data), 0, len(data), TABLE) == PEER + MAC


def test_own_address_wins_over_neighbours() -> None:
    """A list of neighbours that names this host too does not make it forward to itself."""
    table = ForwardingTable.build(MAC, [OWN], {OWN: PEER, NEXT: PEER})
    data = frame(ip_dst=str(OWN))
    assert decide(bytearray(data), 0, len(data), table) is Reason.OWN_ADDRESS
