"""Tests of the offload on veth that run where network namespaces may be made; `tests/system` boots a machine for it.

Natively: ``python -m pytest tests/support/offload_guest.py``, as root.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from emulator.errors import GatewayError
from gateway.offload.build import compile_source
from gateway.offload.libbpf import BpfObject, VerifierError, get_pinned
from gateway.offload.maps import BpfMap
from gateway.offload.offloading import Offload
from gateway.offload.records import COUNT, Conversation, Forwarding
from gateway.offload.steering import Steering
from gateway.rings.umem import Umem, UmemPlan
from gateway.rings.xsk import Mode, RingSizes, XskPort
from tests.support.rings_bed import GW_LEFT_MAC, GW_RIGHT_MAC, LEFT_MAC, RIGHT_MAC, Bed, bed, may_make_namespaces
from tests.support.rings_guest import wait_readable

pytestmark = pytest.mark.skipif(not may_make_namespaces(), reason="network namespaces may not be made here")
REPOSITORY = Path(__file__).resolve().parents[2]
LEFT, RIGHT, SERVICE = IPv4Address("10.0.1.1"), IPv4Address("10.0.2.1"), IPv4Address("192.168.7.7")


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that becomes a BPF file system of the test's own."""
    path = tmp_path / "bpf"
    yield path
    subprocess.run(["umount", str(path)], capture_output=True)


@pytest.fixture
def built() -> Iterator[Bed]:
    with bed() as made:
        yield made


