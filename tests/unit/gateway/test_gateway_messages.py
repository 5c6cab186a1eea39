"""Version 2 of the control protocol: what is understood, what is refused and where, and that nothing breaks it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address, ip_network
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.errors import GatewayError
from emulator.messages.gateway import (
    MAX_FLOWS,
    ErrorCode,
    Flow,
    FlowKey,
    Policies,
    Refused,
    parse_policies,
    parse_request,
)
from gateway.client import ControlClient, RefusedByDaemon, request
from gateway.control import MAX_CLIENTS, MAX_LINE_BYTES, ControlServer
from gateway.control_requests import handle, operations
from gateway.dataplane.pipeline import Configuration, Pipeline
from gateway.dataplane.route import Route
from gateway.loop import Loop
from gateway.steering import Steering, configuration_of, key_of, policies_of
from gateway.upgrade import Predecessor
from tests.support.dataplane_frames import Batch, ethernet, ipv4
from tests.support.gateway_control import Running
from tests.unit.gateway.test_gateway_control import json_values

MAC = "02:00:00:00:00:01"
POLICIES: dict[str, Any] = {
    "tenants": [{"number": 3, "vlans": [100], "ports": [0], "vnis": [7], "addresses": ["10.0.0.0/8", "fd00::/16"]}],
    "rules": [{"allow": True, "tenant": 3, "protocol": 17, "target": "10.0.0.0/8", "target_ports": [1, 2000]}],
    "endpoints": [
        {"protocol": 17, "address": "10.0.0.2", "port": 2000, "backend": "10.9.9.9", "backend_port": 77, "tenant": 3}
    ],
    "next_hops": [
        {"port": 1, "target_mac": "02:00:00:00:00:bb", "source_mac": MAC},
        {
            "port": 2,
            "target_mac": "02:00:00:00:00:bc",
            "source_mac": MAC,
            "vlan": 5,
            "tunnel": {
                "vni": 9,
                "local": "192.0.2.1",
                "remote": "192.0.2.2",
                "target_mac": "02:00:00:00:00:bd",
                "source_mac": MAC,
            },
        },
    ],
    "routes": [{"tenant": 3, "network": "0.0.0.0/0", "next_hop": 1}],
    "tunnel_ends": ["192.0.2.1"],
}
KEY = {
    "tenant": 3,
    "protocol": 17,
    "source": "10.0.0.1",
    "target": "10.0.0.2",
    "source_port": 9,
    "target_port": 2000,
}


class SteeredDaemon:
    """A daemon with a pipeline, and nothing but the control socket around it."""

    mode = "test"

    def __init__(self) -> None:
        self.pipeline = Pipeline(Configuration(macs={0: bytes.fromhex(MAC.replace(":", ""))}, flow_capacity=2000))
        steering = Steering(self.pipeline)
        self.policies, self.set_policies = steering.policies, steering.set_policies
        self.list_flows, self.install_flows = steering.list_flows, steering.install_flows
        self.delete_flows = steering.delete_flows
        self.told: list[str] = []

    def stats(self) -> dict[str, Any]:
        return self.pipeline.as_json()

    def drain(self) -> None:
        self.told.append("drain")

    def stop(self) -> None:
        self.told.append("stop")

    def send(self) -> tuple[int, bytes]:
        """Let the flow of `KEY` have a frame, and return its fate and what became of it."""
        packet = ipv4(_udp(), src="10.0.0.1", dst="10.0.0.2")
        batch = Batch.of([ethernet(packet)], 80)
        room = np.full(1, 80, np.int64)
        verdicts = self.pipeline.process(batch.memory, batch.offsets, batch.lengths, room, 0, 5)
        return int(verdicts.reason[0]), Batch(batch.memory, verdicts.offsets, verdicts.lengths).frame(0)


def _udp() -> Any:
    from scapy.layers.inet import UDP

    return UDP(sport=9, dport=2000)


def ask(daemon: Any, **message: Any) -> dict[str, Any]:
    """The answer to one request of version 2."""
    reply, spoken = handle(json.dumps({"v": 2, "id": 1, **message}).encode(), daemon, 1)
    assert spoken == 2
    answer: dict[str, Any] = json.loads(reply.data)
    assert answer["id"] == 1
    return answer


@pytest.mark.parametrize(
    ("message", "code", "says"),
    [
        ({"op": "fly"}, "unknown_operation", "'fly'"),
        ({}, "unknown_operation", "discriminator"),
        ({"op": ["stats"]}, "unknown_operation", "['stats']"),
        ({"op": "stats", "why": 1}, "invalid", "why: Extra inputs are not permitted"),
        ({"op": "hello"}, "invalid", "versions: Field required"),
        ({"op": "hello", "versions": [3, 4]}, "version", "speaks versions 1 and 2, not 3, 4"),
        ({"op": "flows.list", "limit": MAX_FLOWS + 1}, "invalid", "limit: Input should be less than or equal to 1000"),
        ({"op": "flows.list", "limit": 1.5}, "invalid", "limit"),
        ({"op": "flows.list", "limit": "1"}, "invalid", "limit: Input should be a valid integer"),
        ({"op": "flows.delete"}, "invalid", "keys: Field required"),
        ({"op": "flows.install", "flows": []}, "invalid", "flows: Tuple should have at least 1 item"),
        ({"op": "flows.install", "flows": [{"key": KEY, "allow": True}]}, "invalid", "needs a next hop"),
        (
            {"op": "flows.install", "flows": [{"key": KEY, "allow": False, "next_hop": 1}]},
            "invalid",
            "needs a next hop",
        ),
        (
            {"op": "flows.install", "flows": [{"key": {**KEY, "source": "::1"}, "allow": False}]},
            "invalid",
            "flows.0.key: Value error, ::1 and 10.0.0.2 are of different families",
        ),
        (
            {"op": "flows.install", "flows": [{"key": KEY, "allow": True, "next_hop": 1, "source": "::1"}]},
            "invalid",
            "::1 is of another family",
        ),
        (
            {
                "op": "flows.install",
                "flows": [{"key": {**KEY, "protocol": 1}, "allow": True, "next_hop": 1, "source": "10.0.0.9"}],
            },
            "invalid",
            "only TCP (6) and UDP (17) can be translated",
        ),
        (
            {"op": "flows.install", "flows": [{"key": KEY, "allow": True, "next_hop": 9}]},
            "invalid",
            "0 next hops, not 9",
        ),
        ({"op": "policies.set", "policies": {"rules": [{"allow": 1}]}}, "invalid", "policies.rules.0.allow"),
        ({"op": "policies.set", "policies": {"tenants": [{"number": 1, "vlans": [4095]}]}}, "invalid", "vlans.0"),
        (
            {"op": "policies.set", "policies": {"tenants": [{"number": n, "vlans": [9]} for n in (1, 2)]}},
            "invalid",
            "VLAN 9 belongs to tenants 1 and 2",
        ),
        (
            {"op": "policies.set", "policies": {"routes": [{"tenant": 1, "network": "10.0.0.0/8", "next_hop": 1}]}},
            "invalid",
            "10.0.0.0/8 leads to next hop 1 of 0",
        ),
        ({"op": "policies.set", "policies": {}, "if_revision": 7}, "conflict", "the policies have revision 0, not 7"),
        ({"op": "profile.get"}, "unsupported", "a test daemon does not do profile.get"),
        ({"op": "reload"}, "unsupported", "reload"),
        ({"op": "upgrade"}, "unsupported", "upgrade"),
    ],
)
def test_each_mistake_is_said_in_one_line(message: dict[str, Any], code: str, says: str) -> None:
    """Code, place and words; nothing is changed."""
    daemon = SteeredDaemon()
    answer = ask(daemon, **message)
    assert (answer["ok"], answer["error"]["code"]) == (False, code)
    assert says in answer["error"]["message"]
    assert "\n" not in answer["error"]["message"]
    assert daemon.policies()["revision"] == 0
    assert daemon.told == []


def test_hello_settles_the_version() -> None:
    """The highest common version, and what the daemon can do."""
    daemon = SteeredDaemon()
    result = ask(daemon, op="hello", versions=[1, 2, 9], client="me")["result"]
    assert result == {"version": 2, "versions": [1, 2], "mode": "test", "operations": operations(daemon)}
    assert result["operations"][:4] == ["hello", "stats", "drain", "stop"]
    assert "flows.install" in result["operations"]
    assert "profile.get" not in result["operations"]
    assert ask(daemon, op="hello", versions=[1])["result"]["version"] == 1


def test_policies_are_taken_and_given_back() -> None:
    """What was set is in force at once and comes back the same; the revision guards against a lost update."""
    daemon = SteeredDaemon()
    assert daemon.send()[0] != 0
    assert ask(daemon, op="policies.set", policies=POLICIES, if_revision=0)["result"] == {"revision": 1}
    answer = ask(daemon, op="policies.get")["result"]
    assert answer["revision"] == 1
    assert parse_policies(answer["policies"]) == parse_policies(POLICIES)
    fate, frame = daemon.send()
    assert fate == 0
    assert frame[30:34] == IPv4Address("10.9.9.9").packed
    assert ask(daemon, op="policies.set", policies={}, if_revision=0)["error"]["code"] == "conflict"
    assert daemon.send()[0] == 0
    assert ask(daemon, op="policies.set", policies={})["result"] == {"revision": 2}
    assert daemon.send()[0] != 0


def test_flows_are_listed_installed_and_deleted() -> None:
    """What a frame began is listed; a flow decided from outside overrules the policies; pages cover all flows once."""
    daemon = SteeredDaemon()
    ask(daemon, op="policies.set", policies=POLICIES)
    daemon.send()
    [flow] = ask(daemon, op="flows.list")["result"]["flows"]
    assert flow["key"] == KEY
    assert (flow["after"]["target"], flow["after"]["target_port"], flow["frames"]) == ("10.9.9.9", 77, 1)
    assert ask(daemon, op="flows.install", flows=[{"key": KEY, "allow": False}])["result"] == {"flows": 1}
    assert daemon.send()[0] != 0
    changed = {"key": KEY, "allow": True, "next_hop": 2, "source": "10.0.0.200", "target_port": 99}
    ask(daemon, op="flows.install", flows=[changed])
    fate, frame = daemon.send()
    assert fate == 0
    inner = frame[50:]
    assert inner[:12] == bytes.fromhex("0200000000bc020000000001")
    assert inner[12:16] == b"\x81\x00\x00\x05"
    keys = [{**KEY, "source_port": port} for port in range(1000, 1500)]
    six = {"tenant": 3, "protocol": 6, "source": "fd00::1", "target": "fd00::2", "source_port": 1, "target_port": 2}
    ask(daemon, op="flows.install", flows=[{"key": key, "allow": False} for key in (*keys, six)])
    seen, after = [], -1
    while after is not None:
        page = ask(daemon, op="flows.list", after=after, limit=120)["result"]
        seen += [flow["key"] for flow in page["flows"]]
        after = page["next"]
    assert len(seen) == 502
    assert all(key in seen for key in (KEY, six, *keys))
    assert ask(daemon, op="flows.list", tenant=4)["result"] == {"flows": [], "next": None}
    assert ask(daemon, op="flows.delete", keys=[KEY, six, {**KEY, "source_port": 1}])["result"] == {"deleted": 2}
    assert daemon.send()[0] == 0
    assert ask(daemon, op="flows.delete", keys=None)["result"] == {"deleted": 501}
    assert ask(daemon, op="flows.list")["result"]["flows"] == []


def test_a_flow_from_outside_has_right_checksums() -> None:
    """The frame that leaves is what the policies' own translation to the same addresses makes of it."""
    frames = []
    for outside in (True, False):
        daemon = SteeredDaemon()
        ask(daemon, op="policies.set", policies=POLICIES)
        if outside:
            flow = {"key": KEY, "allow": True, "next_hop": 1, "target": "10.9.9.9", "target_port": 77}
            ask(daemon, op="flows.install", flows=[flow])
        frames.append(daemon.send())
    assert frames[0] == frames[1]


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_line_is_a_request_or_refused(line: bytes) -> None:
    """No bytes lead to anything but a request or a refusal of one short line."""
    said = ""
    try:
        parse_request(line)
    except Refused as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 330


