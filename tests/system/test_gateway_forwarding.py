"""The forwarding daemon in the virtual kernel: times to the nanosecond, rates, drops, odd frames, clean ends.

All experiments run in one machine (see tests/support/gateway_forwarding.py); each test looks at one of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway_run import run_experiments

pytestmark = pytest.mark.virtual

EXPERIMENTS = (
    "forward_rtt",
    "forward_throughput",
    "forward_capacity",
    "forward_small_ring",
    "forward_stop_while_holding",
    "forward_odd_frames",
    "forward_super_packets",
    "forward_clock_step",
    "forward_interface_gone",
    "both_on_one_host",
    "forward_upgrade",
    "forward_upgrade_while_holding",
)

CLOCK_READINGS_NS = 2
"""The probe reads the clock twice, and each reading moves it by one step of 1 ns."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_experiments(EXPERIMENTS, tmp_path_factory.mktemp("forwarding"))


def found(measured: dict[str, Any], name: str) -> dict[str, Any]:
    result: dict[str, Any] = measured[name]
    assert "failed" not in result, result["failed"]
    return result


def ended_well(end: dict[str, Any]) -> dict[str, Any]:
    """The daemon ended cleanly and told the same figures twice; returns its counters."""
    assert end["exit"] == 0
    assert end["stderr"] == ""
    assert not end["socket_left"]
    assert end["printed"] == end.get("answered", end["printed"])
    assert end["printed"]["held_frames"] == 0
    counters: dict[str, Any] = end["printed"]["counters"]
    assert counters["rx_frames"] + counters["not_forwarded"]["ring_full"] == counters["tx_frames"] + sum(
        counters["not_forwarded"].values()
    )
    return counters


@pytest.mark.parametrize("run", range(4))
def test_round_trips_are_theory(measured: dict[str, Any], run: int) -> None:
    """Four lines each way and one traversal: links x delay + serialization + latency, to the nanosecond.

    The requirement is 0.1 us and one clock step a hop; what is seen is the probe's own reading of the clock.
    """
    one = found(measured, "forward_rtt")["runs"][run]
    counters = ended_well(one["end"])
    assert counters["lost_frames"] == 0
    for rtt in one["rtt_ns"]:
        assert 0 <= rtt - one["theory_ns"] <= CLOCK_READINGS_NS
    for ping in one["ping_ns"]:
        # ping prints three digits of a millisecond below 1 ms
        assert abs(ping - one["theory_ns"]) <= 1000


def test_line_rate(measured: dict[str, Any]) -> None:
    """TCP fills 100 Gbit/s with 9000-byte packets through the daemon, without a loss, in batches."""
    one = found(measured, "forward_throughput")
    counters = ended_well(one["end"])
    assert counters["lost_frames"] == 0
    # Of 9038 bytes on the line, 8948 are payload.
    assert one["goodput_bps"] > 0.99 * 100e9 * 8948 / 9038
    assert counters["tx_frames"] > 3 * counters["tx_batches"]
    assert one["unbatched"]["goodput_bps"] == one["goodput_bps"], "handing frames over early changed their times"
    plain = ended_well(one["unbatched"]["end"])
    assert plain["tx_batches"] > 3 * counters["tx_batches"]