UNCHECKED = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("xdp") int unchecked(struct xdp_md *context) { return *(const int *)(long)context->data; }
char LICENSE[] SEC("license") = "Apache-2.0";
"""


def test_a_program_that_is_refused_is_named_with_what_the_verifier_said(tmp_path: Path) -> None:
    """A packet is read without a look at where it ends."""
    source, target = tmp_path / "unchecked.bpf.c", tmp_path / "unchecked.bpf.o"
    source.write_text(UNCHECKED)
    compile_source(source, target)
    with pytest.raises(
        VerifierError, match=r"^the kernel refuses the program unchecked: Permission denied\n"
    ) as refused:
        BpfObject(target, ("unchecked",))
    assert "invalid access to packet, off=0 size=4" in str(refused.value)


@contextmanager
def offload(built: Bed, folder: Path, capacity: int = 64, *, withdraw: bool = True) -> Iterator[Offload]:
    """The offload on both interfaces of the gateway."""
    with built.gw.namespace():
        one = Offload(["gl", "gr"], folder, capacity, [IPv4Address("10.0.1.254")])
    try:
        yield one
    finally:
        with built.gw.namespace():
            one.withdraw() if withdraw else one.leave()


def flow(one: Offload, port: int = 1000, protocol: int = 17, to: IPv4Address = RIGHT) -> Conversation:
    return Conversation(one.index("gl"), LEFT, to, port, 9999, protocol)


def to_right(one: Offload, **changes: object) -> Forwarding:
    plain = Forwarding(one.index("gr"), mac(GW_LEFT_MAC), mac(RIGHT_MAC), mac(GW_RIGHT_MAC))
    return replace(plain, **changes)


def packet(port: int = 1000, *, to: IPv4Address = RIGHT, payload: bytes = b"hello", **ip: object) -> Ether:
    """A datagram from left, as left would send it."""
    head = Ether(src=LEFT_MAC, dst=GW_LEFT_MAC) / IP(src=str(LEFT), dst=str(to), **ip)
    return head / UDP(sport=port, dport=9999) / Raw(payload)


def next_ip(sock: socket.socket) -> Ether:
    """The next IPv4 packet."""
    while True:
        data = sock.recv(20_000)
        if data[12:14] == b"\x08\0":
            return Ether(data)


def arrives(sock: socket.socket, seconds: float = 5.0) -> bool:
    """Whether an IPv4 packet comes."""
    sock.settimeout(seconds)
    try:
        next_ip(sock)
    except TimeoutError:
        return False
    return True


def correct(ether: Ether) -> bool:
    """Whether its checksums are those that scapy works out."""
    again = Ether(bytes(ether))
    del again[IP].chksum
    transport = TCP if TCP in again else UDP
    if not (transport is UDP and again[UDP].chksum == 0):
        del again[transport].chksum
    return bytes(Ether(bytes(again))) == bytes(ether)


def test_known_flow_is_forwarded_in_the_kernel(built: Bed, folder: Path) -> None:
    """A packet of a known flow leaves by the other interface with new MAC addresses, one hop less, and is counted."""
    with built.raw(built.left, "lh") as left, built.raw(built.right, "rh") as right, offload(built, folder) as one:
        assert one.flows.install([(flow(one), to_right(one))], time.monotonic_ns()) == 1
        before = time.monotonic_ns()
        for ttl in (64, 2, 255):
            left.send(bytes(packet(ttl=ttl)))
            got = next_ip(right)
            assert (got.src, got.dst, got[IP].ttl) == (GW_RIGHT_MAC, RIGHT_MAC, ttl - 1)
            assert got[Raw].load == b"hello"
            assert correct(got)
        [(name, packets, size, seen)] = one.flows.read()
        assert (name, packets, size) == (flow(one), 3, 3 * (14 + 20 + 8 + 5))
        assert seen >= before - 20_000_000, "the program's clock goes in ticks"
        assert one.outcomes()["hit"] == 3


@pytest.mark.parametrize("protocol", [6, 17])
def test_addresses_and_ports_are_translated(built: Bed, folder: Path, protocol: int) -> None:
    """A flow to a service's address comes to its backend with checksums that are right, whatever the bytes are."""
    with built.raw(built.left, "lh") as left, built.raw(built.right, "rh") as right, offload(built, folder) as one:
        new = to_right(one, destination=RIGHT, destination_port=80, source=IPv4Address("1.2.3.4"), source_port=65535)
        one.flows.install([(flow(one, protocol=protocol, to=SERVICE), new)], time.monotonic_ns())
        head = Ether(src=LEFT_MAC, dst=GW_LEFT_MAC) / IP(src=str(LEFT), dst=str(SERVICE))
        transport = TCP(sport=1000, dport=9999, flags="A") if protocol == 6 else UDP(sport=1000, dport=9999)
        for number in range(50):
            left.send(bytes(head / transport / Raw(bytes([number]) * (number + 1))))
            got = next_ip(right)
            assert (got[IP].src, got[IP].dst) == ("1.2.3.4", str(RIGHT))
            assert (got[IP].payload.sport, got[IP].payload.dport) == (65535, 80)
            assert correct(got)
        if protocol == 17:
            left.send(bytes(head / UDP(sport=1000, dport=9999, chksum=0) / Raw(b"none")))
            assert next_ip(right)[UDP].chksum == 0


