"""The controller's side of gateways: what they are told, and that it gets there whatever happens to the connection."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Dot1Q, Ether

from controller.gateways.policies import PORT, policies_for
from controller.gateways.session import GatewaySession, Phase
from emulator.messages.gateway import Flow, FlowKey, Policies, Rule, Tenant
from gateway.dataplane.reasons import Reason
from tests.support.dataplane_frames import Batch
from tests.support.memory_gateway import Daemon
from tests.support.tenancy_sites import Declaring, small_site

wanted = st.builds(
    Policies,
    tenants=st.lists(st.builds(Tenant, number=st.integers(0, 5)), max_size=2).map(tuple),
    rules=st.lists(st.builds(Rule, allow=st.booleans(), protocol=st.sampled_from([6, 17])), max_size=2).map(tuple),
)


class Sessions(RuleBasedStateMachine):
    """A session, a gateway, a connection that delivers bytes in any pieces or breaks, and somebody who interferes."""

    @initialize(policies=wanted)
    def begin(self, policies: Policies) -> None:
        self.daemon = Daemon()
        self.policies = policies
        self.session = GatewaySession("gw0", policies)
        self.up = self.down = b""
        self.alive = False

    @rule(policies=wanted)
    def want(self, policies: Policies) -> None:
        self.policies = policies
        self.up += self.session.want(policies)

    @rule()
    def connect(self) -> None:
        self.alive, self.up, self.down = True, self.session.connected(), b""

    @rule()
    def lose(self) -> None:
        self.alive, self.up, self.down = False, b"", b""
        self.session.disconnected()

    @rule(policies=wanted)
    def interfere(self, policies: Policies) -> None:
        self.daemon.set_policies(policies)

    @rule(share=st.floats(0, 1))
    def carry_up(self, share: float) -> None:
        cut = int(len(self.up) * share)
        whole = self.up.rfind(b"\n", 0, cut) + 1
        self.down += self.daemon.answer(self.up[:whole])
        self.up = self.up[whole:]

    @rule(share=st.floats(0, 1))
    def carry_down(self, share: float) -> None:
        cut = int(len(self.down) * share)
        piece, self.down = self.down[:cut], self.down[cut:]
        if self.alive:
            self.up += self.session.received(piece)

    @rule()
    def check(self) -> None:
        if self.alive:
            self.up += self.session.check()

    @rule()
    def settle(self) -> None:
        """Once nothing else happens, the gateway has what is wanted after a few messages."""
        if not self.alive:
            self.connect()
        for _ in range(8):
            self.carry_up(1.0)
            self.carry_down(1.0)
        assert self.session.phase is Phase.READY
        assert self.session.problem is None
        assert self.session.oldest is None

    @rule()
    def settle_and_look(self) -> None:
        """After a look, whatever others did meanwhile is undone."""
        self.settle()
        self.check()
        self.settle()
        assert self.daemon.has() == self.policies

    @invariant()
    def ready_means_written(self) -> None:
        if getattr(self, "session", None) is not None and self.session.phase is Phase.READY:
            assert self.session.revision is not None
            if self.session.revision == self.daemon.policies()["revision"]:
                assert self.daemon.has() == self.policies


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=40, stateful_step_count=25)


def ready(policies: Policies) -> tuple[GatewaySession, Daemon]:
    session, daemon = GatewaySession("gw0", policies), Daemon()
    up = session.connected()
    while up:
        up = session.received(daemon.answer(up))
    assert session.phase is Phase.READY
    return session, daemon


def test_flows_are_pushed_and_taken_back() -> None:
    """A ready session installs and deletes flows, and finds each answer under its question's number."""
    session, daemon = ready(Policies())
    key = FlowKey.model_validate({"tenant": 1, "protocol": 6, "source": "10.0.0.1", "target": "10.0.0.2"}, strict=False)
    for (number, line), result in (
        (session.install([Flow(key=key, allow=False)]), {"flows": 1}),
        (session.delete([key]), {"deleted": 1}),
        (session.delete(None), {"deleted": 0}),
    ):
        assert session.received(daemon.answer(line)) == b""
        assert session.results.pop(number)["result"] == result
    number, line = session.statistics()
    session.received(daemon.answer(line))
    assert session.results[number]["result"]["stats"]["frames_in"] == 0


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"result": {"version": 1, "mode": "forward", "operations": []}}, "a forward daemon of version 1 takes no"),
        ({"result": {"version": 2, "mode": "proxy", "operations": ["stats"]}}, "takes no policies"),
        ({"result": {}}, "an answer to hello that cannot be understood"),
        ({"ok": False, "error": {"code": "version", "message": "no"}}, "gateway gw0: hello: no"),
        ({"ok": False, "error": "old"}, "cannot be understood"),
        ({"id": 99}, "cannot be understood"),
        ({"id": []}, "cannot be understood"),
    ],
)
def test_a_gateway_that_cannot_be_told_is_a_problem(answer: dict[str, Any], says: str) -> None:
    """Odd answers end in one line of a problem, never in an exception, and other policies or a new connection heal."""
    session = GatewaySession("gw0", Policies())
    session.connected()
    message = {"v": 2, "id": 1, "ok": True, "result": {}, **answer}
    assert session.received(json.dumps(message).encode() + b"\n") == b""
    assert session.phase is Phase.REFUSED
    assert session.problem is not None
    assert says in session.problem
    daemon, up = Daemon(), session.connected()
    while up:
        up = session.received(daemon.answer(up))
    assert session.phase is Phase.READY


