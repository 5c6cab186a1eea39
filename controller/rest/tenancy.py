"""Tenants, VPCs, nodes, endpoints, services and policies: created, read, replaced and deleted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from controller.rest.backend import Backend
from controller.rest.etags import (
    IF_MATCH,
    IF_NONE_MATCH_READ,
    IF_NONE_MATCH_WRITE,
    etag,
    fresh,
    not_modified,
    required_version,
)
from controller.rest.http import Problem, Request, Response, json_response
from controller.rest.paging import AFTER, LIMIT, cursor, linked, next_url, read_cursor, read_limit
from controller.rest.routes import Route, Success
from controller.rest.schemas import tenancy as schemas
from controller.rest.validation import pointer, read_json, unprocessable, validated
from controller.tenancy.kinds import Key, Kind, check_key, dump
from controller.tenancy.refusals import Refused, Why
from controller.tenancy.store import Store, Stored

NO_STORE = "there are no tenants here: the controller was started without --store, and all hosts may talk"
_STATUS: Mapping[Why, int] = {
    Why.INVALID: 422,
    Why.MISSING: 409,
    Why.CONFLICT: 409,
    Why.STALE: 412,
    Why.ABSENT: 404,
    Why.FULL: 409,
}
_FIELD = re.compile(r"[^.\[\]]+")
_KEY = "name"
"""What refusals call a resource's key, which stands in the address and not in the body."""
_ETAG = {"ETag": "The resource's version."}
_WHERE: Mapping[Kind, tuple[str, str, type[BaseModel]]] = {
    Kind.TENANTS: ("/v1/tenants", "name", schemas.Tenants),
    Kind.VPCS: ("/v1/vpcs", "name", schemas.Vpcs),
    Kind.NODES: ("/v1/vpcs/{vpc}/nodes", "node", schemas.VpcNodes),
    Kind.ENDPOINTS: ("/v1/vpcs/{vpc}/endpoints", "name", schemas.Endpoints),
    Kind.SERVICES: ("/v1/services", "name", schemas.Services),
    Kind.POLICIES: ("/v1/policies", "name", schemas.Policies),
}


