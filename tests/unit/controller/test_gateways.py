"""Gateways under a controller: what is told about them in the journal, over REST and as metrics."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.gateways.fleet import Fleet, Gateway, GatewayStatus
from controller.gateways.policies import Carried, policies_for
from controller.gateways.session import GatewaySession, Phase
from controller.journal import Journal, Kind, Severity
from controller.rest.api import Api
from controller.tenancy.kinds import Kind as Kinds
from emulator.messages.gateway import MAX_LINE_BYTES, Policies, Rule
from gateway.control_requests import handle
from tests.support.controller_backend import FakeBackend
from tests.support.memory_gateway import Daemon
from tests.support.tenancy_sites import Declaring, small_site

STATUS = GatewayStatus("gw0", "/run/gw0", Phase.READY, "fast", 3, None, 1, 2, 2, 5, 4, 1)


class Noted:
    """A journal without a clock."""

    def __init__(self) -> None:
        self.journal = Journal()

    def __call__(self, kind: Kind, message: str, **more: Any) -> None:
        self.journal.add(0, kind, message, **more)

    @property
    def messages(self) -> list[str]:
        return [entry.message for entry in self.journal.since()]


def talk(gateway: Gateway, daemon: Daemon, up: bytes) -> None:
    """Carry lines until nobody has anything to say."""
    while up:
        up = gateway.received(daemon.answer(up))


def declared() -> Declaring:
    found = Declaring(small_site("gateway")).tenant("acme", "red").service("disk", "st0", 4420)
    found.node("red/g0", "10.0.0.1").endpoint("red/disk", "disk", "10.0.9.9", 4420)
    return found.policy("ok", vpc="red", destination={"endpoints": ["disk"]}, protocol="tcp")


def test_a_life_is_told_once_each() -> None:
    """One line when it cannot be reached however often that is tried, one when it is told, one when it is lost."""
    noted = Noted()
    gateway, daemon = Gateway("gw0", "/run/gw0", Policies(), noted), Daemon()
    for _ in range(3):
        gateway.lost("/run/gw0: No such file or directory")
    talk(gateway, daemon, gateway.connected())
    talk(gateway, daemon, gateway.want(Policies(rules=(Rule(allow=True),))))
    talk(gateway, daemon, gateway.want(Policies(rules=(Rule(allow=True),))))
    assert (gateway.status().state, gateway.status().problem, gateway.status().rules) == (Phase.READY, None, 1)
    gateway.lost("/run/gw0: the daemon ended the connection")
    assert noted.messages == [
        "gateway gw0: /run/gw0: No such file or directory",
        "gateway gw0 (memory) has what it should: 0 rules, revision 0",
        "gateway gw0 (memory) has what it should: 1 rules, revision 1",
        "gateway gw0: /run/gw0: the daemon ended the connection",
    ]
    assert [entry.severity for entry in noted.journal.since()] == [
        *(Severity.WARNING, Severity.INFO),
        *(Severity.INFO, Severity.WARNING),
    ]
    assert {entry.kind for entry in noted.journal.since()} == {Kind.GATEWAY}
    status = gateway.status()
    assert (status.state, status.mode, status.revision) == (Phase.OFFLINE, None, None)
    assert (status.connections, status.disconnections, status.refusals) == (1, 1, 0)


def test_standing_by_is_nothing_to_complain_about() -> None:
    """The reason is shown, and the journal says nothing."""
    noted = Noted()
    gateway = Gateway("gw0", "/run/gw0", Policies(), noted)
    gateway.lost("this controller stands by", expected=True)
    assert (gateway.status().problem, noted.messages) == ("this controller stands by", [])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"v":1,"ok":false,"error":"\'v\' is 2, not 1"}\n', "gateway gw0: a daemon that speaks version 1, not 2"),
        (b"HTTP/1.1 400 Bad Request\r\n", "gateway gw0: an answer that cannot be understood: b'HTTP/1.1 400"),
        (b"[" * 100_000 + b"\n", "gateway gw0: an answer that cannot be understood"),
    ],
)
def test_strange_daemons_are_one_line(line: bytes, says: str) -> None:
    """However often they say it; nothing is left to wait for, so the connection is not made again and again."""
    noted = Noted()
    gateway = Gateway("gw0", "/run/gw0", Policies(), noted)
    gateway.connected()
    for _ in range(3):
        assert gateway.received(line) == b""
    assert len(noted.messages) == 1
    assert noted.messages[0].startswith(says)
    assert (gateway.status().state, gateway.status().refusals) == (Phase.REFUSED, 1)
    assert gateway.session.oldest is None


def test_policies_that_no_request_can_carry_are_a_problem() -> None:
    """Neither is a request sent that the daemon would hang up on, nor is anything broken afterwards."""
    session, daemon = GatewaySession("gw0", Policies()), Daemon()
    up = session.connected()
    while up:
        up = session.received(daemon.answer(up))
    rule = Rule(allow=True).model_dump_json()
    many = MAX_LINE_BYTES // len(rule) + 1
    assert session.want(Policies(rules=tuple(Rule(allow=True) for _ in range(many)))) == b""
    assert session.phase is Phase.REFUSED
    assert session.problem is not None
    assert f"a request has at most {MAX_LINE_BYTES}" in session.problem
    up = session.want(Policies())
    while up:
        up = session.received(daemon.answer(up))
    assert session.phase is Phase.READY


def test_a_fleet_follows_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gateway is told its own part; what cannot be said is one line, and the gateway keeps what it has."""
    noted, site, state = Noted(), small_site("gateway"), declared().state
    client = next(name for name in site.forwarders("g0"))
    fleet = Fleet(site, {"gw0": "/run/gw0", "gw1": "/run/gw1"}, state, noted)
    rules = {name: gateway.status().rules for name, gateway in fleet.gateways.items()}
    assert rules == {name: 2 if name == client else 0 for name in ("gw0", "gw1")}
    assert fleet.gateways[client].session.wanted == policies_for(site, state, client)
    monkeypatch.setattr(Carried, "policies", lambda *_: Policies.model_validate({"rules": [{}]}))
    fleet.want(state)
    assert fleet.gateways[client].status().rules == 2
    assert sorted(noted.messages) == [
        f"gateway {name}: has more than 20000 rules or routes, and keeps those that it had" for name in ("gw0", "gw1")
    ]


