"""The copying proxy in the virtual kernel: transparent, intact, at its station's times and rates, clean in failure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateway_run import run_experiments

pytestmark = pytest.mark.virtual

EXPERIMENTS = ("proxy_integrity", "proxy_rtt", "proxy_throughput", "proxy_many_connections", "proxy_failures")

CLOCK_READINGS_NS = 20
"""Probe, proxy and echo read the clock a few times on the way, 1 ns each."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_experiments(EXPERIMENTS, tmp_path_factory.mktemp("proxying"))


def found(measured: dict[str, Any], name: str) -> dict[str, Any]:
    result: dict[str, Any] = measured[name]
    assert "failed" not in result, result["failed"]
    return result


def ended_well(end: dict[str, Any]) -> dict[str, Any]:
    """The daemon ended cleanly and told the same figures twice; returns its counters."""
    assert end["exit"] == 0
    assert end["stderr"] == ""
    assert not end["socket_left"]
    assert end["printed"] == end["answered"]
    assert end["printed"]["open_connections"] == end["printed"]["buffered_bytes"] == 0
    counters: dict[str, Any] = end["printed"]["counters"]
    assert counters["read_bytes"] == counters["sent_bytes"] + counters["discarded_bytes"]
    assert counters["copied_bytes"] == counters["read_bytes"] + counters["sent_bytes"]
    return counters


def test_bytes_are_intact_and_the_proxy_is_seen(measured: dict[str, Any]) -> None:
    """100 MB arrive with the same hash; the server sees the proxy as its peer; the rules are gone afterwards."""
    one = found(measured, "proxy_integrity")
    counters = ended_well(one["end"])
    assert one["same"]
    assert one["peer"] == one["proxy"]
    assert one["rules_left"] == ""
    assert counters["sent_bytes"] == one["bytes"] + 32
    assert counters["completed"] == counters["accepted"] == 1
    # The core is what limits: it is busy nearly all the time.
    busy = one["end"]["printed"]["station"]["busy_ns"]
    assert busy > 0.97 * one["duration_ns"]
    # 8948 bytes a packet; ends of chunks may cost one packet more.
    assert one["bytes"] / 8948 <= one["end"]["printed"]["station"]["served_packets"] < 1.02 * one["bytes"] / 8948


@pytest.mark.parametrize("run", range(3))
def test_latency_is_once_a_traversal(measured: dict[str, Any], run: int) -> None:
    """A small message and its answer: the lines' time and twice the station's latency (or service, if longer)."""
    one = found(measured, "proxy_rtt")["runs"][run]
    ended_well(one["end"])
    for rtt in one["rtt_ns"]:
        assert 0 <= rtt - one["theory_ns"] <= CLOCK_READINGS_NS


def test_throughput_is_the_stations(measured: dict[str, Any]) -> None:
    """Half a million packets a second of 8948 bytes are 35.8 Gbit/s; without that limit it is more than twice that."""
    limited, free = found(measured, "proxy_throughput")["runs"]
    for run in (limited, free):
        ended_well(run["end"])
    capacity = 500_000 * 8948 * 8
    assert limited["goodput_bps"] == pytest.approx(capacity, rel=0.005)
    assert free["goodput_bps"] > 2 * capacity


def test_thousands_of_connections(measured: dict[str, Any]) -> None:
    """Two thousand are open at once, and each gets its own answer."""
    one = found(measured, "proxy_many_connections")
    counters = ended_well(one["end"])
    assert one["open"] == one["right"] == counters["completed"] == one["count"] == 2000


def test_failures(measured: dict[str, Any]) -> None:
    """Resets pass through, a closed port and a direct connection are reset, each counted; the buffer has its limit."""
    one = found(measured, "proxy_failures")
    for name in ("client_resets", "server_resets", "closed_port", "direct"):
        assert one[name] == "ConnectionResetError", name
    assert one["held"] == 4 << 20
    assert one["pushed"] == one["came"] > one["held"]
    assert one["answer"] == "late"
    counters = one["before_kill"]["counters"]
    assert (counters["reset"], counters["connect_failed"], counters["not_intercepted"]) == (2, 1, 1)


def test_a_killed_proxy_is_replaced(measured: dict[str, Any]) -> None:
    """Killed, it leaves rules and socket behind; the next one replaces both and serves."""
    one = found(measured, "proxy_failures")
    assert one["rules_after_kill"] == 1
    assert one["rules_after_restart"] == 1
    assert one["again"] == "again"


def test_drain_and_stop_reach_the_clients(measured: dict[str, Any]) -> None:
    """Draining takes the redirection away but keeps open connections translated: their reset reaches the client."""
    one = found(measured, "proxy_failures")
    ended_well(one["end"])
    assert one["drained"] == [True, 1]
    assert one["rules_while_draining"] == 0
    assert one["cut_client"] == "ConnectionResetError"
    assert one["rules_left"] == ""
