"""Answers about declared resources. The resources themselves are in `controller.tenancy.model`."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import Field

from controller.rest.schemas.common import Answer
from controller.tenancy.model import Endpoint, Policy, StorageService, Tenant, Vpc, VpcNode

Kept = TypeVar("Kept")


class Item(Answer, Generic[Kept]):
    """One resource of a collection."""

    name: str
    version: Annotated[int, Field(ge=1, description="What its ETag says.")]
    url: str
    resource: Kept


class Collection(Answer, Generic[Kept]):
    """A page of a collection, by name."""

    items: tuple[Item[Kept], ...]
    next: Annotated[str | None, Field(description="Address of the next page; null: this is the last one.")]


class Tenants(Collection[Tenant]):
    """A page of tenants."""


class Vpcs(Collection[Vpc]):
    """A page of VPCs."""


class VpcNodes(Collection[VpcNode]):
    """A page of a VPC's nodes."""


class Services(Collection[StorageService]):
    """A page of services."""


class Endpoints(Collection[Endpoint]):
    """A page of a VPC's endpoints."""


class Policies(Collection[Policy]):
    """A page of policies."""
