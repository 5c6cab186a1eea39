"""The daemons' input files and command line: what is wrong is said in one line with file and key."""

from __future__ import annotations

import json
from dataclasses import asdict
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import GatewayError, ScenarioError
from emulator.model.profile import PROFILES, StationModel
from gateway.cli import main
from gateway.config import load_neighbours, load_station
from gateway.intercept import interception, ruleset

GOOD = StationModel(5_000, None, 10**11, 4096, "claim G01")


@pytest.mark.parametrize("name", list(PROFILES))
def test_every_profile_station_survives_the_file(name: str, tmp_path: Path) -> None:
    """What the glue writes with `asdict` is read back to an equal model, for all profiles."""
    profile = PROFILES[name]
    for model in (profile.gateway, profile.router, profile.compute):
        path = tmp_path / "station.json"
        path.write_text(json.dumps(asdict(model)))
        assert load_station(path) == model


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"latency_ns": -1}, r"latency_ns: -1 is not a whole number from 0 to"),
        ({"latency_ns": 5.0}, "latency_ns: 5.0 is not"),
        ({"latency_ns": True}, "latency_ns: True is not"),
        ({"latency_ns": None}, "latency_ns: None is not"),
        ({"packet_rate": 0}, "packet_rate: 0 is not a whole number from 1 to .* or null"),
        ({"bit_rate_bps": "100 Gbit/s"}, "bit_rate_bps: '100 Gbit/s' is not"),
        ({"bit_rate_bps": 10**16}, "bit_rate_bps"),
        ({"queue_packets": -5}, "queue_packets"),
        ({"source": 3}, "source: 3 is not a text"),
        ({"color": 3}, "color: unknown key: a station has latency_ns"),
        ({"queue_packets": ...}, "queue_packets: is missing"),
    ],
)
def test_bad_stations(changes: dict[str, object], says: str, tmp_path: Path) -> None:
    """Each wrong value, missing and unknown key is named together with the file."""
    data = {key: value for key, value in {**asdict(GOOD), **changes}.items() if value is not ...}
    path = tmp_path / "station.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ScenarioError, match=says) as caught:
        load_station(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ":1: not JSON"),
        ('{\n"a": 1,\n}', ":3: not JSON"),
        ("[1]", "not a JSON object"),
        ('{"10.0.0.1": "02:00:00:00:00:01", "10.0.0.1": "02:00:00:00:00:02"}', "duplicate key '10.0.0.1'"),
        ("[" * 100_000, "not usable|not JSON"),
    ],
)
def test_files_that_are_not_objects(text: str, says: str, tmp_path: Path) -> None:
    """Syntax errors come with their line; a doubled key does not silently win."""
    path = tmp_path / "neighbours.json"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=says):
        load_neighbours(path)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"10.0.0.256": "02:00:00:00:00:01"}, "10.0.0.256: is not an IPv4 address"),
        ({"fe80::1": "02:00:00:00:00:01"}, "fe80::1: is not an IPv4 address"),
        ({"10.0.0.1": "02:00:00:00:00"}, "is not an Ethernet address"),
        ({"10.0.0.1": "02-00-00-00-00-01"}, "is not an Ethernet address"),
        ({"10.0.0.1": 5}, "5 is not an Ethernet address"),
        ({"10.0.0.1": "ff:ff:ff:ff:ff:ff"}, "is a group address"),
    ],
)
def test_bad_neighbours(entry: dict[str, object], says: str, tmp_path: Path) -> None:
    """Each wrong entry is named."""
    path = tmp_path / "neighbours.json"
    path.write_text(json.dumps(entry))
    with pytest.raises(ScenarioError, match=says):
        load_neighbours(path)


@given(st.dictionaries(st.ip_addresses(v=4), st.binary(min_size=6, max_size=6), max_size=20))
def test_neighbours_round_trip(tmp_path_factory: pytest.TempPathFactory, wanted: dict[IPv4Address, bytes]) -> None:
    """Whatever unicast addresses are written are read back."""
    unicast = {ip: bytes([mac[0] & 0xFE]) + mac[1:] for ip, mac in wanted.items()}
    path = tmp_path_factory.getbasetemp() / "round-trip.json"
    path.write_text(json.dumps({str(ip): mac.hex(":") for ip, mac in unicast.items()}))
    assert load_neighbours(path) == unicast


@pytest.fixture
def station(tmp_path: Path) -> Path:
    path = tmp_path / "station.json"
    path.write_text(json.dumps(asdict(GOOD)))
    return path


def test_missing_files_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback, the file's name, exit code 2."""
    missing = str(tmp_path / "no.json")
    argv = ["forward", "--interface", "lo", "--neighbours", missing, "--station", missing, "--control", "c"]
    assert main(argv) == 2
    assert capsys.readouterr().err == f"error: {missing}: cannot be read: No such file or directory\n"


def test_unusable_arguments(tmp_path: Path, station: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ports that are none, and a proxy that would intercept itself."""
    for ports in ("", "0", "70000", "x", "1,,2", ",".join(map(str, range(1, 80)))):
        with pytest.raises(SystemExit) as caught:
            main(["proxy", "--listen", "1", "--ports", ports, "--station", str(station), "--control", "c"])
        assert caught.value.code == 2
    capsys.readouterr()
    assert main(["proxy", "--listen", "4420", "--station", str(station), "--control", str(tmp_path / "c")]) == 2
    assert "port 4420 cannot be listened on and intercepted at once" in capsys.readouterr().err


def test_ctl_without_a_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 6 and the path."""
    path = tmp_path / "nobody.sock"
    assert main(["ctl", "stats", "--control", str(path)]) == 6
    assert capsys.readouterr().err == f"error: control socket {path}: No such file or directory\n"


def test_rules_name_only_what_was_asked() -> None:
    """The nft rules redirect the given ports on the given interface, in prerouting, in a table of their own."""
    text = ruleset(15001, frozenset({5201, 4420}), "c1-eth0")
    assert 'iifname "c1-eth0" fib daddr type != local tcp dport { 4420, 5201 } redirect to :15001' in text
    assert "hook prerouting" in text
    assert "output" not in text
    assert text.count("icgw_proxy_15001") == 3
    assert "iifname" not in ruleset(15001, frozenset({4420}))


@pytest.mark.parametrize("name", ['x" accept; #', "a b", "", "x" * 16, "x\ny"])
def test_interface_names_cannot_smuggle_rules(name: str) -> None:
    """A name that could not be an interface's never reaches nft."""
    with pytest.raises(GatewayError, match="is not the name of an interface"):
        ruleset(15001, frozenset({4420}), name)
    with pytest.raises(GatewayError), interception(15001, frozenset({4420}), name):
        pytest.fail("rules were installed")
