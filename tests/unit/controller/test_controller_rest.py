"""REST requests without a server: answers, and a problem body for whatever is wrong with a request."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.rest.api import Api
from controller.rest.backend import NotConnected
from controller.rest.http import MAX_TARGET_BYTES, Response
from tests.support.controller_backend import FABRIC, PLAN, FakeBackend


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


def get(backend: FakeBackend, target: str) -> Any:
    response = Api(backend).answer("GET", target)
    assert response.status == 200, response.body
    assert response.content_type == "application/json"
    return json.loads(response.body)


def check_problem(response: Response, status: int, *words: str) -> dict[str, Any]:
    """RFC 9457: the media type, the members, and a status that agrees."""
    assert response.status == status, response.body
    assert response.content_type == "application/problem+json"
    problem: dict[str, Any] = json.loads(response.body)
    assert problem["status"] == status
    assert problem["type"] == "about:blank"
    assert problem["title"]
    assert "Traceback" not in problem["detail"]
    for word in words:
        assert word in problem["detail"]
    return problem


@pytest.mark.parametrize(
    ("target", "status", "parameter", "words"),
    [
        ("/", 404, None, "no resource '/'"),
        ("/v1", 404, None, "no resource"),
        ("/v1/paths/g0", 404, None, "no resource"),
        ("/v2/topology", 404, None, "no resource"),
        ("/v1/topology?dpid=1", 400, "dpid", "unknown parameter 'dpid'; this resource takes: none"),
        ("/v1/paths", 400, "src", "the parameter src is missing"),
        ("/v1/paths?src=g0", 400, "dst", "the parameter dst is missing"),
        ("/v1/paths?src=g0&dst=", 400, "dst", "missing"),
        ("/v1/paths?src=g0&dst=g0", 400, "dst", "same host"),
        ("/v1/paths?src=g0&dst=g99", 400, "dst", "no host 'g99'"),
        ("/v1/paths?src=s0&dst=g1", 400, "src", "no host 's0'"),
        ("/v1/paths?src=g0&dst=st0&protocol=sctp", 400, "protocol", "one of icmp, tcp, udp"),
        ("/v1/paths?src=g0&dst=st0&protocol=tcp&port=0", 400, "port", "from 1 to 65535"),
        ("/v1/paths?src=g0&dst=st0&protocol=tcp&port=99999999999999999999999", 400, "port", "from 1 to 65535"),
        ("/v1/paths?src=g0&dst=st0&protocol=tcp&port=-1", 400, "port", "'-1'"),
        ("/v1/paths?src=g0&dst=st0&protocol=tcp&port=%D9%A3", 400, "port", "from 1"),
        ("/v1/paths?src=g0&dst=st0&protocol=udp&port=53", 400, "port", "without regard to ports"),
        ("/v1/paths?src=g0&dst=st0&source=guess", 400, "source", "one of plan, installed"),
        ("/v1/paths?src=g0&src=g1&dst=st0", 400, "src", "twice"),
        ("/v1/paths?src=g0&dst=st0&vni=5", 400, "vni", "unknown parameter"),
        ("/v1/paths?src=g0;dst=st0", 400, "src", "no host 'g0;dst=st0'"),
        ("/v1/paths?src", 400, None, "malformed"),
        ("/v1/paths?src=%ff&dst=g0", 400, None, "malformed"),
        ("/v1/flows?dpid=", 400, "dpid", "decimal or 0x"),
        ("/v1/topology/", 404, None, "no resource"),
        ("//v1/topology", 404, None, "no resource"),
        ("/v1//topology", 404, None, "no resource"),
        ("/v1%2Ftopology", 404, None, "no resource"),
        ("v1/topology", 400, None, "begins with a slash"),
        ("*", 400, None, "begins with a slash"),
        ("http://x@y/v1/topology", 400, None, "malformed"),
        ("http:///v1/topology", 400, None, "malformed"),
        ("/v1/events?kind=link,nothing", 400, "kind", "one or more of"),
        ("/v1/events?after=-1", 400, "after", "from 0"),
        ("/v1/events?limit=0", 400, "limit", "from 1 to 1000"),
        ("/v1/reachability?src=g0&dst=g1", 409, None, "started without --store"),
        ("/v1/tenants", 409, None, "started without --store"),
        ("/metrics?flows=maybe", 400, "flows", "one of yes, no"),
        ("/v1/flows?dpid=1.0", 400, "dpid", "decimal or 0x"),
        ("/v1/flows?dpid=0x", 400, "dpid", "decimal or 0x"),
        ("/v1/flows?dpid=18446744073709551616", 400, "dpid", "decimal or 0x"),
        ("/v1/flows?dpid=99", 404, None, "0x63"),
        ("/v1/counters?dpid=0xff", 404, None, "0xff"),
        ("/v1/health?wait_ms=60001", 400, "wait_ms", "from 0 to 60000"),
        ("/v1/health?wait_ms=soon", 400, "wait_ms", "'soon'"),
        ("/stats/flow/99", 404, None, "0x63"),
        ("/stats/flow/x", 400, None, "decimal or 0x"),
        ("/stats/flow", 404, None, "no resource"),
        ("/stats/port/1/99", 404, None, "no port 99"),
        ("/stats/port/1/x", 400, None, "a number or ALL"),
        ("/v1.0/topology/switches/1", 404, None, "16 hexadecimal digits"),
        ("/v1.0/topology/links/000000000000000G", 404, None, "16 hexadecimal digits"),
        ("/stats/switches/" + "a" * MAX_TARGET_BYTES, 414, None, "at most 8192"),
        ("//[", 404, None, "no resource"),
    ],
)
def test_wrong_requests(backend: FakeBackend, target: str, status: int, parameter: str | None, words: str) -> None:
    """Each mistake has its status, names the parameter, and says what would be right."""
    problem = check_problem(Api(backend).answer("GET", target), status, words)
    assert problem.get("parameter") == parameter
    assert len(problem["instance"]) <= 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
def test_only_reading(backend: FakeBackend, method: str) -> None:
    """Other methods are refused with the list of those that are allowed; unknown resources stay unknown."""
    response = Api(backend).answer(method, "/v1/topology")
    check_problem(response, 405, method)
    assert response.headers == {"Allow": "GET, HEAD"}
    check_problem(Api(backend).answer(method, "/nothing"), 404)


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("/v1/tenants/a", "GET, HEAD, PUT, DELETE"),
        ("/v1/tenants", "GET, HEAD"),
        ("/stats/flow/1", "GET, HEAD, POST"),
        ("/stats/flowentry/add", "POST"),
        ("/stats/flowentry/clear/1", "DELETE"),
        ("/stats/portdesc/modify", "POST"),
        ("/stats/portdesc/1", "GET, HEAD"),
    ],
)
def test_what_is_allowed(backend: FakeBackend, target: str, allowed: str) -> None:
    """The most specific resource says which methods it has."""
    response = Api(backend).answer("PATCH", target)
    check_problem(response, 405)
    assert response.headers["Allow"] == allowed


def test_absolute_targets(backend: FakeBackend) -> None:
    """Proxies send the whole address; it means the same."""
    assert get(backend, "HTTP://127.0.0.1:8080/v1/health?wait_ms=0")["ready"] is True


def test_switches_that_do_not_answer(backend: FakeBackend) -> None:
    """Silence is a gateway timeout, absence unavailable; others still answer."""
    backend.silent = {3}
    check_problem(Api(backend).answer("GET", "/v1/counters"), 504, "0x3", "10 s")
    check_problem(Api(backend).answer("GET", "/v1/paths?src=g0&dst=g1&source=installed"), 504)
    check_problem(Api(backend).answer("GET", "/stats/desc/3"), 504)
    assert get(backend, "/v1/counters?dpid=1")["ports"]

    def gone(dpid: int) -> Any:
        raise NotConnected(dpid)

    backend.flows = gone  # type: ignore[method-assign]
    check_problem(Api(backend).answer("GET", "/v1/flows"), 503, "not connected")


def test_defects_do_not_reach_the_client(backend: FakeBackend, caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected error is a plain 500 and one line in the log."""

    def broken(dpid: int) -> Any:
        raise ZeroDivisionError("secret detail")

    backend.ports = broken  # type: ignore[method-assign]
    problem = check_problem(Api(backend).answer("GET", "/v1/counters"), 500)
    assert "secret" not in json.dumps(problem)
    assert "ZeroDivisionError: secret detail" in caplog.text


