"""The data plane's benchmark where no kernel is needed: packets, fits, profiles, samples and the relay."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from emulator.errors import GatewayError, ScenarioError
from emulator.scenario.profile_file import load_profile
from tests.bench.dataplane.calibrate import cost_fit, profile_of
from tests.bench.dataplane.connections import Delays, Stream
from tests.bench.dataplane.evidence import read_samples
from tests.bench.dataplane.memory import Watched
from tests.bench.dataplane.rates import SIZES, Rate, Rates
from tests.bench.dataplane.relay import Relay
from tests.bench.dataplane.results import Measured, Results, show
from tests.bench.dataplane.stored import read_results
from tests.bench.dataplane.traffic import FIRST_PORT, frame, with_port
from tests.support.rings_bed import GW_LEFT_MAC, LEFT_MAC


@pytest.mark.parametrize("size", SIZES.values())
@pytest.mark.parametrize("step", [0, 1, 63])
def test_packets_are_right(size: int, step: int) -> None:
    """Length and both checksums are right, whatever source port a flow has; scapy works them out anew."""
    data = with_port(frame(size, LEFT_MAC, GW_LEFT_MAC, "10.0.1.1", "10.0.2.1"), FIRST_PORT + step)
    assert len(data) == size
    packet = Ether(data)
    assert (packet.src, packet.dst, packet[UDP].sport) == (LEFT_MAC, GW_LEFT_MAC, FIRST_PORT + step)
    told = packet[IP].chksum, packet[UDP].chksum
    del packet[IP].chksum, packet[UDP].chksum
    again = Ether(bytes(packet))
    assert (again[IP].chksum, again[UDP].chksum) == told


@pytest.mark.parametrize(
    ("costs", "packet", "byte"),
    [
        ({60: 500.0 + 60 * 0.25, 1514: 500.0 + 1514 * 0.25, 9014: 500.0 + 9014 * 0.25}, 500.0, 0.25),
        ({60: 300.0, 9014: 100.0}, (1 / 300 + 1 / 100) / (1 / 300**2 + 1 / 100**2), 0.0),
        ({1000: 100.0, 9000: 9000.0}, 0.0, (10 + 1) / (10**2 + 1**2)),
    ],
)
def test_costs_are_so_much_a_packet_and_a_byte(costs: dict[int, float], packet: float, byte: float) -> None:
    """A line through the costs; neither part is ever below zero."""
    assert cost_fit(costs) == pytest.approx((packet, byte))


def test_costs_of_short_packets_do_not_vanish_beside_those_of_long_ones() -> None:
    """Where long packets cost more than in proportion, each size is met as well as the others."""
    packet, byte = cost_fit({60: 337.0, 1514: 349.0, 9014: 5673.0})
    assert 150 < packet + 60 * byte < 400


def measured(rate: float, rtt_ns: float) -> Measured:
    """A mode in three rounds, each a little slower than the one before."""
    one = Measured()
    for slower in (1.0, 1.1, 1.3):
        for size in (64, 9000):
            best = Rate(rate, rate / slower, 100.0 * slower, 50.0, 1.0)
            one.rates.setdefault(size, []).append(Rates(best, best))
        one.delays.append(Delays(rtt_ns * slower, 0, 0, 10))
        one.streams.append(Stream(1e9 / slower, 700 * slower, 0.9))
    return one


def results() -> Results:
    """A run of what a profile needs."""
    proxy = measured(1.0, 90_000)
    proxy.rates.clear()
    modes = {"ip_forwarding": measured(1e6, 60_000), "offload": measured(4e6, 50_000), "proxy_copies": proxy}
    return Results(3, 0.3, modes, direct=measured(1.0, 20_000), alone={64: [8e6]})


def test_measurements_become_a_profile(tmp_path: Path) -> None:
    """What is written is read back: half of what a round trip takes longer, the capacities, and their spread."""
    content = profile_of(results())
    offload = content["modes"]["offload"]
    assert offload["latency"] == {"median": "16500 ns", "low": "15000 ns", "high": "19500 ns"}
    assert offload["packet_rate"] == {"median": round(4e6 / 1.1), "low": round(4e6 / 1.3), "high": 4_000_000}
    assert (offload["packet_cost_ns"], offload["byte_cost_ns"]) == (160.0, 0.0)
    path = tmp_path / "calibrated.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    profile = load_profile(path)
    assert (profile.gateway.latency_ns, profile.gateway.packet_rate) == (16_500, round(4e6 / 1.1))
    assert profile.gateway.bit_rate_bps == round(8 * 9014 * 4e6 / 1.1)
    assert (profile.compute.packet_rate, profile.compute.bit_rate_bps) == (None, round(8e9 / 1.1))


def test_no_profile_of_half_a_run() -> None:
    """Without a mode that nodes need there is no profile, and what failed is said."""
    half = results()
    half.modes["offload"] = Measured(failures=["round 1: no packet comes through"])
    with pytest.raises(GatewayError, match="no profile without offload: offload: round 1: no packet comes through"):
        profile_of(half)


def test_tables_show_what_was_not_measured_and_what_failed() -> None:
    """Gaps are dashes, ratios are to the kernel's forwarding, and failures stand below."""
    half = results()
    half.modes["af_xdp"] = Measured(failures=["round 1: the interface is gone"])
    console = Console(width=160, record=True, file=io.StringIO())
    show(half, console)
    text = console.export_text()
    assert "3636 3077-4000 x4.00" in text
    assert "the interface is gone" in text
    row = next(line for line in text.splitlines() if "AF_XDP" in line)
    assert row.count(" - ") >= 4


