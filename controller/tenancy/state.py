"""All declared resources together, as one immutable value, and the changes that lead from one to the next. Pure.

A change is checked against the whole state: what it leads to has no problem (`controller.tenancy.invariants` says what
that means), or it is refused. Every change has a number, and a resource's version is the number of the change that
wrote it, so a version never comes back, not even after the resource was deleted and made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from controller.tenancy.checks import Limits, check_delete, check_put
from controller.tenancy.ground import Ground
from controller.tenancy.index import Index, Relation
from controller.tenancy.kinds import Key, Kind, Resource, title
from controller.tenancy.model import Endpoint, Policy, StorageService, Tenant, Vpc, VpcNode
from controller.tenancy.refusals import Refused, Why

DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Change:
    """What a change led to.

    Attributes:
        state: The next state; the same one if nothing changed.
        version: The resource's version.
        created: Whether the resource is new.
        resource: The resource as declared, with what was chosen for it.
    """

    state: TenancyState
    version: int
    created: bool
    resource: Resource


@dataclass(frozen=True)
class TenancyState:
    """What tenants and the operator have declared.

    Attributes:
        tenants, vpcs, services, policies: By name.
        nodes: By VPC and host.
        endpoints: By VPC and name.
        versions: Version of every resource, by kind and key.
        change: Number of the last change.
        index: Who refers to whom.
    """

    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    vpcs: Mapping[str, Vpc] = field(default_factory=dict)
    nodes: Mapping[tuple[str, str], VpcNode] = field(default_factory=dict)
    services: Mapping[str, StorageService] = field(default_factory=dict)
    endpoints: Mapping[tuple[str, str], Endpoint] = field(default_factory=dict)
    policies: Mapping[str, Policy] = field(default_factory=dict)
    versions: Mapping[tuple[Kind, Key], int] = field(default_factory=dict)
    change: int = 0
    index: Index = field(default_factory=Index)

    @classmethod
    def build(cls, entries: Iterable[tuple[Kind, Key, int, Resource]], change: int) -> TenancyState:
        """The state with these resources and versions, unchecked."""
        tables: dict[Kind, dict[object, Resource]] = {kind: {} for kind in Kind}
        versions: dict[tuple[Kind, Key], int] = {}
        listed = list(entries)
        for kind, key, version, resource in listed:
            tables[kind][_plain(key)] = resource
            versions[kind, key] = version
        index = Index.build((key, resource) for _, key, _, resource in listed)
        named = {kind.value: table for kind, table in tables.items()}
        return cls(**cast(dict[str, Any], named), versions=versions, change=change, index=index)

    def entries(self) -> Iterator[tuple[Kind, Key, int, Resource]]:
        """Every resource with its version."""
        for (kind, key), version in self.versions.items():
            yield kind, key, version, self.table(kind)[_plain(key)]

    def table(self, kind: Kind) -> Mapping[Any, Resource]:
        """The resources of one kind, by name, or by VPC and name."""
        return cast(Mapping[Any, Resource], getattr(self, kind.value))

    def find(self, kind: Kind, key: Key) -> Resource | None:
        """A resource, or None."""
        return self.table(kind).get(_plain(key))

    def get(self, kind: Kind, key: Key) -> Resource:
        """A resource.

        Raises:
            Refused: It does not exist.
        """
        found = self.find(kind, key)
        if found is None:
            raise Refused(Why.ABSENT, f"there is no {title(kind, key)}")
        return found

    def members(self, vpc: str) -> Mapping[str, VpcNode]:
        """A VPC's nodes by host."""
        return self.index.of(Relation.MEMBERS, vpc)

    def gates(self, vpc: str) -> Mapping[str, Endpoint]:
        """A VPC's endpoints by name."""
        return self.index.of(Relation.GATES, vpc)

    def policies_for(self, vpc: str) -> dict[str, Policy]:
        """The policies that apply in a VPC, by name: its own and its tenant's."""
        own = self.index.of(Relation.POLICIES, (Kind.VPCS, vpc))
        return {**self.index.of(Relation.POLICIES, (Kind.TENANTS, self.vpcs[vpc].tenant)), **own}

    def home(self, host: str) -> str | None:
        """The VPC that has a host, or None."""
        return next(iter(self.index.of(Relation.HOMES, host)), None)

    def put(
        self,
        kind: Kind,
        key: Key,
        resource: Resource,
        ground: Ground,
        *,
        if_match: int | None = None,
        if_none_match: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Change:
        """Declare a resource, new or instead of the one with the same key.

        Args:
            kind: Its kind.
            key: Its proper key, see `controller.tenancy.kinds.check_key`.
            resource: As wanted. A VPC without a segment keeps the one it has, or gets the lowest that is free.
            ground: The fabric.
            if_match: Only if the resource exists and has this version.
            if_none_match: Only if the resource does not exist.
            limits: How many resources there may be.

        Raises:
            Refused: The state would not be valid, or it is not the one that the caller knows.
        """
        old = self.find(kind, key)
        self._check_version(kind, key, if_match)
        if if_none_match and old is not None:
            raise Refused(Why.STALE, f"{title(kind, key)} exists already")
        new = check_put(self, kind, key, resource, ground, limits)
        if new == old:
            return Change(self, self.versions[kind, key], False, new)
        state = self._with(kind, key, old, new)
        return Change(state, state.change, old is None, new)

    def delete(self, kind: Kind, key: Key, *, if_match: int | None = None) -> TenancyState:
        """Take a resource away.

        Raises:
            Refused: It does not exist, has another version, or is in use.
        """
        old = self.get(kind, key)
        self._check_version(kind, key, if_match)
        check_delete(self, kind, key)
        return self._with(kind, key, old, None)

    def _check_version(self, kind: Kind, key: Key, if_match: int | None) -> None:
        if if_match is None:
            return
        version = self.versions.get((kind, key))
        if version is None:
            raise Refused(Why.STALE, f"there is no {title(kind, key)}, so it does not have version {if_match}")
        if version != if_match:
            raise Refused(Why.STALE, f"{title(kind, key)} has version {version}, not {if_match}")

    def _with(self, kind: Kind, key: Key, old: Resource | None, new: Resource | None) -> TenancyState:
        table = dict(self.table(kind))
        versions = dict(self.versions)
        change = self.change + 1
        if new is None:
            del table[_plain(key)], versions[kind, key]
        else:
            table[_plain(key)] = new
            versions[kind, key] = change
        tables: dict[str, Any] = {other.value: self.table(other) for other in Kind}
        tables[kind.value] = table
        index = self.index.changed(key, old, new)
        return TenancyState(**tables, versions=versions, change=change, index=index)


def _plain(key: Key) -> object:
    return key[0] if len(key) == 1 else key
