"""Flows of gateways over REST: listed, decided from outside, forgotten; a real pipeline answers for the gateway."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

from controller.gateways.fleet import GatewayStatus
from controller.gateways.session import Phase
from controller.rest.api import Api
from controller.rest.backend import Standing
from emulator.messages.gateway import NextHop, Policies, Tenant
from tests.support.controller_backend import FakeBackend
from tests.support.memory_gateway import Daemon

STATUS = GatewayStatus("gw0", "/run/gw0", Phase.READY, "fast", 3, None, 1, 2, 2, 5, 4, 1)
PATH = "/v1/gateways/gw0/flows"
MAC = "02:00:00:00:00:02"
HOPS = Policies(
    tenants=(Tenant(number=7), Tenant(number=8)),
    next_hops=tuple(NextHop(port=0, target_mac=MAC, source_mac=MAC, vlan=vlan) for vlan in (7, 8)),
)


class Gateway:
    """A gateway behind the REST interface."""

    def __init__(self) -> None:
        self.daemon, self.backend = Daemon(), FakeBackend()
        self.daemon.set_policies(HOPS)
        self.backend.fleet = [STATUS, replace(STATUS, name="gw1")]
        self.backend.policies = HOPS
        self.backend.daemons["gw0"] = self.daemon.answer
        self.api = Api(self.backend)

    def ask(self, method: str, target: str, body: object = None) -> tuple[int, Any]:
        sent = b"" if body is None else json.dumps(body).encode()
        answer = self.api.answer(method, target, {"content-type": "application/json"}, sent)
        return answer.status, json.loads(answer.body)

    def install(self, *flows: dict[str, Any]) -> tuple[int, Any]:
        return self.ask("POST", PATH, {"flows": list(flows)})

    def names(self, target: str) -> list[int]:
        """Source ports of the flows on a page and all that follow."""
        found = []
        while target:
            status, page = self.ask("GET", target)
            assert status == 200
            found.append([flow["key"]["source_port"] for flow in page["flows"]])
            target = page["next"] or ""
        assert all(found) or found == [[]]
        return [port for page in found for port in page]


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


def key(port: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "tenant": 7, "protocol": 6, "source": "10.0.0.1", "target": "10.0.0.2", "source_port": port,
        "target_port": 4420, **more,
    }  # fmt: skip


def drop(port: int = 1, **more: Any) -> dict[str, Any]:
    return {"key": key(port, **more), "allow": False}


def test_flows_are_decided_listed_and_forgotten(gateway: Gateway) -> None:
    """Each flow shows what was decided; one that is decided about again is still one."""
    passed = {"key": key(2), "allow": True, "next_hop": 2, "target": "10.0.0.9", "target_port": 80}
    assert gateway.install(drop(), passed) == (200, {"flows": 2})
    assert gateway.install(drop()) == (200, {"flows": 2})
    status, page = gateway.ask("GET", PATH)
    assert (status, page["next"]) == (200, None)
    first, second = page["flows"]
    assert (first["key"], first["after"], first["reason"], first["rule"]) == (key(), key(), "denied", -1)
    assert (second["reason"], second["next_hop"]) == ("forwarded", 2)
    assert second["after"] == key(2, target="10.0.0.9", target_port=80)
    assert gateway.ask("DELETE", f"{PATH}?{urlencode(key())}") == (200, {"deleted": 1})
    status, problem = gateway.ask("DELETE", f"{PATH}?{urlencode(key())}")
    assert (status, problem["detail"]) == (404, "gateway gw0 knows no such flow")
    assert gateway.ask("DELETE", PATH) == (200, {"deleted": 1})
    assert gateway.ask("DELETE", PATH) == (200, {"deleted": 0})


def test_flows_come_in_pages(gateway: Gateway) -> None:
    """All of them, once each, also those of one tenant; of both families."""
    wide = {"source": "fd00::1", "target": "fd00::2"}
    gateway.install(*(drop(port) for port in range(1, 6)), *(drop(port, tenant=8, **wide) for port in range(6, 9)))
    assert gateway.names(f"{PATH}?limit=2") == [1, 2, 3, 4, 5, 6, 7, 8]
    assert gateway.names(f"{PATH}?limit=3&tenant=8") == [6, 7, 8]
    assert gateway.names(f"{PATH}?tenant=7") == [1, 2, 3, 4, 5]
    assert gateway.names(f"{PATH}?tenant=9") == []
    answer = gateway.api.answer("GET", f"{PATH}?limit=2")
    assert answer.headers["Link"] == f'<{json.loads(answer.body)["next"]}>; rel="next"'
    one = {name: value for name, value in key(6, tenant=8, **wide).items() if name != "x"}
    assert gateway.ask("DELETE", f"{PATH}?{urlencode(one)}") == (200, {"deleted": 1})


@pytest.mark.parametrize(
    ("flow", "detail"),
    [
        (drop(source="10.0.0"), "/flows/0/key/source: is an IPv4 or IPv6 address"),
        (drop(source="fe80::1%eth0", target="fe80::2"), "/flows/0/key/source: is an IPv4 or IPv6 address"),
        (drop(source="::1"), "/flows/0: ::1 and 10.0.0.2 are of different families"),
        (drop(tenant="7"), "/flows/0/key/tenant: is a whole number"),
        (drop(port=65_536), "/flows/0/key/source_port: is at most 65535"),
        (drop(vni=1), "/flows/0/key/vni: is not a member of this object"),
        ({"key": key()}, "/flows/0/allow: is missing"),
        ({"key": key(), "allow": True}, "/flows/0: a flow that is allowed needs a next hop"),
        ({**drop(), "next_hop": 1}, "/flows/0: a flow that is allowed needs a next hop"),
        ({**drop(), "target": "::1"}, "/flows/0: ::1 is of another family than the flow"),
        ({**drop(protocol=1), "target_port": 3}, "/flows/0: only TCP (6) and UDP (17) can be translated"),
        ({"key": key(), "allow": True, "next_hop": 3}, "gateway gw0 refuses: flows.0.next_hop: there are 2 next hops"),
    ],
)
def test_wrong_flows_are_refused_with_the_place(gateway: Gateway, flow: dict[str, Any], detail: str) -> None:
    """Whoever finds the fault, the controller or the gateway; of the others in the same request none is installed."""
    status, problem = gateway.install(flow, drop(5))
    assert (status, problem["detail"][: len(detail)]) == (422, detail)
    assert "\n" not in problem["detail"]
    assert gateway.names(PATH) == []


@pytest.mark.parametrize(("count", "words"), [(0, "has at least 1 item"), (1001, "has at most 1000 items")])
def test_none_and_too_many_are_refused(gateway: Gateway, count: int, words: str) -> None:
    """As one request to the daemon could not carry them."""
    status, problem = gateway.install(*(drop(port) for port in range(count)))
    assert (status, problem["detail"].startswith(f"/flows: {words}")) == (422, True)


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"tenant": 7}, "protocol"),
        ({"source_port": 7}, "tenant"),
        (key(source=""), "source"),
        (key(source="x"), "source"),
        (key(target="::1"), "target"),
        (key(protocol=256), "protocol"),
        (key(vni=1), "vni"),
    ],
)
def test_a_flow_is_named_whole(gateway: Gateway, query: dict[str, Any], parameter: str) -> None:
    """Half a name, or a wrong one, forgets nothing at all, least of all everything."""
    gateway.install(drop())
    status, problem = gateway.ask("DELETE", f"{PATH}?{urlencode(query)}")
    assert (status, problem["parameter"]) == (400, parameter)
    assert gateway.names(PATH) == [1]


@pytest.mark.parametrize("after", ["x", "LTE", "MS41", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5"])
def test_cursors_of_others_are_refused(gateway: Gateway, after: str) -> None:
    """-1, 1.5, a number that no flow has, and no cursor at all."""
    status, problem = gateway.ask("GET", f"{PATH}?after={after}")
    assert (status, problem["parameter"]) == (400, "after")


REQUESTS: tuple[tuple[str, object], ...] = (("GET", None), ("POST", {"flows": [drop()]}), ("DELETE", None))


def says(**answer: Any) -> Callable[[bytes], bytes]:
    """A daemon that answers every question so."""
    return lambda line: json.dumps({"v": 2, "id": json.loads(line)["id"], **answer}).encode() + b"\n"


@pytest.mark.parametrize(("method", "body"), REQUESTS)
def test_gateways_that_cannot_be_asked(gateway: Gateway, method: str, body: object) -> None:
    """Unknown, not connected, silent, of another kind, and talking nonsense: each has its status and one sentence."""
    status, problem = gateway.ask(method, "/v1/gateways/gw9/flows", body)
    assert (status, problem["detail"]) == (404, "this controller does not tell a gateway 'gw9' what to do")
    status, problem = gateway.ask(method, "/v1/gateways/gw1/flows", body)
    assert (status, problem["detail"]) == (503, "gateway gw1 is not connected: gone")
    error = {"code": "unsupported", "message": "a forward daemon does not do flows"}
    gateway.backend.daemons["gw1"] = says(ok=False, error=error)
    status, problem = gateway.ask(method, "/v1/gateways/gw1/flows", body)
    assert (status, problem["detail"]) == (409, "gateway gw1 refuses: a forward daemon does not do flows")
    for nonsense in ({"ok": False}, {"ok": False, "error": "no"}):
        gateway.backend.daemons["gw1"] = says(**{"error": None, **nonsense})
        assert gateway.ask(method, "/v1/gateways/gw1/flows", body)[0] == 409
    for result in ({}, {"flows": -1, "deleted": None}, {"flows": [{"key": 7}], "next": None, "deleted": "x"}):
        gateway.backend.daemons["gw1"] = says(ok=True, result=result)
        status, problem = gateway.ask(method, "/v1/gateways/gw1/flows", body)
        assert (status, problem["detail"].startswith("gateway gw1 answered something that cannot")) == (502, True)
    gateway.backend.silent_gateways.add("gw0")
    status, problem = gateway.ask(method, PATH, body)
    assert (status, problem["detail"]) == (504, "gateway gw0 did not answer within 10 s")


def test_a_standby_decides_nothing(gateway: Gateway) -> None:
    """Changes go to the controller that decides, which is named."""
    gateway.backend.place = Standing(active=False, name="two", holder="one")
    for method, body in REQUESTS[1:]:
        status, problem = gateway.ask(method, PATH, body)
        assert (status, problem["active"]) == (503, "one")
    assert gateway.names(PATH) == []


def test_what_a_gateway_is_told_is_shown(gateway: Gateway) -> None:
    """Whole, as it is said over the control socket; connected or not."""
    for name in ("gw0", "gw1"):
        assert gateway.ask("GET", f"/v1/gateways/{name}/policies") == (200, HOPS.model_dump(mode="json"))
    assert gateway.ask("GET", "/v1/gateways/gw9/policies")[0] == 404
    described = gateway.ask("GET", "/v1/openapi.json")[1]["paths"]["/v1/gateways/{name}/policies"]["get"]
    schema = described["responses"]["200"]["content"]["application/json"]["schema"]
    assert set(schema["required"]) == set(HOPS.model_dump()) == set(schema["properties"])