def test_short_runs_make_up_one(tmp_path: Path) -> None:
    """Files of two runs, of which one lacks a mode, are read as one run, and shown as tables for documents."""
    first, second = results(), results()
    first.load, second.load = [0.25], [1.5]
    second.modes["af_xdp_apart"] = measured(2e6, 1.0)
    paths = [tmp_path / "1.json", tmp_path / "2.json"]
    for path, one in zip(paths, (first, second), strict=True):
        path.write_text(json.dumps(one.as_json()), encoding="utf-8")
    assert read_results(paths[:1]) == first
    both = read_results(paths)
    assert (both.rounds, both.load, both.alone[64]) == (6, [0.25, 1.5], [8e6, 8e6])
    assert both.modes["offload"].rates[64] == 2 * first.modes["offload"].rates[64]
    assert both.modes["af_xdp_apart"] == second.modes["af_xdp_apart"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        show(both, Console(), markdown=True)
    lines = out.getvalue().splitlines()
    assert "load before it 0.2, 1.5: medians of 6 rounds of 0.3 s" in lines[0]
    (row,) = (line for line in lines if line.startswith("| gateway, flows offloaded to XDP | 3"))
    assert row.split("|")[2].strip() == "3636 (3077-4000) x4.00"
    assert {line.count("|") for line in lines if line.startswith("|")} == {6, 7}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is no JSON"),
        ("[]", "is no file of compare's"),
        ('{"rounds": 3}', "is no file of compare's: KeyError 'seconds'"),
        (json.dumps({**results().as_json(), "modes": {"bridge": 3}}), "is no file of compare's"),
        (json.dumps({**results().as_json(), "seconds": 9}), "not measured on the same machine and as long as"),
    ],
)
def test_files_that_are_no_results(tmp_path: Path, text: str, reason: str) -> None:
    """One line that names the file."""
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(results().as_json()), encoding="utf-8")
    bad.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=f"^{bad}: {reason}"):
        read_results([good, bad])


def test_memory_that_only_breathes_has_not_grown() -> None:
    """What an allocator takes for a while is not growth; what it keeps is, also in a run of few samples."""
    breathing = Watched("sockets", 1, 1.0, (100, 130, 110, 100, 140, 125, 101, 131, 102, 135), 0, 0)
    assert (breathing.before_kib, breathing.after_kib) == (100, 102)
    growing = Watched("sockets", 1, 1.0, tuple(range(100, 110)), 0, 0)
    assert (growing.before_kib, growing.after_kib) == (100, 108)
    assert (Watched("x", 1, 1.0, (5,), 0, 0).before_kib, Watched("x", 1, 1.0, (5,), 0, 0).after_kib) == (5, 5)


def test_samples_are_charged_to_who_copies() -> None:
    """A stack that ends in copying code belongs to its first other function; user space and the rest are told apart."""
    stacks = [
        "ffffffff81 __pi_memcpy\nffffffff82 __xsk_rcv\nffffffff83 xsk_rcv",
        "ffffffff81 __pi_memcpy+0x10\nffffffff84 skb_store_bits+0x5",
        "ffffffff85 rep_movs_alternative\nffffffff86 _copy_to_iter\nffffffff87 tcp_recvmsg_locked",
        "ffffffff88 veth_xmit\nffffffff89 dev_hard_start_xmit",
        "7f0000001 memcpy\n7f0000002 main",
        "",
    ]
    found = read_samples("\n\n".join(stacks))
    assert (found.samples, found.in_kernel, found.copying) == (5, 0.8, 0.6)
    assert dict(found.copiers) == pytest.approx({"__xsk_rcv": 0.2, "skb_store_bits": 0.2, "tcp_recvmsg_locked": 0.2})
    assert dict(found.others) == pytest.approx({"veth_xmit": 0.2, "outside the kernel": 0.2})


@contextmanager
def relayed(kind: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection through a relay on the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as target:
        relay = Relay(kind, ("127.0.0.1", 0), target.getsockname())
        thread = threading.Thread(target=relay.run)
        thread.start()
        try:
            with socket.create_connection(relay.address) as left:
                right, _ = target.accept()
                with right:
                    yield left, right
        finally:
            relay.stop()
            thread.join()


@pytest.mark.parametrize("kind", ["copies", "splice"])
def test_relays_carry_everything_both_ways(kind: str) -> None:
    """More than all buffers hold arrives in order while nobody reads for a while, and ends travel on."""
    data = bytes(range(256)) * 40_000
    with relayed(kind) as (left, right):
        sender = threading.Thread(target=lambda: (left.sendall(data), left.shutdown(socket.SHUT_WR)))
        sender.start()
        right.sendall(b"back")
        assert left.recv(4, socket.MSG_WAITALL) == b"back"
        received = bytearray()
        while piece := right.recv(1 << 16):
            received += piece
        sender.join()
        assert received == data
        right.sendall(b"last")
        right.shutdown(socket.SHUT_WR)
        assert left.recv(100, socket.MSG_WAITALL) == b"last"
