"""Who refers to whom, kept beside the resources so that a check looks at a few of them instead of at all.

An index is a set of *facts*: within a relation, a subject has items. Every resource states its facts, so a change
takes away those of the old resource and adds those of the new one, and copies only the dictionaries in between.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from controller.tenancy.kinds import Key, Kind, Resource
from controller.tenancy.model import Endpoint, Policy, StorageService, Vpc, VpcNode


class Relation(Enum):
    """What the items of a subject are."""

    MEMBERS = auto()
    """VPC: its nodes by host name."""
    GATES = auto()
    """VPC: its endpoints by name."""
    POLICIES = auto()
    """Kind and name of a tenant or VPC: the policies for it by name."""
    VPCS = auto()
    """Tenant: its VPCs by name."""
    HOMES = auto()
    """Host: the VPC that has it."""
    PLACES = auto()
    """VPC and address: the host that has it."""
    SEGMENTS = auto()
    """Segment: the VPC that has it."""
    USERS = auto()
    """Service: the endpoints for it by VPC and name."""
    OFFERS = auto()
    """Host: the services on it by name."""
    SOCKETS = auto()
    """Host and port: the service there."""
    GRANTS = auto()
    """VPC: the services that name it as one of those that may use them."""


Fact = tuple[Relation, Hashable, Hashable, object]
_Facts = Mapping[Relation, Mapping[Hashable, Mapping[Hashable, Any]]]


def facts(key: Key, resource: Resource) -> Iterator[Fact]:
    """What a resource says about others."""
    if isinstance(resource, Vpc):
        yield Relation.VPCS, resource.tenant, key[0], resource
        yield Relation.SEGMENTS, resource.segment, key[0], resource
    elif isinstance(resource, VpcNode):
        vpc, host = key
        yield Relation.MEMBERS, vpc, host, resource
        yield Relation.HOMES, host, vpc, resource
        yield Relation.PLACES, (vpc, resource.ip), host, resource
    elif isinstance(resource, Endpoint):
        vpc, name = key
        yield Relation.GATES, vpc, name, resource
        yield Relation.USERS, resource.service, (vpc, name), resource
    elif isinstance(resource, StorageService):
        yield Relation.OFFERS, resource.node, key[0], resource
        yield Relation.SOCKETS, (resource.node, resource.port), key[0], resource
        for vpc in resource.vpcs or ():
            yield Relation.GRANTS, vpc, key[0], resource
    elif isinstance(resource, Policy):
        yield Relation.POLICIES, scope(resource), key[0], resource


def scope(policy: Policy) -> tuple[Kind, str]:
    """The tenant or VPC that a policy is for."""
    return (Kind.TENANTS, policy.tenant) if policy.tenant is not None else (Kind.VPCS, policy.vpc or "")


@dataclass(frozen=True)
class Index:
    """All facts of one state."""

    _relations: _Facts = field(default_factory=dict)

    @classmethod
    def build(cls, resources: Iterable[tuple[Key, Resource]]) -> Index:
        """The index of many resources at once."""
        relations: dict[Relation, dict[Hashable, dict[Hashable, Any]]] = {}
        for key, resource in resources:
            for relation, subject, item, value in facts(key, resource):
                relations.setdefault(relation, {}).setdefault(subject, {})[item] = value
        return cls(relations)

    def of(self, relation: Relation, subject: Hashable) -> Mapping[Any, Any]:
        """The items of a subject."""
        return self._relations.get(relation, {}).get(subject, {})

    def changed(self, key: Key, old: Resource | None, new: Resource | None) -> Index:
        """The index after one resource came, changed or went."""
        relations = dict(self._relations)
        fresh: set[Relation] = set()

        def subjects(relation: Relation) -> dict[Hashable, Mapping[Hashable, Any]]:
            if relation not in fresh:
                fresh.add(relation)
                relations[relation] = dict(relations.get(relation, {}))
            return relations[relation]  # type: ignore[return-value]  # the copy just made is a dict

        for relation, subject, item, _ in facts(key, old) if old else ():
            items = dict(subjects(relation)[subject])
            items.pop(item, None)
            subjects(relation)[subject] = items
            if not items:
                del subjects(relation)[subject]
        for relation, subject, item, value in facts(key, new) if new else ():
            subjects(relation)[subject] = {**subjects(relation).get(subject, {}), item: value}
        return Index({relation: items for relation, items in relations.items() if items})
