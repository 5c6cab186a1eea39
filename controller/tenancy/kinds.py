"""The kinds of resources: their models, their keys, and reading them from JSON-like data."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from pydantic import ValidationError

from controller.tenancy.model import Endpoint, Policy, StorageService, Tenant, Vpc, VpcNode
from controller.tenancy.refusals import Refused, Why

Resource = Tenant | Vpc | VpcNode | StorageService | Endpoint | Policy
Key = tuple[str, ...]
"""A resource's names: its own, or its VPC's and its own."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?", re.ASCII)
_SHOWN_CHARACTERS = 80


class Kind(str, Enum):
    """What can be declared; the value is its name in URLs."""

    TENANTS = "tenants"
    VPCS = "vpcs"
    NODES = "nodes"
    SERVICES = "services"
    ENDPOINTS = "endpoints"
    POLICIES = "policies"

    @property
    def noun(self) -> str:
        """One of them, in a sentence."""
        return _NOUNS[self]

    @property
    def model(self) -> type[Resource]:
        """The class of its resources."""
        return _MODELS[self]

    @property
    def within_vpc(self) -> bool:
        """Whether its resources are parts of a VPC, so that keys have two names."""
        return self in (Kind.NODES, Kind.ENDPOINTS)


_NOUNS = {
    Kind.TENANTS: "tenant",
    Kind.VPCS: "VPC",
    Kind.NODES: "node",
    Kind.SERVICES: "service",
    Kind.ENDPOINTS: "endpoint",
    Kind.POLICIES: "policy",
}
_MODELS: dict[Kind, type[Resource]] = {
    Kind.TENANTS: Tenant,
    Kind.VPCS: Vpc,
    Kind.NODES: VpcNode,
    Kind.SERVICES: StorageService,
    Kind.ENDPOINTS: Endpoint,
    Kind.POLICIES: Policy,
}


def check_key(kind: Kind, key: Key | str) -> Key:
    """A key in its proper form.

    Raises:
        Refused: It has too few or too many names, or one that is none.
    """
    names = (key,) if isinstance(key, str) else tuple(key)
    if len(names) != 1 + kind.within_vpc:
        form = "the VPC's name and its own" if kind.within_vpc else "one name"
        raise Refused(Why.INVALID, f"the key of a {kind.noun} is {form}", "name")
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Refused(
                Why.INVALID,
                f"{_shown(name)} is not a name: 1 to 64 letters, digits, '.', '_' and '-', "
                "with a letter or digit at both ends",
                "name",
            )
    return names


def title(kind: Kind, key: Key) -> str:
    """A resource in a sentence."""
    return f"{kind.noun} {'/'.join(key)}"


def parse(kind: Kind, body: object) -> Resource:
    """Read a resource from JSON-like data.

    Raises:
        Refused: It does not have the kind's shape; says what is wrong first, and how much more there is.
    """
    if not isinstance(body, dict):
        raise Refused(Why.INVALID, f"a {kind.noun} is an object")
    try:
        return kind.model.model_validate(body)
    except ValidationError as error:
        raise _refusal(error) from None
    except RecursionError:
        raise Refused(Why.INVALID, "nested too deeply") from None


def dump(resource: Resource) -> dict[str, Any]:
    """A resource as JSON-like data, all fields included."""
    return resource.model_dump(mode="json")


def _refusal(error: ValidationError) -> Refused:
    problems = error.errors(include_url=False, include_context=False)
    first = problems[0]
    if first["type"] == "missing":
        reason = "is missing"
    elif first["type"] == "extra_forbidden":
        reason = "is not a field of this resource"
    else:
        reason = first["msg"].removeprefix("Value error, ")
        reason = reason[:1].lower() + reason[1:]
        if not isinstance(first["input"], (dict, list)):
            reason = f"{_shown(first['input'])}: {reason}"
    # A list counts as too short when one of its items is wrong: that is no problem of its own.
    others = sum(first["loc"][: len(problem["loc"])] != problem["loc"] for problem in problems)
    more = f" (and {others} more)" if others else ""
    return Refused(Why.INVALID, f"{reason}{more}", _path(first["loc"]))


def _path(location: tuple[int | str, ...]) -> str | None:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text[:_SHOWN_CHARACTERS] or None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