def test_policies_that_are_refused_are_not_tried_again_until_they_change() -> None:
    """A refusal is a problem with the gateway's own words; other policies are sent at once."""
    session, daemon = ready(Policies())
    twice = Policies(tenants=(Tenant(number=1, vlans=(9,)), Tenant(number=2, vlans=(9,))))
    assert session.received(daemon.answer(session.want(twice))) == b""
    assert session.problem == "gateway gw0: policies.set: policies: VLAN 9 belongs to tenants 1 and 2"
    up = session.want(Policies(rules=(Rule(allow=True),)))
    while up:
        up = session.received(daemon.answer(up))
    assert session.phase is Phase.READY
    assert daemon.has().rules[0].allow


def test_a_gateway_passes_on_what_tenants_may_open_and_nothing_else() -> None:
    """From declared policies to frames: a client's connection to its endpoint's server and the answers, in its segment.

    Verify: other ports, other clients, other segments and other protocols are refused, each for its reason.
    """
    site = small_site("gateway")
    declared = Declaring(site).tenant("acme", "red", "blue").service("disk", "st0", 4420)
    declared.node("red/g0", "10.0.0.1").node("red/g2", "10.0.0.2").node("blue/g4", "10.0.0.1")
    declared.endpoint("red/disk", "disk", "10.0.9.9", 4420).endpoint("blue/disk", "disk", "10.0.9.9", 4420)
    declared.policy("ok", vpc="red", source={"nodes": ["g0"]}, destination={"endpoints": ["disk"]}, protocol="tcp")
    gateway = site.forwarders("g0")[0]
    policies = policies_for(site, declared.state, gateway)
    places = site.places
    daemon, session = Daemon(places[gateway].mac), GatewaySession(gateway, policies)
    up = session.connected()
    while up:
        up = session.received(daemon.answer(up))
    red, blue = (declared.state.vpcs[name].segment for name in ("red", "blue"))

    def fate(source: str, target: str, layer4: Any, segment: int | None) -> tuple[Reason, Ether]:
        packet = IP(src=places[source].ip, dst=places[target].ip) / layer4
        frame = bytes(Ether(src=places[source].mac, dst=places[gateway].mac) / Dot1Q(vlan=segment) / packet)
        batch = Batch.of([frame], 64)
        verdicts = daemon.pipeline.process(batch.memory, batch.offsets, batch.lengths, np.array([64]), PORT, 0)
        return Reason(int(verdicts.reason[0])), Ether(Batch(batch.memory, verdicts.offsets, verdicts.lengths).frame(0))

    opened, frame = fate("g0", "st0", TCP(sport=999, dport=4420), red)
    assert opened is Reason.FORWARDED
    assert (frame.src, frame.dst, frame[Dot1Q].vlan) == (places[gateway].mac, places["st0"].mac, red)
    answered, frame = fate("st0", "g0", TCP(sport=4420, dport=999), red)
    assert answered is Reason.FORWARDED
    assert frame.dst == places["g0"].mac
    assert fate("g0", "st0", TCP(sport=999, dport=22), red)[0] is Reason.DENIED
    assert fate("g0", "st0", UDP(sport=999, dport=4420), red)[0] is Reason.DENIED
    assert fate("g2", "st0", TCP(sport=999, dport=4420), red)[0] is Reason.SPOOFED
    assert fate("g0", "st0", TCP(sport=999, dport=4420), blue)[0] is Reason.NO_TENANT
    assert fate("st0", "g0", TCP(sport=999, dport=4420), red)[0] is Reason.DENIED