names = st.sampled_from(
    ["v", "id", "op", "policies", "flows", "keys", "limit", "after", "rules", "tenants", "key", "versions", "profile"]
)
ops = st.sampled_from(
    [
        "hello",
        "stats",
        "policies.set",
        "policies.get",
        "flows.list",
        "flows.install",
        "flows.delete",
        "profile.set",
        "x",
    ]
)
nested = st.recursive(
    st.one_of(json_values, ops, st.just("10.0.0.1"), st.just(2), st.just(True)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)


@given(ops, st.dictionaries(names, nested, max_size=5))
@settings(max_examples=200)
def test_any_object_is_answered(op: str, message: dict[str, Any]) -> None:
    """Objects with the right names and wrong values get one answer, and leave the daemon able to answer the next."""
    daemon = SteeredDaemon()
    reply, _ = handle(json.dumps({"v": 2, "id": 1, "op": op, **message}).encode(), daemon, 1)
    assert reply.data.count(b"\n") == 1
    assert json.loads(reply.data)["ok"] in (True, False)
    assert ask(daemon, op="policies.get")["ok"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path / "control.sock", SteeredDaemon())
    yield made
    made.close()


def test_the_client_speaks_with_the_server(running: Running) -> None:
    """Hello, questions, refusals with their codes; version 1 next to it; drain answered when all is out."""
    with ControlClient(running.path, "test") as client:
        assert client.hello["mode"] == "test"
        assert client.call("policies.get")["revision"] == 0
        with pytest.raises(RefusedByDaemon, match="does not do reload") as caught:
            client.call("reload")
        assert caught.value.code == ErrorCode.UNSUPPORTED
        assert request(running.path, "stats")["flows"] == 0
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(str(running.path))
            other.sendall(b'{"v":2,"id":5,"op":"drain"}\n{"v":2,"id":6,"op":"stats"}\n')
            answers = other.makefile("rb")
            assert json.loads(answers.readline())["id"] == 6
            running.finished()
            assert json.loads(answers.readline())["id"] == 5
            answers.close()
    with pytest.raises(GatewayError, match="No such file"):
        ControlClient(running.path.with_name("nobody"))


def test_refusals_are_of_the_version_that_the_client_speaks(running: Running) -> None:
    """What is no JSON gets an answer that the client can read: text in version 1, an object in version 2."""
    with socket.socket(socket.AF_UNIX) as sock, contextlib.closing(sock.makefile("rb")) as answers:
        sock.connect(str(running.path))
        sock.sendall(b'nonsense\n{"v":2,"id":0,"op":"stats"}\nnonsense\n{"v":7}\n')
        assert isinstance(json.loads(answers.readline())["error"], str)
        assert json.loads(answers.readline())["ok"] is True
        assert json.loads(answers.readline())["error"]["code"] == "malformed"
        assert json.loads(answers.readline())["error"]["message"] == "'v' is 7: this daemon speaks versions 1 and 2"


def test_a_large_document_comes_in_pieces(running: Running) -> None:
    """Thousands of rules in hundreds of kilobytes, sent slowly by one client while others are served."""
    rules = [{"allow": True, "target": f"10.{n >> 8}.{n & 255}.0/24", "target_ports": [n, n]} for n in range(6000)]
    line = json.dumps({"v": 2, "id": 1, "op": "policies.set", "policies": {"rules": rules}}).encode() + b"\n"
    assert 1 << 18 < len(line) < MAX_LINE_BYTES
    with socket.socket(socket.AF_UNIX) as slow, contextlib.closing(slow.makefile("rb")) as answers:
        slow.connect(str(running.path))
        for at in range(0, len(line), 50_000):
            slow.sendall(line[at : at + 50_000])
            assert request(running.path, "stats")["flows"] == 0
        assert json.loads(answers.readline()) == {"v": 2, "id": 1, "ok": True, "result": {"revision": 1}}


def test_many_clients_at_once_lose_no_answer(running: Running) -> None:
    """Each of the most clients that there may be sends many requests at once; each gets its answers, in order."""
    socks = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CLIENTS)]
    count = 100
    for number, sock in enumerate(socks):
        sock.settimeout(60)
        sock.connect(str(running.path))
        line = b"".join(b'{"v":2,"id":%d,"op":"policies.get"}\n' % (number * count + n) for n in range(count))
        sock.sendall(line)
    for number, sock in enumerate(socks):
        with contextlib.closing(sock.makefile("rb")) as answers:
            ids = [json.loads(answers.readline())["id"] for _ in range(count)]
        assert ids == list(range(number * count, (number + 1) * count))
        sock.close()


