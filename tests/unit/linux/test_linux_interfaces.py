"""Byte layouts of Linux interfaces: attributes, ring blocks, filters; and nanosecond timers."""

from __future__ import annotations

import socket
import struct
import time
from ipaddress import IPv4Address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.linux import packet_filter, ring
from emulator.linux.foreign_socket import find_descriptor, set_receive_low_water
from emulator.linux.netlink import attribute, attributes
from emulator.linux.timer import Timer, realtime_offset_ns


@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.binary(max_size=40)), max_size=8))
def test_attributes_come_back(pairs: list[tuple[int, bytes]]) -> None:
    """What was packed is what is read, whatever the padding."""
    assert list(attributes(b"".join(attribute(*pair) for pair in pairs))) == pairs


@given(st.binary(max_size=64))
def test_attributes_survive_garbage(data: bytes) -> None:
    """Truncated or nonsensical lengths end the reading; nothing is read beyond the end."""
    assert sum(4 + len(value) for _kind, value in attributes(data)) <= len(data)


def block(frames: list[tuple[int, bytes, int, int]], gaps: list[int]) -> np.ndarray:
    """A ring block as the kernel fills it: frames as (time in ns, kept bytes, full length, tag), gaps between them."""
    data = bytearray(1 << 14)
    at = 48
    struct.pack_into("=IIIIII", data, 0, 3, 48, 1, len(frames), at, 0)
    for index, ((time_ns, kept, length, tag), gap) in enumerate(zip(frames, gaps, strict=True)):
        mac = 82
        size = mac + len(kept) + gap
        step = size if index < len(frames) - 1 else 0
        seconds, nanoseconds = divmod(time_ns, 10**9)
        # Without the status bit that says so, the fields of the tag mean nothing.
        status, kind, value = (0x10, tag >> 16, tag & 0xFFFF) if tag else (0x1, 0xABCD, 0x1234)
        head = (step, seconds, nanoseconds, len(kept), length, status, mac, mac, 0xDEADBEEF, value, kind, 0)
        struct.pack_into("=IIIIIIHHIIHH", data, at, *head)
        data[at + mac : at + mac + len(kept)] = kept
        at += size
    return np.frombuffer(bytes(data), dtype=np.uint8)


frames = st.lists(
    st.tuples(
        st.integers(0, 2**32 * 10**9 - 1),
        st.binary(min_size=16, max_size=60),
        st.integers(16, 9014),
        st.one_of(st.just(0), st.builds(lambda tag: 0x8100_0000 | tag, st.integers(0, 0xFFFF))),
    ),
    min_size=1,
    max_size=60,
)


@given(frames, st.booleans(), st.data())
def test_ring_blocks_are_read_whole(sent: list[tuple[int, bytes, int, int]], even: bool, data: st.DataObject) -> None:
    """Frames of equal and of unequal spacing come out alike: times, lengths, bytes, VLAN tags."""
    if even:
        sent = [(time_ns, sent[0][1], length, tag) for time_ns, _kept, length, tag in sent]
    gaps = [0 if even else data.draw(st.integers(0, 40)) for _ in sent]
    batch = ring._parse(block(sent, gaps))
    assert batch.times_ns.tolist() == [one[0] for one in sent]
    assert batch.lengths_bytes.tolist() == [one[2] for one in sent]
    assert batch.tags.tolist() == [one[3] for one in sent]
    assert list(batch.frames()) == [one[1] for one in sent]
    assert [row.tobytes() for row in batch.field(2, 8)] == [one[1][2:10] for one in sent]


def interpret(program: list[packet_filter.Instruction], packet: bytes) -> int:
    """How many bytes a filter keeps: a small machine for the few instructions in use."""
    accumulator, at = 0, 0
    while True:
        code, true, false, constant = program[at]
        at += 1
        if code == 0x06:
            return constant
        if code in (0x20, 0x28, 0x30):
            size = {0x20: 4, 0x28: 2, 0x30: 1}[code]
            if constant + size > len(packet):
                return 0
            accumulator = int.from_bytes(packet[constant : constant + size], "big")
        elif code == 0x15:
            at += true if accumulator == constant else false
        else:
            raise AssertionError(code)


def udp_frame(ethertype: int, protocol: int, port: int) -> bytes:
    ip = bytes([0x45]) + bytes(8) + bytes([protocol]) + bytes(10)
    return bytes(12) + ethertype.to_bytes(2, "big") + ip + bytes(2) + port.to_bytes(2, "big") + bytes(20)


@given(st.sampled_from([0x0800, 0x86DD, 0x0806]), st.sampled_from([6, 17, 1]), st.integers(0, 65_535))
def test_the_udp_filter_keeps_one_port(ethertype: int, protocol: int, port: int) -> None:
    """Only IPv4 UDP to the port is kept; everything else, and any stump of a packet, is not."""
    program = packet_filter.keep_udp_port(9, 50)
    frame = udp_frame(ethertype, protocol, port)
    wanted = (ethertype, protocol, port) == (0x0800, 17, 9)
    assert interpret(program, frame) == (50 if wanted else 0)
    assert interpret(program, udp_frame(0x0800, 17, 9)) == 50
    assert interpret(program, frame[:20]) == 0


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_the_udp_filter_keeps_one_address(address: int, right_port: bool) -> None:
    """With an address, what is meant for another one is not kept, whatever its port."""
    program = packet_filter.keep_udp_port(9, 50, "10.1.2.3")
    for there in (address, int(IPv4Address("10.1.2.3"))):
        frame = bytearray(udp_frame(0x0800, 17, 9 if right_port else 10))
        frame[30:34] = there.to_bytes(4, "big")
        wanted = right_port and there == int(IPv4Address("10.1.2.3"))
        assert interpret(program, bytes(frame)) == (50 if wanted else 0)
        assert interpret(program, bytes(frame[:32])) == 0


def test_a_filter_on_a_real_socket() -> None:
    """The kernel takes the programs: one drops every datagram, the other cuts it."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as two,
    ):
        two.bind("")
        packet_filter.attach(two, packet_filter.keep_all(3))
        one.sendto(b"abcdef", two.getsockname())
        assert two.recv(100) == b"abc"


def test_a_timer_does_not_end_early() -> None:
    """Waiting ends at the time or after it, and at once for a time that is over."""
    with Timer() as timer:
        due = time.monotonic_ns() + 2_000_000
        timer.wait_until(due)
        assert time.monotonic_ns() >= due
        timer.wait_until(0)
        timer.wait_until(-5)


def test_clock_offset() -> None:
    """The offset carries the monotonic clock to the time of day, within what a busy machine can lose between reads."""
    assert time.monotonic_ns() + realtime_offset_ns() == pytest.approx(time.time_ns(), abs=5 * 10**8)


def test_a_socket_of_another_process_is_found_by_its_inode() -> None:
    """Our own process serves as the other one: the option arrives at the very socket; unknown ones are not found."""
    import os

    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        inode = os.fstat(client.fileno()).st_ino
        assert find_descriptor(os.getpid(), inode) == client.fileno()
        if set_receive_low_water(os.getpid(), inode, 4096):
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 4096
    assert find_descriptor(os.getpid(), inode) is None
    assert find_descriptor(2**22 + 1, 1) is None
    assert not set_receive_low_water(2**22 + 1, 1, 4096)
