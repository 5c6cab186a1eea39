"""A world of tenants on the controller's whole plan: its own steering, paths and groups, link by link."""

from __future__ import annotations

from controller.compose import Composer
from controller.designs import Design
from controller.flowtable import Switch
from controller.frame import Frame
from controller.paths import Spread
from controller.tenancy.site import Site
from controller.tenancy.state import TenancyState
from controller.tenancy.violations import violation_of
from emulator.model.fabric import Fabric
from tests.support.tenancy_world import Arrival, World

_MOST_SWITCHES = 20


def composed_site(composer: Composer) -> Site:
    """The site that a composer compiles for."""
    base = composer.base
    return Site(base.fabric, base.routes.attachments, base.hops, base.via)


class ComposedWorld(World):
    """Switches that hold what the composer says, joined by the fabric's links.

    Args:
        fabric: The network.
        design: How storage traffic travels.
        spread: How packets are spread over equal paths.
        state: What is declared.
        flow_hash: What switches choose among equal paths by.
    """

    def __init__(self, fabric: Fabric, design: Design, spread: Spread, state: TenancyState, flow_hash: int = 0) -> None:
        composer = Composer(fabric, design, spread)
        super().__init__(composed_site(composer), state)
        plan = composer.plan(state)
        self._hash = flow_hash
        self.switches = {
            node.dpid: Switch(
                plan.program_of(node.dpid).rules,
                [group for group in plan.groups if group.dpid == node.dpid],
                [meter for meter in plan.program.meters if meter.dpid == node.dpid],
            )
            for node in fabric.switches
            if node.dpid
        }
        self._peers: dict[tuple[str, int], tuple[str, int]] = {}
        for link in fabric.links:
            self._peers[link.a, link.a_port] = (link.b, link.b_port)
            self._peers[link.b, link.b_port] = (link.a, link.a_port)

    def send(self, host: str, frame: Frame) -> list[Arrival]:
        """One packet from a host, over links and switches, to whichever hosts get it."""
        self.reports = []
        attachment = self.site.attachments[host]
        arrivals: list[Arrival] = []
        waiting = [(attachment.switch, attachment.port, frame)]
        for _ in range(_MOST_SWITCHES):
            if not waiting:
                return arrivals
            name, port, packet = waiting.pop()
            verdict = self.switches[self.site.fabric.by_name[name].dpid or 0].process(packet, port, (), self._hash)
            self.reports += [found for report in verdict.reports if (found := violation_of(report.rule.cookie))]
            for sent in verdict.sent:
                peer, peer_port = self._peers[name, sent.port]
                if self.site.fabric.by_name[peer].is_switch:
                    assert sent.frame.vlan, "a packet crosses the fabric without a segment"
                    waiting.append((peer, peer_port, sent.frame))
                else:
                    arrivals.append(Arrival(peer, sent.frame))
        raise AssertionError("a packet goes round in circles")
