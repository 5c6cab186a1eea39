"""Changing switches in Ryu's way: what goes on to Ryu's library, and what is refused that Ryu would drop silently."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.rest.api import Api
from tests.support.controller_backend import MAC, FakeBackend


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


def send(backend: FakeBackend, target: str, body: Any, method: str = "POST") -> tuple[int, dict[str, Any]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    # Ryu's scripts use curl -d, which calls everything a form.
    response = Api(backend).answer(method, target, {"content-type": "application/x-www-form-urlencoded"}, data)
    return response.status, json.loads(response.body) if response.body else {}


FLOW = {"priority": 7, "match": {"in_port": 1, "dl_type": "0x800"}, "actions": [{"type": "OUTPUT", "port": 2}]}


@pytest.mark.parametrize("command", ["add", "modify", "modify_strict", "delete", "delete_strict"])
@pytest.mark.parametrize("dpid", [1, "1", "0x1"])
def test_flow_entries(backend: FakeBackend, command: str, dpid: object) -> None:
    """The body goes on as it is, without the datapath id."""
    assert send(backend, f"/stats/flowentry/{command}", {"dpid": dpid, **FLOW}) == (200, {})
    assert backend.changes == [(1, "mod_flow_entry", FLOW, command)]


def test_the_other_changes(backend: FakeBackend) -> None:
    """Groups, meters, ports, roles, experimenter messages, and clearing."""
    group = {"type": "SELECT", "group_id": 5, "buckets": [{"weight": 1, "actions": [{"type": "OUTPUT", "port": 1}]}]}
    meter = {"flags": ["KBPS"], "meter_id": 3, "bands": [{"type": "DROP", "rate": 1000}]}
    assert send(backend, "/stats/groupentry/add", {"dpid": 2, **group})[0] == 200
    assert send(backend, "/stats/meterentry/modify", {"dpid": 2, **meter})[0] == 200
    assert send(backend, "/stats/meterentry/delete", {"dpid": 2, "meter_id": "ALL", "flags": "KBPS"})[0] == 200
    assert send(backend, "/stats/portdesc/modify", {"dpid": 1, "port_no": 1, "config": 1, "mask": 1})[0] == 200
    assert send(backend, "/stats/portdesc/modify", {"dpid": 1, "port_no": "OFPP_LOCAL", "mask": 1})[0] == 200
    assert send(backend, "/stats/role", {"dpid": 1, "role": "MASTER"})[0] == 200
    body = {"dpid": 1, "experimenter": "0x2320", "exp_type": 5, "data_type": "base64", "data": "AAAA"}
    assert send(backend, "/stats/experimenter/1", body)[0] == 200
    assert send(backend, "/stats/flowentry/clear/0x3", b"", "DELETE")[0] == 200
    defaults = {"hw_addr": MAC, "advertise": 0}
    assert backend.changes == [
        (2, "mod_group_entry", group, "add"),
        (2, "mod_meter_entry", meter, "modify"),
        (2, "mod_meter_entry", {"meter_id": "ALL", "flags": "KBPS"}, "delete"),
        (1, "mod_port_behavior", {**defaults, "port_no": 1, "config": 1, "mask": 1}, None),
        (1, "mod_port_behavior", {**defaults, "port_no": "OFPP_LOCAL", "mask": 1}, None),
        (1, "set_role", {"role": "MASTER"}, None),
        (1, "send_experimenter", {"experimenter": 0x2320, "exp_type": 5, "data_type": "base64", "data": "AAAA"}, None),
        (3, "mod_flow_entry", {"table_id": "ALL"}, "delete"),
    ]


def test_bodies_in_pythons_notation(backend: FakeBackend) -> None:
    """Ryu reads bodies as Python: single quotes, hexadecimal numbers, trailing commas, None."""
    body = b"{'dpid': 0x1, 'priority': 7, 'match': {'in_port': 1,}, 'cookie': None, 'actions': [],}"
    assert send(backend, "/stats/flowentry/add", body)[0] == 200
    assert backend.changes == [(1, "mod_flow_entry", {"priority": 7, "match": {"in_port": 1}, "actions": []}, "add")]


@pytest.mark.parametrize(
    ("target", "body", "status", "words"),
    [
        ("flowentry/add", {}, 422, "/dpid: is missing"),
        ("flowentry/add", {"dpid": 99}, 404, "0x63"),
        ("flowentry/add", {"dpid": "s0"}, 422, "/dpid: is a number"),
        ("flowentry/add", {"dpid": True}, 422, "/dpid: is a number"),
        ("flowentry/add", {"dpid": 1 << 64}, 422, "/dpid: is a number"),
        ("flowentry/add", {"dpid": 1, "priorty": 5}, 422, "/priorty: is not a member"),
        ("flowentry/add", {"dpid": 1, "match": {"ip_dst": 1}}, 422, "'ip_dst' is not a match field"),
        ("flowentry/add", {"dpid": 1, "match": {"in_port": [1]}}, 422, "/match/in_port: is a number"),
        ("flowentry/add", {"dpid": 1, "match": 5}, 422, "/match: is an object"),
        ("flowentry/add", {"dpid": 1, "actions": [{"type": "FLOOD"}]}, 422, "/actions/0: has the type 'FLOOD'"),
        ("flowentry/add", {"dpid": 1, "actions": [{}]}, 422, "has the type None"),
        ("flowentry/add", {"dpid": 1, "actions": [{"type": ["OUTPUT"]}]}, 422, "/actions/0"),
        (
            "flowentry/add",
            {"dpid": 1, "actions": [{"type": "WRITE_ACTIONS", "actions": [{"type": "METER"}]}]},
            422,
            "/actions/0/actions/0: has the type 'METER'",
        ),
        ("flowentry/add", [], 400, "not an object"),
        ("flowentry/add", b"", 400, "the body is empty"),
        ("flowentry/add", b"{'dpid': __import__('os')}", 400, "is not JSON"),
        ("flowentry/add", b"{1: 2}", 400, "is not JSON"),
        ("flowentry/add", b"{'dpid': 1.5}", 400, "is not JSON"),
        ("flowentry/add", b"-" * 60_000 + b"1", 400, "is not JSON"),
        ("flowentry/add", b"{'a': " + b"(" * 70 + b")" * 70 + b"}", 400, "nested too deeply"),
        ("flowentry/replace", {"dpid": 1}, 404, "no resource"),
        ("groupentry/add", {"dpid": 1, "type": "ANY"}, 422, "/type: is ALL, SELECT, INDIRECT or FF"),
        ("groupentry/add", {"dpid": 1, "buckets": [{"actions": [{"type": "METER"}]}]}, 422, "/buckets/0/actions/0"),
        ("meterentry/add", {"dpid": 1, "flags": ["FAST"]}, 422, "/flags"),
        ("meterentry/add", {"dpid": 1, "bands": [{"type": "SHAPE"}]}, 422, "/bands/0/type"),
        ("portdesc/modify", {"dpid": 1, "port_no": 77}, 404, "no port 77"),
        ("portdesc/modify", {"dpid": 1}, 422, "/port_no: is missing"),
        ("role", {"dpid": 1, "role": "KING"}, 422, "/role"),
        ("experimenter/1", {"data_type": "hex"}, 422, "/data_type"),
        ("flow/1", {"match": {"ip_dst": 1}}, 422, "'ip_dst'"),
        ("flow/1", {"out_port": {}}, 422, "/out_port"),
    ],
)
def test_wrong_changes(backend: FakeBackend, target: str, body: Any, status: int, words: str) -> None:
    """Nothing is sent, and the problem says what would have been dropped."""
    got, problem = send(backend, f"/stats/{target}", body)
    assert got == status, problem
    assert words in problem["detail"]
    assert backend.changes == []


def test_switches_that_refuse(backend: FakeBackend) -> None:
    """The switch's own words, instead of Ryu's silence."""
    backend.declines = {"mod_flow_entry"}
    status, problem = send(backend, "/stats/flowentry/add", {"dpid": 1, **FLOW})
    assert (status, problem["detail"]) == (409, "switch 0x1 refuses: bad action (bad port)")
    backend.silent = {1}
    assert send(backend, "/stats/flowentry/add", {"dpid": 1, **FLOW})[0] == 504


def test_what_openflow_1_3_has_not(backend: FakeBackend) -> None:
    """501, as Ryu answers."""
    for target in ("/stats/queuedesc/1", "/stats/queuedesc/1/ALL/1", "/stats/meterdesc/1/2"):
        assert Api(backend).answer("GET", target).status == 501


_KEYS = st.sampled_from(["dpid", "match", "actions", "type", "priority", "buckets", "in_port", "flags", "x"])
_VALUES = st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.text(max_size=6) | st.floats()
_BODY = st.recursive(_VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4))
_SHARED = FakeBackend()


@settings(max_examples=150)
@given(
    st.sampled_from(["flowentry/add", "groupentry/modify", "meterentry/delete", "portdesc/modify", "role", "flow/1"]),
    _BODY | st.dictionaries(_KEYS, _BODY, max_size=5).map(lambda body: {**body, "dpid": 1}),
    st.booleans(),
)
def test_no_body_breaks_the_interface(target: str, body: Any, python: bool) -> None:
    """In either notation, the answer is done or a problem."""
    status, _ = send(_SHARED, f"/stats/{target}", repr(body).encode("utf-8", "replace") if python else body)
    assert status in (200, 400, 404, 422)