def test_pages_that_nobody_reads_do_not_pile_up(tmp_path: Path) -> None:
    """A client that asks for large pages and reads nothing is stopped after a few, not served from endless memory."""
    daemon = SteeredDaemon()
    ask(daemon, op="flows.install", flows=[{"key": {**KEY, "source_port": n}, "allow": False} for n in range(1000)])
    loop = Loop()
    server = ControlServer(tmp_path / "control.sock", loop, daemon)
    with socket.socket(socket.AF_UNIX) as greedy:
        greedy.connect(str(tmp_path / "control.sock"))
        greedy.sendall(b'{"v":2,"id":1,"op":"flows.list","limit":1000}\n' * 500)
        for _ in range(5):
            loop.dispatch(loop.wait_idle(0.0))
        [client] = server._clients.values()
        assert 0 < len(client.outbox) < 3 << 20
    loop.dispatch(loop.wait_idle())
    server.close()
    loop.close()


def test_defaults_are_nothing_allowed() -> None:
    """Empty policies are valid and let nothing pass."""
    assert parse_policies({}) == Policies()
    assert parse_policies(POLICIES).rules[0].target == ip_network("10.0.0.0/8")
    with pytest.raises(Refused, match="rule: Extra inputs"):
        parse_policies({"rules": [], "rule": 1})