def two_vpcs() -> Declaring:
    """Each with nodes that one gateway carries, and a volume that all of them may open."""
    found = Declaring(small_site("gateway")).tenant("acme", "red", "blue").service("disk", "st0", 4420)
    found.node("red/g0", "10.0.0.1").node("red/g1", "10.0.0.2").node("blue/g2", "10.0.0.1").node("blue/g3", "10.0.0.2")
    for vpc in ("red", "blue"):
        found.endpoint(f"{vpc}/disk", "disk", "10.0.9.9", 4420).policy(vpc, vpc=vpc, protocol="tcp")
    return found


def test_only_what_a_change_touches_is_made_again() -> None:
    """Of the other VPC, and of who is not concerned, what a gateway is told stays the very same objects.

    Steps: forbid one node of a VPC; change a policy without any effect; add a policy to the other VPC; take a VPC away.
    """
    declared = two_vpcs()
    carried, gateway = Carried(declared.site), declared.site.forwarders("g0")[0]
    carried.update(declared.state)
    first = carried.policies(gateway)
    others = [rule for rule in first.rules if rule.tenant == declared.state.vpcs["red"].segment]
    declared.policy("no", vpc="blue", action="deny", priority=2000, source={"nodes": ["g2", "g3"]})
    carried.update(declared.state)
    second = carried.policies(gateway)
    assert 0 < len(second.rules) < len(first.rules)
    assert {id(rule) for rule in others} == {id(rule) for rule in second.rules}
    declared.policy("no", vpc="blue", action="deny", priority=2001, source={"nodes": ["g2", "g3"]})
    carried.update(declared.state)
    assert carried.policies(gateway) is second
    declared.policy("more", vpc="red", protocol="udp")
    carried.update(declared.state)
    assert carried.policies(gateway) is second
    for kind, key in ((Kinds.POLICIES, ("no",)), (Kinds.POLICIES, ("blue",)), (Kinds.ENDPOINTS, ("blue", "disk"))):
        declared.state = declared.state.delete(kind, key)
    for key in (("blue", "g2"), ("blue", "g3")):
        declared.state = declared.state.delete(Kinds.NODES, key)
    declared.state = declared.state.delete(Kinds.VPCS, ("blue",))
    carried.update(declared.state)
    assert carried.policies(gateway) == policies_for(declared.site, declared.state, gateway) == second


class Interrupted(Exception):
    """Somebody gave up."""