def test_paths_over_foreign_entries_are_not_guessed(backend: FakeBackend) -> None:
    """The path model says so when it cannot follow; the planned path is still there."""
    backend.foreign = {2}
    target = "/v1/paths?src=g0&dst=st0"
    check_problem(Api(backend).answer("GET", target + "&source=installed"), 409, "s1 has entries")
    assert get(backend, target)["delivered"] is True
    foreign = [flow for flow in get(backend, "/v1/flows?dpid=0x2")["flows"] if not flow["planned"]]
    assert [(flow["foreign"]["priority"], flow["packets"]) for flow in foreign] == [(9, 1)]


def test_paths_name_every_node_on_the_way(backend: FakeBackend) -> None:
    """Hosts, switches, ports, interfaces and rules, there and back, through the client's gateway."""
    path = get(backend, "/v1/paths?src=g0&dst=st0&protocol=tcp&port=4420&source_port=0x9c40")
    assert (path["delivered"], path["port"], path["source_port"]) == (True, 4420, 40_000)
    [leg] = path["there"]
    visited = [(hop["node"], hop["what"]) for hop in leg["hops"] if hop["role"] != "switch"]
    assert visited == [("g0", "sends"), (PLAN.via["g0"][0], "forwards"), ("st0", "receives")]
    first = leg["hops"][1]
    assert (first["in_interface"], first["in_port"]) == (f"{first['node']}-eth{first['in_port']}", first["in_port"])
    assert "table=steer priority=300" in first["rules"][1]
    assert path["back"][0]["hops"][0]["node"] == "st0"