class Heir(SteeredDaemon):
    """A daemon that hands a descriptor over, unless it must not."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.descriptor = descriptor
        self.may = True

    def hand_over(self) -> tuple[dict[str, Any], list[int]]:
        if not self.may:
            raise GatewayError("not now")
        return {"kind": "test", "text": "x" * 300_000}, [self.descriptor]


def test_handing_over(tmp_path: Path) -> None:
    """Everything and the listening socket go to the successor that says so, and to no other; the file stays there."""
    path = tmp_path / "control.sock"
    secret = tmp_path / "secret"
    secret.write_text("handed over")
    with secret.open() as file:
        daemon = Heir(file.fileno())
        running = Running(path, daemon)
        with Predecessor(path, "test") as before:
            assert len(before.state["text"]) == 300_000
            # It gives up: hangs up without a word.
            for descriptor in before.descriptors:
                os.close(descriptor)
        assert request(path, "stats")["flows"] == 0
        daemon.may = False
        with pytest.raises(GatewayError, match="not now"):
            Predecessor(path, "test")
        daemon.may = True
        with pytest.raises(GatewayError, match="a test daemon listens there, not other"):
            Predecessor(path, "other")
        with Predecessor(path, "test") as before:
            before.taken()
            [descriptor] = before.descriptors
            with os.fdopen(descriptor) as same:
                assert same.read() == "handed over"
            listener = before.listener.dup()
        running.close()
        assert path.exists()
        successor = Running(path, SteeredDaemon(), listener)
        assert request(path, "stats")["flows"] == 0
        successor.close()
        assert not path.exists()


def test_nobody_hands_over_to_a_stranger(running: Running) -> None:
    """A daemon that cannot hand over says so in one line, and goes on."""
    with pytest.raises(GatewayError, match="a test daemon does not do upgrade"):
        Predecessor(running.path, "test")
    with pytest.raises(GatewayError, match="No such file"):
        Predecessor(running.path.with_name("nobody"), "test")
    assert request(running.path, "stats")["flows"] == 0


def test_a_configuration_is_said_and_understood_again() -> None:
    """What a daemon's file says can be asked for, changed a little and set: nothing is lost on the way."""
    base = Configuration(macs={0: b"\2" * 6}, flow_capacity=10)
    told = configuration_of(parse_policies(POLICIES), base)
    said = policies_of(told)
    assert configuration_of(parse_policies(json.loads(said.model_dump_json())), base) == told
    assert said == parse_policies(POLICIES)