def test_everything_else_goes_to_the_daemon(built: Bed, folder: Path) -> None:
    """Packets that the program does not do come to the socket unchanged, and are counted by what they are."""
    with built.raw(built.left, "lh") as left, built.raw(built.right, "rh") as right, offload(built, folder) as one:
        known = [(flow(one, protocol=protocol), to_right(one)) for protocol in (6, 17)]
        one.flows.install(known, time.monotonic_ns())
        with built.gw.namespace():
            umem = Umem(UmemPlan(256))
            port = XskPort(umem, "gl", 0, RingSizes(64, 64, 64, 64), mode=Mode.COPY)
        one.add_socket("gl", 0, port.fileno())
        tcp = Ether(src=LEFT_MAC, dst=GW_LEFT_MAC) / IP(src=str(LEFT), dst=str(RIGHT))
        plain = packet()
        odd = {
            "miss": packet(1001),
            "fragment": packet(flags="MF"),
            "options": packet(options=b"\x01\x01\x01\x01"),
            "expiring": packet(ttl=1),
            "other_protocol": tcp / ICMP(),
            "not_ipv4": Ether(src=LEFT_MAC, dst=GW_LEFT_MAC) / Dot1Q(vlan=5) / plain[IP],
            "connection_control": tcp / TCP(sport=1000, dport=9999, flags="S"),
            "not_our_mac": Ether(src=LEFT_MAC, dst="02:00:00:00:77:77") / plain[IP],
            "truncated": Ether(src=LEFT_MAC, dst=GW_LEFT_MAC, type=0x0800) / Raw(bytes(plain[IP])[:27]),
            "too_long": packet(payload=bytes(1400)),
        }
        one.flows.install([(flow(one), to_right(one, max_bytes=1400))], time.monotonic_ns())
        for data in odd.values():
            left.send(bytes(data))
        got: list[bytes] = []
        while len(got) < len(odd):
            wait_readable(port)
            batch = port.receive(32)
            got += [batch.frame(i) for i in range(len(batch))]
            batch.release()
        assert [data.rstrip(b"\0") for data in got] == [bytes(data).rstrip(b"\0") for data in odd.values()]
        counted = one.outcomes()
        assert {name: counted[name] for name in odd} == dict.fromkeys(odd, 1)
        assert counted["hit"] == 0
        built.left.run(["ping", "-c", "1", "10.0.1.254"])
        left.send(bytes(packet()))
        assert arrives(right), "the known flow still is"
        port.close()
        umem.close()


def test_flows_outlive_the_daemon_and_the_next_adopts_them(built: Bed, folder: Path) -> None:
    """A daemon that is killed leaves its flows running, with their counts; the next takes them over."""
    code = f"""
import os, signal, sys, time
from ipaddress import IPv4Address
from pathlib import Path
from gateway.offload.maps import BpfMap
from gateway.offload.offloading import Offload
from tests.support.offload_guest import flow, to_right
one = Offload(["gl", "gr"], Path({str(folder)!r}), 64)
one.flows.install([(flow(one, port), to_right(one)) for port in (1000, 1001)], time.monotonic_ns())
print("ready", flush=True)
signal.pause()
"""
    with built.raw(built.left, "lh") as left, built.raw(built.right, "rh") as right:
        # The mount has to outlive the daemon: it is made here.
        with built.gw.namespace():
            Offload(["gl"], folder, 4).withdraw()
        daemon = built.gw.popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=REPOSITORY)
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "ready\n"
        left.send(bytes(packet()))
        assert arrives(right)
        os.kill(daemon.pid, signal.SIGKILL)
        assert daemon.wait() == -signal.SIGKILL
        daemon.stdout.close()
        for _ in range(3):
            left.send(bytes(packet()))
            assert arrives(right), "nobody runs, and the flow goes on"
        with offload(built, folder) as one:
            assert one.adopted
            assert sorted((name.source_port, packets) for name, packets, *_ in one.flows.read()) == [
                (1000, 4),
                (1001, 0),
            ]
            assert one.flows.audit(repair=False).agrees
            left.send(bytes(packet()))
            assert arrives(right)
            assert one.flows.remove([flow(one)]) == 1
            assert one.flows.counters.ended_packets == 5
            left.send(bytes(packet()))
            left.send(bytes(packet(1001)))
            assert next_ip(right)[UDP].sport == 1001, "the other flow goes on, this one does not"
        assert not list(folder.rglob("if*"))
        left.send(bytes(packet(1001)))
        assert not arrives(right, 0.2), "the program is off"


def test_a_strangers_program_is_left_alone(built: Bed, folder: Path) -> None:
    """The offload neither adopts nor replaces a program that no daemon of its folder left."""
    with (
        built.gw.namespace(),
        Steering("gl"),
        pytest.raises(GatewayError, match="gl has an XDP program of somebody else"),
    ):
        Offload(["gl"], folder, 4)


