"""What the tenants' resources stand on: which hosts the fabric has, and which of them may be what."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from emulator.model.fabric import Fabric, Role

MEMBERS = (Role.GPU, Role.COMPUTE, Role.HOST)
"""Roles of hosts that may be in a VPC."""
SERVERS = (Role.STORAGE, Role.HOST)
"""Roles of hosts that may offer services."""


@dataclass(frozen=True)
class Ground:
    """The facts about a fabric that declarations are checked against.

    Attributes:
        roles: Role of every node.
        attached: Hosts behind a switch.
        carriers: Hosts that carry others' traffic in the design, which no tenant may have.
    """

    roles: Mapping[str, Role]
    attached: frozenset[str]
    carriers: frozenset[str]

    @classmethod
    def of(cls, fabric: Fabric, attached: Collection[str], carriers: Collection[str] = ()) -> Ground:
        """The facts about one fabric.

        Args:
            fabric: The network.
            attached: Hosts whose first interface ends at a switch.
            carriers: Hosts that carry others' traffic.
        """
        addressed = {node.name for node in fabric.hosts if node.ip and node.mac}
        return cls(
            {node.name: node.role for node in fabric.nodes},
            frozenset(attached) & addressed,
            frozenset(carriers),
        )

    def against_member(self, name: str) -> str | None:
        """Why a node cannot be in a VPC; None: it can."""
        problem = self._against(name, MEMBERS, "VPCs have")
        if problem is None and name in self.carriers:
            problem = f"{name} carries others' traffic in this design, so no VPC can have it"
        return problem

    def against_server(self, name: str) -> str | None:
        """Why a node cannot offer services; None: it can."""
        problem = self._against(name, SERVERS, "services are offered by")
        if problem is None and name in self.carriers:
            problem = f"{name} carries others' traffic in this design, so it cannot offer services"
        return problem

    def exists(self, name: str) -> bool:
        """Whether there is such a host (switches are none)."""
        return self.roles.get(name, Role.SWITCH) is not Role.SWITCH

    def _against(self, name: str, roles: Collection[Role], verb: str) -> str | None:
        role = self.roles.get(name)
        if role is None:
            return f"there is no host {name} in the fabric"
        if role not in roles:
            *most, last = [role.value for role in roles]
            return f"{name} has the role {role.value}; {verb} hosts of the roles {', '.join(most)} or {last}"
        if name not in self.attached:
            return f"{name} is not attached to a switch"
        return None