def test_a_daemon_fits_what_it_is_told_and_hears_what_changed() -> None:
    """The file's configuration is revision 0; each change from outside is told to whoever keeps copies of decisions."""
    pipeline = Pipeline(Configuration(macs={0: b"\2" * 6}, flow_capacity=10))
    heard: list[Any] = []
    steering = Steering(
        pipeline,
        configuration_of(parse_policies(POLICIES), pipeline.configuration),
        lambda told: replace(told, max_bytes=1000),
        heard.append,
    )
    assert parse_policies(steering.policies()["policies"]) == parse_policies(POLICIES)
    assert steering.set_policies(parse_policies({}), 0) == 1
    assert pipeline.configuration.max_bytes == 1000
    key = FlowKey.model_validate(KEY, strict=False)
    steering.install_flows([Flow(key=key, allow=False)])
    steering.delete_flows([key])
    steering.delete_flows(None)
    assert heard == [None, [key_of(key)], [key_of(key)], None]
    with pytest.raises(ValueError, match="leads to next hop 1 of 0"):
        steering.tell(Configuration(macs={}, routes=[Route(1, ip_network("10.0.0.0/8"), 1)]))
    assert steering.policies()["revision"] == 1
    steering.tell(Configuration(macs={0: b"\2" * 6}))
    assert (steering.policies()["revision"], len(heard)) == (2, 5)
    assert steering.policies(known=2) == {"revision": 2, "policies": None}
    assert steering.policies(known=1)["policies"] is not None
    assert steering.export()["policies"] is None, "what a file says goes to no successor, which has a file of its own"
    successor = Steering(pipeline)
    successor.adopt(steering.export())
    assert successor.policies()["revision"] == 2


def test_a_decision_from_outside_outlasts_silence() -> None:
    """Flows that the gateway decided about are forgotten when idle; what it was told about a flow is not."""
    daemon = SteeredDaemon()
    ask(daemon, op="policies.set", policies=POLICIES)
    other = {**KEY, "source_port": 10}
    ask(daemon, op="flows.install", flows=[{"key": other, "allow": False}])
    daemon.send()
    assert ask(daemon, op="stats")["result"]["stats"]["flows"] == 2
    assert daemon.pipeline.flows.expire(10**18) == daemon.pipeline.flows.expired == 1
    [left] = ask(daemon, op="flows.list")["result"]["flows"]
    assert (left["key"], left["reason"]) == (other, "denied")
    assert ask(daemon, op="flows.delete", keys=[other])["result"] == {"deleted": 1}
