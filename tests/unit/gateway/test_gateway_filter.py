"""The ring's filter, run by the real kernel on a pair of Unix sockets, against the same rule in Python."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.layers.l2 import Ether

from emulator.linux.packet_filter import attach
from gateway.filter import MAX_PORTS, Instruction, without_tcp


class Kernel:
    """Sends frames through a filtered socket: does one come out?"""

    def __init__(self, program: tuple[Instruction, ...]) -> None:
        self.source, self.sink = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.source.setblocking(False)
        self.sink.setblocking(False)
        attach(self.sink, program)

    def passes(self, data: bytes) -> bool:
        # The sender of a datagram that the filter refuses is told that all went well.
        assert self.source.send(data) == len(data)
        try:
            assert self.sink.recv(65536) == data
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self.source.close()
        self.sink.close()


@pytest.fixture(scope="module")
def kernels() -> Iterator[dict[str, Kernel]]:
    made = {
        "two": Kernel(without_tcp(frozenset({4420, 5201}))),
        "all": Kernel(without_tcp(None)),
        "many": Kernel(without_tcp(frozenset(range(1000, 1000 + MAX_PORTS)))),
        "none": Kernel(without_tcp(frozenset())),
    }
    yield made
    for kernel in made.values():
        kernel.close()


def frame(layer4: object, **fields: object) -> bytes:
    return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(**fields) / layer4)


@pytest.mark.parametrize(
    ("data", "two", "every", "many"),
    [
        (frame(TCP(sport=40000, dport=4420)), False, False, True),
        (frame(TCP(sport=5201, dport=40000)), False, False, True),
        (frame(TCP(sport=40000, dport=4421)), True, False, True),
        (frame(TCP(sport=40000, dport=1000)), True, False, False),
        (frame(TCP(sport=1063, dport=40000)), True, False, False),
        (frame(TCP(sport=40000, dport=1064)), True, False, True),
        (frame(TCP(sport=40000, dport=5201), options=[IPOption_Router_Alert()]), False, False, True),
        (frame(TCP(sport=40000, dport=4420), frag=10), True, False, True),
        (frame(TCP(sport=40000, dport=4420), flags="MF"), False, False, True),
        (frame(UDP(sport=40000, dport=4420)), True, True, True),
        (frame(ICMP()), True, True, True),
        (bytes(Ether(type=0x0806) / (b"\x45" + bytes(8) + b"\x06" + bytes(30))), True, True, True),
        (bytes(Ether(type=0x86DD) / bytes(60)), True, True, True),
    ],
)
def test_which_frames_pass(kernels: dict[str, Kernel], data: bytes, two: bool, every: bool, many: bool) -> None:
    """TCP from and to the given ports stays out, in first fragments too; everything else comes in."""
    assert kernels["two"].passes(data) is two
    assert kernels["all"].passes(data) is every
    assert kernels["many"].passes(data) is many
    assert kernels["none"].passes(data)


def expected(data: bytes, ports: frozenset[int] | None) -> bool:
    """The rule; a frame too short for a field that has to be looked at does not pass (as BPF does it)."""
    try:
        if (data[12] << 8 | data[13]) != 0x0800 or data[23] != 6:
            return True
        if ports is None:
            return False
        if (data[20] << 8 | data[21]) & 0x1FFF:
            return True
        at = 14 + 4 * (data[14] & 15)
        source = data[at] << 8 | data[at + 1]
        destination = data[at + 2] << 8 | data[at + 3]
        return not (source in ports or destination in ports)
    except IndexError:
        return False


@given(st.binary(min_size=1, max_size=90), st.booleans(), st.booleans())
def test_arbitrary_bytes(kernels: dict[str, Kernel], data: bytes, ipv4: bool, tcp: bool) -> None:
    """The kernel's verdict equals the rule on any bytes, header lengths and truncation included."""
    changed = bytearray(data)
    if ipv4 and len(data) > 13:
        changed[12:14] = b"\x08\x00"
    if tcp and len(data) > 23:
        changed[23] = 6
    for name, ports in (("two", frozenset({4420, 5201})), ("all", None)):
        assert kernels[name].passes(bytes(changed)) is expected(bytes(changed), ports)


def test_too_many_ports_are_refused() -> None:
    """The jumps of classic BPF reach 255 instructions: more ports than fit are refused, not cut off."""
    with pytest.raises(ValueError, match="65 TCP ports are too many"):
        without_tcp(frozenset(range(1, MAX_PORTS + 2)))