class TenancyResources:
    """All kinds of resources."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [route for kind in Kind for route in _Collection(self._backend, kind).routes()]


@dataclass(frozen=True)
class _Collection:
    """The resources of one kind."""

    backend: Backend
    kind: Kind

    def routes(self) -> list[Route]:
        """What is answered here."""
        path, variable, page = _WHERE[self.kind]
        noun, model = self.kind.noun, self.kind.model
        item, tag = f"{path}/{{{variable}}}", "tenants"
        article = "an" if noun[0] in "aeiou" else "a"
        inside = (404,) if self.kind.within_vpc else ()
        stored = Success(f"The {noun}.", model, headers=_ETAG)
        return [
            Route("GET", path, self.list, f"A page of {self.kind.value}", tag,
                  {200: Success("The page.", page, headers={"Link": "The next page, if there is one."})},
                  parameters=(LIMIT, AFTER), problems=(409, *inside)),
            Route("GET", item, self.get, f"Read {article} {noun}", tag,
                  {200: stored, 304: Success("The client has this version.", headers=_ETAG)},
                  parameters=(IF_NONE_MATCH_READ,), problems=(404, 409)),
            Route("PUT", item, self.put, f"Create or replace {article} {noun}", tag,
                  {200: Success(f"The {noun} as it is stored now.", model, headers=_ETAG),
                   201: Success(f"The {noun} was created.", model, headers=_ETAG | {"Location": "Its address."})},
                  parameters=(IF_MATCH, IF_NONE_MATCH_WRITE), body=model, writes=True,
                  problems=(409, 412, 413, 415, 422, 428, 503, *inside),
                  description="Replacing demands `If-Match` with the ETag of the version to be replaced. "
                              "Sending what is stored already changes nothing and demands nothing."),
            Route("DELETE", item, self.delete, f"Delete {article} {noun}", tag,
                  {204: Success(f"The {noun} is gone.")},
                  parameters=(IF_MATCH,), writes=True, problems=(404, 409, 412, 503)),
        ]  # fmt: skip

    def list(self, request: Request, vpc: str | None = None) -> Response:
        """A page of the collection."""
        limit, after = read_limit(request), read_cursor(request)
        store = self._store()
        if vpc is not None:
            self._key(vpc, "x")
        try:
            page = store.list(self.kind, vpc, after, limit)
        except Refused as error:
            raise refusal(error) from None
        path, _, model = _WHERE[self.kind]
        base = path.replace("{vpc}", vpc or "")
        items = [
            {
                "name": one.key[-1],
                "version": one.version,
                "url": f"{base}/{one.key[-1]}",
                "resource": dump(one.resource),
            }
            for one in page.items
        ]
        url = next_url(request, cursor(page.after)) if page.after is not None else None
        return linked(json_response(model(items=items, next=url)), url)

    def get(self, request: Request, **variables: str) -> Response:
        """One resource."""
        key = self._key(*variables.values())
        condition = IF_NONE_MATCH_READ.read(request)
        stored = self._get(self._store(), key)
        if condition is not None and fresh(request, stored.version):
            return not_modified(stored.version)
        return self._answer(stored)

    def put(self, request: Request, **variables: str) -> Response:
        """Create or replace a resource."""
        key = self._key(*variables.values())
        store = self._store()
        data = read_json(request)
        resource = validated(self.kind.model, data)
        only_create = IF_NONE_MATCH_WRITE.read(request)
        current = store.state.versions.get((self.kind, key))
        expected = required_version(request, current)
        if current is not None and only_create is not None and (only_create.anything or current in only_create.weak):
            raise Problem(412, f"the {self.kind.noun} exists already", {"ETag": etag(current)})
        try:
            if current is not None and expected is None:
                change = store.state.put(self.kind, key, resource, self.backend.ground)
                if change.state is not store.state:
                    raise Problem(
                        428,
                        f"the {self.kind.noun} exists: replacing it demands If-Match with its ETag {etag(current)}",
                        {"ETag": etag(current)},
                    )
            stored = store.put(self.kind, key, data, if_match=expected, if_none_match=current is None)
        except Refused as error:
            raise refusal(error) from None
        answer = self._answer(stored)
        if not stored.created:
            return answer
        return Response(201, answer.body, headers={**answer.headers, "Location": request.path})

    def delete(self, request: Request, **variables: str) -> Response:
        """Delete a resource."""
        key = self._key(*variables.values())
        store = self._store()
        IF_MATCH.read(request)
        current = self._get(store, key).version
        try:
            store.delete(self.kind, key, if_match=required_version(request, current))
        except Refused as error:
            raise refusal(error) from None
        return Response(204)

    def _get(self, store: Store, key: Key) -> Stored:
        try:
            return store.get(self.kind, key)
        except Refused as error:
            raise refusal(error) from None

    def _store(self) -> Store:
        if self.backend.store is None:
            raise Problem(409, NO_STORE)
        return self.backend.store

    def _key(self, *names: str) -> Key:
        try:
            return check_key(self.kind if len(names) == 1 + self.kind.within_vpc else Kind.NODES, names)
        except Refused as error:
            raise Problem(400, error.detail) from None

    @staticmethod
    def _answer(stored: Stored) -> Response:
        return json_response(dump(stored.resource), headers={"ETag": etag(stored.version)})


def refusal(error: Refused) -> Problem:
    """A refused change as a problem."""
    status = _STATUS[error.why]
    if error.field in (None, _KEY):
        return Problem(status, error.detail)
    return unprocessable([{"pointer": pointer(_FIELD.findall(error.field or "")), "detail": error.detail}], status)