def test_capacity_and_finite_queue(measured: dict[str, Any]) -> None:
    """Offered 200 times its capacity: packets leave 2000 ns apart, the queue's worth first, the rest is dropped."""
    one = found(measured, "forward_capacity")
    counters = ended_well(one["end"])
    numbers, gaps = one["numbers"], one["gaps_ns"]
    assert set(gaps) == {2000}
    # The one in service and the hundred that may wait.
    assert numbers[:101] == list(range(101))
    assert numbers[101] > 101
    lost = counters["not_forwarded"]["station_full"] + counters["not_forwarded"]["ring_full"]
    assert counters["not_forwarded"]["station_full"] > 0
    # Two more frames than the blast: the one that ends it.
    assert one["sent"] + 1 - len(numbers) - 1 == lost
    # As many are accepted as the server finishes while frames arrive, give or take the one in service.
    arriving_ns = one["sent"] * one["arrival_gap_ns"]
    assert abs(len(numbers) - 101 - arriving_ns // 2000) <= 3


def test_small_ring_loses_what_it_cannot_hold(measured: dict[str, Any]) -> None:
    """With fewer slots than frames in flight the kernel drops and says how many; nothing else is lost."""
    one = found(measured, "forward_small_ring")
    counters = ended_well(one["end"])
    slots = one["end"]["printed"]["port"]["slots"]
    assert one["numbers"] == list(range(slots))
    assert counters["not_forwarded"]["ring_full"] == one["sent"] - slots
    assert counters["lost_frames"] == counters["not_forwarded"]["ring_full"]


@pytest.mark.parametrize("run", [0, 1])
def test_held_frames_leave_before_the_end(measured: dict[str, Any], run: int) -> None:
    """Stopped by socket or signal while ten frames wait for their second to pass: all ten arrive first."""
    one = found(measured, "forward_stop_while_holding")["runs"][run]
    counters = ended_well(one["end"])
    assert one["came"] == counters["tx_frames"] == 10
    assert counters["lost_frames"] == 0


def test_odd_frames_are_counted_by_reason(measured: dict[str, Any]) -> None:
    """Own address (and the kernel answers it), expired, unknown, VLAN, IPv6, ARP, garbage: each by its name."""
    one = found(measured, "forward_odd_frames")
    counters = ended_well(one["end"])
    assert one["own_replies"] == 2
    seen = {reason: count for reason, count in counters["not_forwarded"].items() if count}
    assert seen.pop("group") >= 1
    assert seen == {
        "own_address": 2,
        "ttl_expired": 3,
        "no_neighbour": 4,
        "vlan": 1,
        "ipv6": 1,
        "malformed": 1,
        "not_ip": 1,
        "truncated": 1,
    }
    assert counters["tx_frames"] == 0


def test_super_packets_arrive_intact(measured: dict[str, Any]) -> None:
    """With segmentation offload on, packets of up to 64 KiB with pending checksums are forwarded whole and counted."""
    one = found(measured, "forward_super_packets")
    counters = ended_well(one["end"])
    assert one["same"]
    assert counters["lost_frames"] == 0
    data_packets = one["bytes"] // 8948
    assert counters["rx_frames"] < data_packets / 2
    assert one["end"]["printed"]["station"]["served_packets"] >= data_packets


def test_a_set_clock_holds_nothing_up(measured: dict[str, Any]) -> None:
    """The system's clock is set back an hour while frames are held: they leave at once instead of in an hour.

    The first frame after that leaves early too, for the daemon notices when it arms its timer; then all is as before.
    """
    one = found(measured, "forward_clock_step")
    counters = ended_well(one["end"])
    assert one["came"] == counters["tx_frames"] == 8
    assert counters["clock_steps"] == 1
    held, first, *later = one["waited_ns"]
    assert held < 10**8
    on_time = pytest.approx(500_032_000, abs=100)
    assert first < 10**8 or first == on_time
    for waited in later:
        assert waited == on_time


def test_a_lost_interface_ends_the_daemon(measured: dict[str, Any]) -> None:
    """Down and up again it forwards on; when the interface is gone it ends with one line, rather than wait for ever."""
    one = found(measured, "forward_interface_gone")
    assert len(one["pings"]) == 2
    assert one["exit"] == 6
    assert one["stderr"] == "error: the interface g0 is gone\n"


def test_proxy_and_forwarder_share_a_host(measured: dict[str, Any]) -> None:
    """Intercepted TCP takes the proxy's station and never reaches the forwarder's ring; the rest does."""
    one = found(measured, "both_on_one_host")
    for rtt in one["proxied_ns"]:
        assert rtt > 200_000
    for rtt in one["other_ns"]:
        assert rtt < 100_000
    # Three messages and answers, and the two handshakes' and ends' packets of the one connection that was not proxied.
    assert 6 <= one["other_frames"] <= 20
    forward, proxy = one["forward_end"]["printed"], one["end"]["printed"]
    assert forward["counters"]["not_forwarded"]["own_address"] == 0
    assert proxy["counters"]["accepted"] == proxy["counters"]["completed"] == 1


def test_bad_starts_are_one_line(measured: dict[str, Any]) -> None:
    """A kernel that forwards too, an interface that is missing, a control socket in use: one line, exit code 6."""
    starts = found(measured, "both_on_one_host")["bad_starts"]
    for name, says in (
        ("kernel_forwards", "error: the kernel forwards here too: set net.ipv4.ip_forward=0"),
        ("no_interface", "error: cannot set up a ring on nosuch0: No such device"),
        ("socket_in_use", "another daemon listens there"),
        ("port_in_use", "error: cannot listen on port 15001: Address already in use"),
    ):
        assert starts[name]["exit"] == 6, name
        assert says in starts[name]["stderr"]
        assert starts[name]["stderr"].count("\n") == 1


def test_the_folder_is_used(tmp_path: Path) -> None:
    """An experiment that does not exist is an error of the test, not a skip."""
    with pytest.raises(AssertionError, match="the experiments ended with exit code"):
        run_experiments(("no_such_experiment",), tmp_path)


def test_upgrades_lose_no_packet(measured: dict[str, Any]) -> None:
    """Daemons take over from each other in the middle of a TCP stream at line rate.

    Verify: the bytes are the same, TCP sent nothing twice, each daemon took part, and figures go on where they were.
    """
    result = found(measured, "forward_upgrade")
    assert result["same"] is True
    assert result["retransmissions"] == [0, 0]
    counters = ended_well(result["end"])
    assert counters["lost_frames"] == 0
    carried = [end["printed"]["counters"]["tx_bytes"] for end in result["ends"]]
    assert 0 < carried[0] < carried[1] < carried[2] < counters["tx_bytes"] - result["bytes"] // 4
    assert counters["tx_bytes"] > result["bytes"]
    for end in result["ends"]:
        assert (end["exit"], end["stderr"], end["printed"]["handed_over"]) == (0, "", True)


def test_held_frames_change_hands(measured: dict[str, Any]) -> None:
    """Frames in the middle of a second's latency leave when they were to, whoever sends them, and are not overtaken.

    Verify: also after a successor that fails; its error is one line, as is that of one that finds nobody to replace.
    """
    result = found(measured, "forward_upgrade_while_holding")
    assert result["after_failure"] == result["held"] == result["end"]["printed"]["held_frames"] == 10
    assert [number for number, _ in result["came"]] == list(range(11))
    for _, took_ns in result["came"][:10]:
        assert result["latency_ns"] <= took_ns < result["latency_ns"] + 100_000
    assert result["failure"].endswith("serves g0, not other\n")
    assert result["failure"].count("\n") == result["alone"].count("\n") == 1
    assert result["alone_exit"] == 6
    assert ended_well(result["last"])["tx_frames"] == 11