def test_counters_are_summed_by_the_role_behind_the_port(backend: FakeBackend) -> None:
    """To and from are as seen by the role; ports between switches and reserved ports are in no sum."""
    counters = get(backend, "/v1/counters")
    for role, total in counters["roles"].items():
        ports = [port for port in counters["ports"] if port["peer_role"] == role]
        assert total["to_bytes"] == sum(port["tx_bytes"] for port in ports)
        assert total["from_packets"] == sum(port["rx_packets"] for port in ports)
    assert set(counters["roles"]) == {"gpu", "compute", "router", "gateway", "storage"}
    assert all(port["port"] < 100 for port in counters["ports"])
    assert {port["peer"] for port in counters["ports"]} == {node.name for node in FABRIC.nodes}


def test_health_waits_in_the_controller(backend: FakeBackend) -> None:
    """wait_ms goes to the waiter in seconds; without it nothing waits."""
    assert get(backend, "/v1/health")["ready"] is True
    assert get(backend, "/v1/health?wait_ms=0")["problems"] == []
    assert get(backend, "/v1/health?wait_ms=1500")["rules"] == {
        "planned": len(PLAN.rules),
        "installed": len(PLAN.rules),
    }
    assert backend.waits == [1.5]


def test_topology_of_ryu(backend: FakeBackend) -> None:
    """Switches, both directions of each link, and hosts with their ports, all or of one switch."""
    switches = get(backend, "/v1.0/topology/switches")
    assert [switch["dpid"] for switch in switches] == [f"{dpid:016x}" for dpid in range(1, 6)]
    assert switches[0]["ports"][0] == {
        "dpid": "0000000000000001",
        "port_no": "00000001",
        "hw_addr": "02:bb:00:00:00:01",
        "name": "s0-eth1",
    }
    links = get(backend, "/v1.0/topology/links")
    assert len(links) == 2 * 6
    assert {"src": links[0]["dst"], "dst": links[0]["src"]} in links
    of_one = get(backend, "/v1.0/topology/links/0000000000000001")
    assert {link["src"]["dpid"] for link in of_one} == {"0000000000000001"}
    assert len(of_one) == 3
    hosts = get(backend, "/v1.0/topology/hosts")
    assert len(hosts) == len(FABRIC.hosts)
    assert hosts[0]["ipv4"] == ["10.0.0.1"]
    assert set(hosts[0]) == {"mac", "ipv4", "ipv6", "port"}
    # Ryu answers an unknown but well-formed id with an empty list.
    assert get(backend, "/v1.0/topology/hosts/00000000000000ff") == []


def test_stats_of_ryu(backend: FakeBackend) -> None:
    """The datapath id is the key, as a decimal text, however it was written."""
    assert get(backend, "/stats/switches") == [1, 2, 3, 4, 5]
    assert get(backend, "/stats/desc/0x2")["2"]["dp_desc"] == "s0"
    assert get(backend, "/stats/flow/3") == {"3": [{"priority": 1}]}
    assert get(backend, "/stats/port/1/2") == {"1": [{"port_no": 2}]}
    assert get(backend, "/stats/port/1/ALL") == get(backend, "/stats/port/1")


_PIECES = st.sampled_from(
    [
        *("/v1/paths", "/v1/flows", "/stats/flow/", "/v1.0/topology/links/", "?", "&", "=", "src", "dst", "dpid", "g0"),
        *("st0", "%", "%00", "..", "//", "#", "0x1", "\x00", "é", "[", "]", ":", "@", "1"),
    ]
)


@given(st.sampled_from(["GET", "HEAD", "POST"]), st.lists(_PIECES | st.text(max_size=5), max_size=12).map("".join))
@example("GET", "http://[::1/v1/health")
@example("GET", "/v1/paths?src=\ud800")
def test_no_target_breaks_the_interface(method: str, target: str) -> None:
    """Any text is answered with JSON, and never with an internal error."""
    response = SHARED.answer(method, target)
    body = json.loads(response.body or b"null")
    assert response.status != 500, (target, body)
    assert (response.content_type == "application/problem+json") == (response.status >= 400)


@given(st.text())
def test_any_name_is_quoted_back_safely(name: str) -> None:
    """Unknown host names, whatever is in them, come back inside valid JSON."""
    response = SHARED.answer("GET", f"/v1/paths?src={quote(name.encode('utf-8', 'surrogatepass'))}&dst=g0")
    assert response.status == 400
    json.loads(response.body)


SHARED = Api(FakeBackend())
