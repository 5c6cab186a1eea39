"""Groups that policies name. They exist by the nodes that are in them, so a policy may come before its nodes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from controller.tenancy.index import Relation
from controller.tenancy.model import Policy
from controller.tenancy.state import TenancyState
from controller.tenancy.verdicts import in_order

_MOST_NAMED = 3


def unfilled(state: TenancyState, policy: Policy) -> list[str]:
    """The groups that a policy names and nobody is in, in none of the VPCs where it applies."""
    vpcs = (policy.vpc,) if policy.vpc is not None else state.index.of(Relation.VPCS, policy.tenant)
    return _without(state, policy, vpcs)


def unfilled_in(state: TenancyState, policy: Policy, vpc: str) -> list[str]:
    """The groups that a policy names and no node of a VPC is in."""
    return _without(state, policy, (vpc,))


class Ordered:
    """A VPC's policies in the order in which they decide.

    Attributes:
        policies: With their names.
    """

    def __init__(self, state: TenancyState, vpc: str) -> None:
        self._state = state
        self._vpc = vpc
        self.policies = in_order(state.policies_for(vpc))

    @cached_property
    def silence(self) -> str:
        """What to say if none applies; it names those that were perhaps meant to, but are for groups without nodes."""
        reason = f"No policy of VPC {self._vpc} or its tenant allows it."
        hopes = [
            f"policy {name} is for {', '.join(groups)}"
            for name, policy in self.policies
            if policy.action == "allow" and (groups := unfilled_in(self._state, policy, self._vpc))
        ]
        if not hopes:
            return reason
        more = f"; and {len(hopes) - _MOST_NAMED} more" if len(hopes) > _MOST_NAMED else ""
        return f"{reason} No node of it is in some groups: {'; '.join(hopes[:_MOST_NAMED])}{more}."


def _without(state: TenancyState, policy: Policy, vpcs: Iterable[str]) -> list[str]:
    named = {*policy.source.groups, *policy.destination.groups}
    for vpc in vpcs if named else ():
        for node in state.members(vpc).values():
            named.difference_update(node.groups)
    return sorted(named)