@pytest.mark.parametrize("after", range(12))
def test_what_was_given_up_half_way_is_not_used(after: int) -> None:
    """Work that ends at any of its pauses leaves nothing wrong to the next one."""
    declared = two_vpcs()
    carried, gateway = Carried(declared.site), declared.site.forwarders("g0")[0]
    carried.update(declared.state)
    carried.policies(gateway)
    left = after
    declared.policy("no", vpc="red", action="deny", priority=2000, source={"nodes": ["g0"]})
    declared.policy("neither", vpc="blue", action="deny", priority=2000, source={"nodes": ["g2"]})

    def pause(_: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Interrupted

    with suppress(Interrupted):
        carried.update(declared.state, pause)
        carried.policies(gateway, pause)
    carried.update(declared.state)
    assert carried.policies(gateway) == policies_for(declared.site, declared.state, gateway)


def test_what_is_to_be_said_is_said_before_others_go_on() -> None:
    """A connection may end and begin anew at each pause, and what was meant for the old one must not come to it."""
    declared, said = two_vpcs(), list[str]()
    fleet = Fleet(declared.site, {"gw0": "/run/gw0", "gw1": "/run/gw1"}, declared.state, Noted())
    for gateway in fleet.gateways.values():
        talk(gateway, Daemon(), gateway.connected())
    declared.policy("no", vpc="red", action="deny", priority=2000)
    declared.policy("neither", vpc="blue", action="deny", priority=2000)

    def pause(_: int) -> None:
        unsent = [name for name, one in fleet.gateways.items() if one.session.phase is Phase.WRITING]
        assert set(unsent) <= set(said)

    fleet.want(declared.state, lambda name, data: said.append(name) if data else None, pause)
    assert sorted(said) == sorted(
        {name for host in ("g0", "g1", "g2", "g3") for name in declared.site.forwarders(host)}
    )


def test_rest_shows_gateways() -> None:
    """All of them; one with its own figures, or without; one that is not known; one that does not answer."""
    backend = FakeBackend()
    api = Api(backend)
    assert json.loads(api.answer("GET", "/v1/gateways").body) == {"gateways": []}
    backend.fleet = [STATUS, replace(STATUS, name="gw1", state=Phase.OFFLINE, mode=None, problem="gone")]
    backend.figures["gw0"] = {"pipeline": {"reasons": {"denied": {"frames": 7}, "odd": 3}}}
    shown = json.loads(api.answer("GET", "/v1/gateways").body)["gateways"]
    assert [(one["name"], one["state"], one["problem"]) for one in shown] == [
        ("gw0", "ready", None),
        ("gw1", "offline", "gone"),
    ]
    assert json.loads(api.answer("GET", "/v1/gateways/gw0").body) == {**shown[0], "statistics": backend.figures["gw0"]}
    assert json.loads(api.answer("GET", "/v1/gateways/gw1").body)["statistics"] is None
    assert api.answer("GET", "/v1/gateways/gw9").status == 404
    backend.silent_gateways.add("gw0")
    answer = api.answer("GET", "/v1/gateways/gw0")
    assert (answer.status, json.loads(answer.body)["detail"]) == (504, "gateway gw0 did not answer within 10 s")


def test_metrics_have_gateways() -> None:
    """How each is, and its frames by their fate; a daemon that does not answer takes nothing away from the rest."""
    backend = FakeBackend()
    backend.fleet = [STATUS, replace(STATUS, name="gw1", state=Phase.REFUSED)]
    backend.figures["gw0"] = {"pipeline": {"reasons": {"denied": {"frames": 7}, "odd": 3}}}
    backend.silent_gateways.add("gw1")
    text = Api(backend).answer("GET", "/metrics?flows=no").body.decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("icgw_gateway")
    }
    assert found == {
        **{("icgw_gateway_ready", name): value for name, value in (("gw0", 1.0), ("gw1", 0.0))},
        **{
            (f"icgw_gateway_{what}", name): value
            for what, value in (
                ("rules", 2.0),
                ("connections_total", 5.0),
                ("disconnections_total", 4.0),
                ("refusals_total", 1.0),
            )
            for name in ("gw0", "gw1")
        },
        ("icgw_gateway_frames_total", "gw0", "denied"): 7.0,
    }


def test_what_somebody_else_changed_is_changed_back() -> None:
    """A look costs no more than a revision as long as nothing changed."""
    noted = Noted()
    gateway, daemon = Gateway("gw0", "/run/gw0", Policies(), noted), Daemon()
    talk(gateway, daemon, gateway.connected())
    line = gateway.session.check()
    answer = handle(line, daemon, 2)[0].data
    assert json.loads(answer)["result"] == {"revision": 0, "policies": None}
    assert gateway.received(answer) == b""
    daemon.set_policies(Policies(rules=(Rule(allow=True),)))
    talk(gateway, daemon, gateway.session.check())
    assert daemon.has() == Policies()
    assert noted.messages[-1] == "gateway gw0 (memory) has what it should: 0 rules, revision 2"
