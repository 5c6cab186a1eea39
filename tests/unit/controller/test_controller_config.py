"""Arguments and files: each mistake is one line that says what and where, with the right exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from controller.cli import main
from controller.config import load_fabric, load_services, parse_address
from controller.files import MOST_BYTES
from controller.services import services_from_json, storage_nodes
from emulator.errors import ScenarioError
from emulator.model.codec import fabric_to_json
from tests.support.controller_fabrics import leaf_spine, services_of

FABRIC = leaf_spine()
GOOD = {"name": "block", "node": "st0", "ip": "10.0.0.11", "port": 4420, "protocol": "tcp"}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:6653", "127.0.0.1", 6653), ("[::1]:80", "::1", 80), ("0.0.0.0:0", "0.0.0.0", 0)],
)
def test_addresses(text: str, host: str, port: int) -> None:
    """IPv4, IPv6 in brackets, and port 0 are taken, and written the same way."""
    address = parse_address(text, "--rest")
    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:8 0", "localhost:80"),
        *("::1:80", "[::1]", "[127.0.0.1]:80", "1.2.3:80", "127.0.0.1:" + "9" * 5000, "127.0.0.1:٣", "a:b:c"),
    ],
)
def test_wrong_addresses(text: str) -> None:
    """Names, missing ports and absurd ones are refused by the option's name."""
    with pytest.raises(ScenarioError, match=r"--rest: .* is not an address with a port"):
        parse_address(text, "--rest")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"node": "st9"}, r"\[0\].node: there is no node 'st9' in the fabric 'leaf-spine'"),
        ({"node": None}, r"\[0\].node: there is no node None"),
        ({"node": ["st0"]}, r"\[0\].node: there is no node"),
        ({"node": "s0"}, r"\[0\].node: 's0' has the role switch"),
        ({"node": "gw0"}, r"\[0\].node: 'gw0' has the role gateway"),
        ({"ip": "10.0.0.12"}, r"\[0\].ip: 10.0.0.12 is not the address of st0 \(10.0.0.11\)"),
        ({"ip": "10.0.0.11/8"}, r"\[0\].ip: '10.0.0.11/8' is not an IPv4 address"),
        ({"ip": 167772171}, r"\[0\].ip: 167772171 is not an IPv4 address"),
        ({"port": 0}, r"\[0\].port: 0 is not a TCP port"),
        ({"port": 65536}, r"\[0\].port"),
        ({"port": True}, r"\[0\].port: True"),
        ({"port": "4420"}, r"\[0\].port: '4420'"),
        ({"port": 4420.0}, r"\[0\].port"),
        ({"protocol": "udp"}, r"\[0\].protocol: 'udp' is not supported"),
        ({"name": ""}, r"\[0\].name"),
        ({"vni": 7}, r"\[0\].vni: unknown key; a service has name, node, ip, port, protocol"),
    ],
)
def test_wrong_services(change: dict[str, Any], words: str) -> None:
    """The place in the list, the key and the reason are named."""
    with pytest.raises(ScenarioError, match=f"^s.json: {words}"):
        services_from_json([{**GOOD, **change}], FABRIC, "s.json")


@pytest.mark.parametrize("key", ["name", "node", "ip", "port"])
def test_missing_keys(key: str) -> None:
    """Only the protocol has a default."""
    incomplete = {name: value for name, value in GOOD.items() if name != key}
    with pytest.raises(ScenarioError, match=rf"\[1\].{key}: missing"):
        services_from_json([GOOD, incomplete], FABRIC)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "a list of services is expected"),
        (None, "a list of services is expected"),
        ([7], r"\[0\]: a service is an object"),
        ([GOOD, {**GOOD, "port": 1}], r"\[1\]: two services have the name 'block'"),
        ([GOOD, {**GOOD, "name": "other"}], r"\[1\]: two services have the address and port '10.0.0.11:4420'"),
    ],
)
def test_wrong_lists(data: object, words: str) -> None:
    """What is not a list of different services is refused."""
    with pytest.raises(ScenarioError, match=words):
        services_from_json(data, FABRIC)


def test_good_services() -> None:
    """The default protocol is TCP; storage nodes are those of the role and those with a service."""
    services = services_from_json([{key: value for key, value in GOOD.items() if key != "protocol"}], FABRIC)
    assert services[0].protocol == "tcp"
    assert storage_nodes(FABRIC, services) == ("st0", "st1")
    assert storage_nodes(FABRIC, ()) == ("st0", "st1")


def good_files(folder: Path) -> tuple[Path, Path]:
    fabric, services = folder / "fabric.json", folder / "services.json"
    fabric.write_text(json.dumps(fabric_to_json(FABRIC)))
    services.write_text(json.dumps([GOOD]))
    return fabric, services