def test_full_table_makes_room_for_newcomers(built: Bed, folder: Path) -> None:
    """With more flows than room, those that were idle longest go; the last counts of all are kept."""
    with built.raw(built.left, "lh") as left, built.raw(built.right, "rh") as right, offload(built, folder, 16) as one:
        flows = one.flows
        for port in range(1000, 1016):
            assert flows.install([(flow(one, port), to_right(one))], port) == 1
        # The program's clock goes in ticks, all of which are later than the times of installation above.
        for port in (1003, 1000):
            left.send(bytes(packet(port)))
            assert arrives(right)
        for port in range(2000, 2014):
            assert flows.install([(flow(one, port), to_right(one))], time.monotonic_ns() + port) == 1
        ports = {name.source_port for name in flows.conversations()}
        assert ports == {1000, 1003, *range(2000, 2014)}
        assert flows.counters.evicted == 14
        assert flows.audit(repair=False).agrees
        for port in (2000, 2013, 1003):
            left.send(bytes(packet(port)))
            assert next_ip(right)[UDP].sport == port
        counted = {name.source_port: packets for name, packets, *_ in flows.read()}
        assert {port: count for port, count in counted.items() if count} == {1000: 1, 1003: 2, 2000: 1, 2013: 1}
        assert flows.expire(time.monotonic_ns() + 10**12) == 16
        assert flows.counters.ended_packets == 5
        assert len(flows) == 0


def test_audit_finds_and_repairs_what_somebody_changed(built: Bed, folder: Path) -> None:
    """An entry that is missing, foreign or changed in the kernel's map is found, named, and put right."""
    with offload(built, folder, 16) as one:
        flows = one.flows
        flows.install([(flow(one, port), to_right(one)) for port in range(5)], time.monotonic_ns())
        keys, values = flows._map.all()
        by_port = {int(key["source_port"]): number for number, key in enumerate(keys)}
        flows._map.delete_all(keys[[by_port[0]]])
        changed, stranger = values[by_port[1]].copy(), keys[by_port[2]].copy()
        changed["egress"] = 99
        stranger["source_port"] = 77
        flows._map.put_all(keys[[by_port[1]]], changed.reshape(1))
        flows._map.put_all(stranger.reshape(1), values[[by_port[2]]])
        found = flows.audit(repair=True)
        assert (found.missing, found.foreign, found.different) == (1, 1, 1)
        assert any("foreign" in text and "source_port=77" in text for text in found.examples)
        assert flows.audit(repair=False).agrees


def test_pins_are_what_is_shared(built: Bed, folder: Path) -> None:
    """All interfaces share one table: what comes in on either is found in it, and by whoever opens its name."""
    with built.raw(built.left, "lh") as left, built.raw(built.right, "rh") as right, offload(built, folder, 16) as one:
        back = Conversation(one.index("gr"), RIGHT, LEFT, 9999, 1000, 17)
        home = Forwarding(one.index("gl"), mac(GW_RIGHT_MAC), mac(LEFT_MAC), mac(GW_LEFT_MAC))
        one.flows.install([(flow(one), to_right(one)), (back, home)], time.monotonic_ns())
        left.send(bytes(packet()))
        assert arrives(right)
        answer = Ether(src=RIGHT_MAC, dst=GW_RIGHT_MAC) / IP(src=str(RIGHT), dst=str(LEFT))
        right.send(bytes(answer / UDP(sport=9999, dport=1000) / Raw(b"back")))
        assert next_ip(left)[Raw].load == b"back"
        [path] = folder.glob("*/flow_counters")
        fd = get_pinned(path)
        keys, values = BpfMap(fd, "=u4", COUNT, one._outcomes.cpus).all()
        os.close(fd)
        assert len(keys) == 16
        assert int(values["packets"].sum()) == 2
