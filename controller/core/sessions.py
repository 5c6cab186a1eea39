"""The sessions of a fabric's switches."""

from __future__ import annotations

from collections.abc import Callable

from controller.core.session import SwitchSession
from controller.designs import Plan
from emulator.model.fabric import Fabric


def sessions_of(plan: Plan, new_token: Callable[[], int]) -> dict[int, SwitchSession]:
    """One session per switch, by datapath id, in the fabric's order.

    Args:
        plan: What the switches should hold.
        new_token: Numbers commands.
    """
    return {
        node.dpid: SwitchSession(
            node.dpid, node.name, plan.program_of(node.dpid), _expected_ports(plan.fabric, node.name), new_token
        )
        for node in plan.fabric.switches
        if node.dpid is not None
    }


def _expected_ports(fabric: Fabric, switch: str) -> dict[int, str]:
    ports: dict[int, str] = {}
    for link in fabric.links_of(switch):
        here = link.a == switch
        ports[link.a_port if here else link.b_port] = link.a_interface if here else link.b_interface
    return dict(sorted(ports.items()))