def test_files_come_back(tmp_path: Path) -> None:
    """What was written is what is planned for."""
    fabric, services = good_files(tmp_path)
    assert load_fabric(fabric) == FABRIC
    assert load_services(services, FABRIC)[0].port == 4420


def _fabric_with(path: tuple[str | int, ...], value: object) -> str:
    data: Any = fabric_to_json(FABRIC)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("{", r"fabric.json:1: is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "not a fabric description"),
        ("{}", "not a fabric description"),
        ('{"nodes": 7, "links": [], "name": "x", "parameters": {}}', "not a fabric description"),
        ('{"nodes": [7], "links": [], "name": "x", "parameters": {}}', "not a fabric description"),
        (_fabric_with(("nodes", 0, "role"), "toaster"), "toaster"),
        (_fabric_with(("nodes", 0, "dpid"), None), "switch 's0' has no datapath id"),
        (_fabric_with(("nodes", 0, "dpid"), 1 << 64), "/nodes/0/dpid: "),
        (_fabric_with(("nodes", 0, "dpid"), "1"), "/nodes/0/dpid: "),
        (_fabric_with(("nodes", 6, "mac"), "zz"), "/nodes/6/mac: "),
        (_fabric_with(("nodes", 6, "mac"), 5), "/nodes/6/mac: "),
        (_fabric_with(("nodes", 6, "mac"), "01:00:5e:00:00:01"), "/nodes/6/mac: "),
        (_fabric_with(("nodes", 6, "ip"), "10.0.0.2"), "/nodes/6/ip: "),
        (_fabric_with(("nodes", 6, "ip"), "10.0.0.2/255.0.0.0"), "/nodes/6/ip: "),
        (_fabric_with(("nodes", 6, "ip"), 167772162), "/nodes/6/ip: "),
        (_fabric_with(("nodes", 6, "dpid"), 77), "/nodes/6/dpid: "),
        (_fabric_with(("nodes", 0, "name"), "a\nb"), "/nodes/0/name: "),
        (_fabric_with(("nodes", 0, "a/b~c"), 5), "/nodes/0/a~1b~0c: "),
        (_fabric_with(("links", 2, "a_port"), -1), "/links/2/a_port: "),
        (_fabric_with(("links", 2, "a_port"), True), "/links/2/a_port: "),
        (_fabric_with(("links", 2, "b"), "s0"), "/links/2: joins 's0' to itself"),
        (_fabric_with(("links", 1, "a_port"), 1), "/links/1/a_port: duplicate interface 's0-eth1'"),
        (_fabric_with(("links", 0, "spec", "delay_ns"), 1.5), "/links/0/spec/delay_ns: "),
        (_fabric_with(("links", 0, "spec", "rate_bps"), "fast"), "/links/0/spec/rate_bps: "),
        (_fabric_with(("links", 0, "spec", "queue_bdp"), float("nan")), "/links/0/spec/queue_bdp: "),
        ('{"nodes": [], "links": [], "name": "x", "name": "y", "parameters": {}}', "'name' is twice"),
        ('{"nodes": ' + "9" * 5000 + "}", "is not JSON that one can use"),
        (_fabric_with(("nodes", 6, "mac"), None), "host 'g1' has no address"),
        (_fabric_with(("nodes", 1, "name"), "s0"), "duplicate node name 's0'"),
        (_fabric_with(("links", 0, "b"), "nowhere"), "nowhere"),
        (_fabric_with(("links", 0, "spec", "rate_bps"), 0), "impossible"),
    ],
    ids=range(33),
)
def test_wrong_fabrics(tmp_path: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line ends with code 2 and one line that names the file and the reason."""
    _, services = good_files(tmp_path)
    (tmp_path / "fabric.json").write_text(text)
    arguments = ["--fabric", str(tmp_path / "fabric.json"), "--services", str(services), "--design", "gateway"]
    assert main(arguments) == 2
    _assert_one_line(capsys, "fabric.json", words)


def _assert_one_line(capsys: pytest.CaptureFixture[str], *words: str) -> None:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("controller: ")
    assert captured.err.count("\n") == 1
    for word in words:
        assert word.replace("\\", "") in captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--fabric"),
        (["--design", "best"], "best"),
        (["--desing", "gateway"], "--desing"),
        (["--listen", "somewhere"], "--listen"),
        (["--rest", "127.0.0.1:99999"], "--rest"),
        (["--fabric", "/nowhere/fabric.json"], "/nowhere/fabric.json"),
        (["--fabric", "/"], "cannot be read"),
        (["--services", "/nowhere/services.json"], "/nowhere/services.json"),
        (["--services", "/bin/true"], "is not UTF-8"),
        (["--fabric", "/dev/zero"], "/dev/zero: cannot be read: it is not a regular file"),
        (["--services", "/dev/zero"], "/dev/zero: cannot be read: it is not a regular file"),
        (["--tokens", "/dev/zero"], "/dev/zero: cannot be read: it is not a regular file"),
        (["--log", "/nowhere/log"], "/nowhere/log"),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every wrong argument is code 2 and one line; nothing is started."""
    fabric, services = good_files(tmp_path)
    good = ["--fabric", str(fabric), "--services", str(services), "--design", "gateway"]
    assert main([*good, *arguments] if arguments else []) == 2
    _assert_one_line(capsys, words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gateway", "gw0"], "'gw0' is not a host and the path of a socket, like gw0=/run/gw0"),
        (["--gateway", "=/run/gw0"], "'=/run/gw0' is not a host and the path"),
        (["--gateway", "gw0="], "'gw0=' is not a host and the path"),
        (["--gateway", f"gw0=/{'x' * 107}"], "gw0: the socket's path is longer than 107 bytes"),
        (["--gateway", "gw0=/a", "--gateway", "gw0=/b"], "gw0 is there twice"),
        (["--gateway", "gw0=/a", "--gateway", "gw1=/a"], "/a is there twice"),
        (["--gateway", "st0=/a"], "'st0' is no gateway of the fabric; there are: gw0, gw1"),
        (["--gateway", "nobody=/a"], "'nobody' is no gateway of the fabric"),
        (["--gateway", "gw0=/a", "--design", "shortest-path"], "nothing passes a gateway with --design shortest-path"),
    ],
)
def test_wrong_gateways(tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Gateways that cannot be told anything are said to be so before anything is started."""
    fabric, _ = good_files(tmp_path)
    good = ["--fabric", str(fabric), "--design", "gateway", "--store", ":memory:"]
    assert main([*good, *arguments]) == 2
    _assert_one_line(capsys, "--gateway", words)


def test_gateways_need_tenants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a store there is nothing that a gateway could be told."""
    fabric, services = good_files(tmp_path)
    assert (
        main(["--fabric", str(fabric), "--services", str(services), "--design", "gateway", "--gateway", "gw0=/a"]) == 2
    )
    _assert_one_line(capsys, "--gateway", "gateways are told what tenants may do: needs --store")


@pytest.mark.parametrize("option", ["--fabric", "--services", "--tokens"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody writes into it, so that opening it the usual way would never end."""
    fabric, services = good_files(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    good = ["--fabric", str(fabric), "--services", str(services), "--design", "gateway"]
    assert main([*good, option, str(pipe)]) == 2
    _assert_one_line(capsys, f"{pipe}: cannot be read: it is not a regular file")


def test_a_file_without_an_end_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What no fabric needs is refused by its size."""
    fabric = tmp_path / "fabric.json"
    fabric.touch()
    os.truncate(fabric, MOST_BYTES + 1)
    assert main(["--fabric", str(fabric), "--design", "gateway"]) == 2
    _assert_one_line(capsys, f"{fabric}: has more than {MOST_BYTES} bytes")


def test_a_design_that_the_fabric_cannot_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A design without its nodes is code 5: the input is well-formed, the plan impossible."""
    fabric = tmp_path / "fabric.json"
    fabric.write_text(json.dumps(fabric_to_json(leaf_spine(gateways=0))))
    assert main(["--fabric", str(fabric), "--design", "gateway"]) == 5
    _assert_one_line(capsys, "the design 'gateway' needs a node of role 'gateway'")


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("", "--store: is empty"),
        (" ", "--store: is empty"),
        ("/nowhere/store.db", "/nowhere/store.db: cannot be opened for writing"),
        ("/bin/true", "/bin/true"),
        ("fabric.json", "fabric.json: is not a database of this program"),
    ],
)
def test_stores_that_cannot_be(tmp_path: Path, store: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that is none is code 2 and one line with the option's name, and leaves nothing beside it."""
    fabric, _ = good_files(tmp_path)
    before = sorted(tmp_path.iterdir())
    path = str(tmp_path / store) if store == "fabric.json" else store
    assert main(["--fabric", str(fabric), "--design", "gateway", "--store", path]) == 2
    _assert_one_line(capsys, "--store", words)
    assert sorted(tmp_path.iterdir()) == before


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """--help is success and says what the codes mean."""
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "exit codes" in capsys.readouterr().out


def test_services_of_tests_are_valid() -> None:
    """The services that other tests use would pass the checks."""
    services = services_of(FABRIC, 4420, 2049)
    data = [{key: getattr(service, key) for key in GOOD} for service in services]
    assert services_from_json(data, FABRIC) == services
