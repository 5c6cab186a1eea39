"""Tenants' resources over REST: conditional requests, pages, problems with pointers; and the other controller."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.rest.api import Api
from controller.rest.backend import Standing
from controller.rest.http import Response
from tests.support.controller_backend import FakeBackend


class Client:
    """Talks to an interface without sockets."""

    def __init__(self, *, store: bool = True) -> None:
        self.backend = FakeBackend(store=store)
        self.api = Api(self.backend)

    def __call__(self, method: str, target: str, body: Any = None, **headers: str) -> Response:
        sent = {name.lower().replace("_", "-"): value for name, value in headers.items()}
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.api.answer(method, target, sent, data)

    def made(self, target: str, body: Any) -> str:
        """Create something and return its ETag."""
        response = self("PUT", target, body)
        assert response.status == 201, response.body
        assert response.headers["Location"] == target
        return response.headers["ETag"]


@pytest.fixture
def client() -> Client:
    return Client()


def detail(response: Response) -> str:
    text: str = json.loads(response.body)["detail"]
    return text


def test_the_life_of_all_kinds(client: Client) -> None:
    """Each kind is created, read, listed and deleted, in the order in which they need each other."""
    bodies = {
        "/v1/tenants/acme": {"description": "first"},
        "/v1/vpcs/blue": {"tenant": "acme", "cidrs": ["10.1.0.0/16"]},
        "/v1/vpcs/blue/nodes/g0": {"ip": "10.1.0.10", "groups": ["trainers"]},
        "/v1/services/volume": {"kind": "block", "node": "st0", "port": 4420},
        "/v1/vpcs/blue/endpoints/disk": {"service": "volume", "ip": "10.1.0.2", "port": 4420},
        "/v1/policies/may": {"vpc": "blue", "action": "allow", "destination": {"endpoints": ["disk"]}},
    }
    for target, body in bodies.items():
        etag = client.made(target, body)
        read = client("GET", target)
        assert (read.status, read.headers["ETag"]) == (200, etag)
        assert json.loads(read.body).items() >= body.items() or target.endswith("may")
        # What was read can be sent as it is, and then nothing changes.
        again = client("PUT", target, json.loads(read.body), If_Match=etag)
        assert (again.status, again.headers["ETag"], again.body) == (200, etag, read.body)
        [item] = json.loads(client("GET", target.rpartition("/")[0]).body)["items"]
        assert item == {
            "name": target.rpartition("/")[2],
            "version": int(etag.strip('"')),
            "url": target,
            "resource": json.loads(read.body),
        }
    answer = client("GET", "/v1/reachability?src=g0&dst=disk")
    assert json.loads(answer.body) | {"reason": "", "translation": None} == {
        "src": "g0", "dst": "disk", "protocol": "tcp", "allowed": True, "reason": "", "policy": "may", "vpc": "blue",
        "translation": None,
    }  # fmt: skip
    in_use = client("DELETE", "/v1/tenants/acme")
    assert (in_use.status, detail(in_use)) == (409, "tenant acme is in use by VPC blue")
    for target in reversed(bodies):
        assert client("DELETE", target).status == 204
        assert client("GET", target).status == 404
        assert client("DELETE", target).status == 404


def test_lost_updates_are_refused(client: Client) -> None:
    """Replacing and deleting with another version than the present one changes nothing."""
    target = "/v1/tenants/acme"
    first = client.made(target, {"description": "one"})
    blind = client("PUT", target, {"description": "two"})
    assert (blind.status, blind.headers["ETag"]) == (428, first)
    second = client("PUT", target, {"description": "two"}, If_Match=first)
    assert second.status == 200
    assert second.headers["ETag"] != first
    assert "Location" not in second.headers
    for condition in (first, '"99"', 'W/"2"', "nonsense", "", '"2'[:1]):
        stale = client("PUT", target, {"description": "three"}, If_Match=condition)
        assert stale.status == 412, condition
        assert client("DELETE", target, If_Match=condition).status == 412
    assert json.loads(client("GET", target).body) == {"description": "two"}
    several = client("PUT", target, {"description": "four"}, If_Match=f'"7", {second.headers["ETag"]}')
    assert several.status == 200
    assert client("PUT", target, {"description": "five"}, If_Match="*").status == 200
    assert client("DELETE", target, If_Match="*").status == 204
    assert client("PUT", target, {}, If_Match="*").status == 412
    # A version never comes back, so an old ETag does not fit a new resource of the same name.
    assert client.made(target, {"description": "one"}) != first


def test_retrying_a_creation_is_harmless(client: Client) -> None:
    """A client whose answer was lost sends the same again."""
    etag = client.made("/v1/tenants/acme", {"description": "one"})
    again = client("PUT", "/v1/tenants/acme", {"description": "one"})
    assert (again.status, again.headers["ETag"]) == (200, etag)


def test_creating_only(client: Client) -> None:
    """If-None-Match: * never replaces."""
    assert client("PUT", "/v1/tenants/acme", {}, If_None_Match="*").status == 201
    assert client("PUT", "/v1/tenants/acme", {}, If_None_Match="*").status == 412


def test_unchanged_resources_are_not_sent_again(client: Client) -> None:
    """If-None-Match compares weakly, with any of several tags."""
    etag = client.made("/v1/tenants/acme", {})
    for condition in (etag, f"W/{etag}", f'"77", {etag}', "*"):
        response = client("GET", "/v1/tenants/acme", If_None_Match=condition)
        assert (response.status, response.body, response.headers["ETag"]) == (304, b"", etag)
    assert client("GET", "/v1/tenants/acme", If_None_Match='"77"').status == 200


@pytest.mark.parametrize(
    ("target", "body", "status", "errors"),
    [
        (
            "/v1/vpcs/v",
            {"tenant": 5, "cidrs": ["10.0.0.0/8", "10.0.0.1/8", 7], "segmnet": 3, "segment": 1},
            422,
            {
                "#/tenant": "is a text, not 5",
                "#/cidrs/1": "is an IPv4 range with no bits beyond its prefix, like 10.0.0.0/8, not '10.0.0.1/8'",
                "#/cidrs/2": "an address range is text with a prefix length, like '10.0.0.0/8'",
                "#/segmnet": "is not a member of this object",
                "#/segment": "is at least 2, not 1",
            },
        ),
        ("/v1/vpcs/v", {}, 422, {"#/tenant": "is missing", "#/cidrs": "is missing"}),
        ("/v1/vpcs/v", [], 422, {"#": "is an object, not a list"}),
        ("/v1/vpcs/v", {"tenant": "t", "cidrs": []}, 422, {"#/cidrs": "has at least 1 item"}),
        ("/v1/vpcs/v", {"tenant": "t" * 65, "cidrs": ["10.0.0.0/8"]}, 422, {"#/tenant": None}),
        ("/v1/vpcs/v", {"tenant": "t", "cidrs": ["10.0.0.0/8"], "a/b~é": 1}, 422, {"#/a~1b~0%C3%A9": None}),
        ("/v1/vpcs/v", {"tenant": "nobody", "cidrs": ["10.0.0.0/8"]}, 409, {"#/tenant": None}),
        (
            "/v1/services/s",
            {"kind": "tape", "node": "st0", "port": True},
            422,
            {"#/kind": "is block, file or object, not 'tape'", "#/port": "is a whole number, not true"},
        ),
        ("/v1/services/s", {"kind": "block", "node": "g0", "port": 1}, 409, {"#/node": None}),
        ("/v1/policies/p", {"action": "allow"}, 422, {"#": "a policy names either a tenant or a vpc"}),
        (
            "/v1/policies/p",
            {"vpc": "v", "action": "allow", "protocol": "tcp", "ports": [{"first": 5, "last": 4}, {"first": 0}]},
            422,
            {
                "#/ports/0": "the port range starts with 5 and ends with 4",
                "#/ports/1/first": "is at least 1, not 0",
                "#/ports/1/last": "is missing",
            },
        ),
        ("/v1/tenants/t", {"description": "x" * 501}, 422, {"#/description": None}),
    ],
)
def test_all_that_is_wrong_is_listed(
    client: Client, target: str, body: Any, status: int, errors: dict[str, str | None]
) -> None:
    """Each error has a JSON pointer and says what would be right, in words that do not know Python."""
    response = client("PUT", target, body)
    assert response.status == status, response.body
    problem = json.loads(response.body)
    found = {error["pointer"]: error["detail"] for error in problem["errors"]}
    assert set(found) == set(errors)
    for place, words in errors.items():
        assert words is None or found[place] == words
        for strange in ("Input", "pydantic", "dictionary", "instance of", "Extra", "tuple", "Value error"):
            assert strange not in found[place]
    assert client("GET", target).status == 404


@pytest.mark.parametrize(
    ("method", "target", "body", "headers", "status", "words"),
    [
        ("PUT", "/v1/tenants/a%2Fb", {}, {}, 400, "is not a name"),
        ("PUT", "/v1/tenants/-a", {}, {}, 400, "is not a name"),
        ("GET", "/v1/tenants/..", None, {}, 400, "is not a name"),
        ("GET", "/v1/tenants/a%00", None, {}, 400, "is not a name"),
        ("PUT", "/v1/tenants/a%0A", {}, {}, 400, "is not a name"),
        ("GET", "/v1/vpcs//nodes", None, {}, 404, "no resource"),
        ("GET", "/v1/vpcs/none/nodes", None, {}, 404, "no VPC none"),
        ("PUT", "/v1/vpcs/none/nodes/g0", {"ip": "10.0.0.1"}, {}, 404, "no VPC none"),
        ("PUT", "/v1/tenants/a", b"", {}, 400, "the body is empty"),
        ("PUT", "/v1/tenants/a", {}, {"Content_Type": "text/plain"}, 415, "curl: --json"),
        ("PUT", "/v1/tenants/a", {}, {"Content_Type": "application/json; charset=utf-8"}, 201, None),
        ("DELETE", "/v1/tenants/a", {}, {}, 400, "takes no body"),
        ("GET", "/v1/tenants?after=", None, {}, 400, "after is the cursor"),
        ("GET", "/v1/tenants?after=%25", None, {}, 400, "after is the cursor"),
        ("GET", "/v1/tenants?limit=1001", None, {}, 400, "from 1 to 1000"),
        ("PUT", "/v1/tenants/a?force=1", {}, {}, 400, "unknown parameter 'force'"),
    ],
)
def test_other_mistakes(
    client: Client, method: str, target: str, body: Any, headers: dict[str, str], status: int, words: str | None
) -> None:
    """Names, bodies, media types and parameters."""
    response = client(method, target, body, **headers)
    assert response.status == status, response.body
    assert words is None or words in detail(response)


def test_pages_do_not_depend_on_what_changes_meanwhile(client: Client) -> None:
    """What is there all the time is seen exactly once, though others come and go between the pages."""
    kept = [f"t{number:02}" for number in range(0, 40, 2)]
    for name in kept:
        client.made(f"/v1/tenants/{name}", {})
    seen: list[str] = []
    url, number = "/v1/tenants?limit=3", 1
    while url:
        response = client("GET", url)
        page = json.loads(response.body)
        assert len(page["items"]) <= 3
        seen += [item["name"] for item in page["items"]]
        url = page["next"]
        assert response.headers.get("Link") == (f'<{url}>; rel="next"' if url else None)
        client.made(f"/v1/tenants/t{number:02}", {})
        client.made(f"/v1/tenants/a{number:02}", {})
        if number > 2:
            client("DELETE", f"/v1/tenants/a{number - 2:02}")
        number += 2
    assert [name for name in seen if name in kept] == kept
    assert len(set(seen)) == len(seen)
    assert not [name for name in seen if name.startswith("a")]  # before where the pages were


def test_a_standby_reads_and_does_not_write(client: Client) -> None:
    """The one that is active is named; reading is possible everywhere."""
    client.made("/v1/tenants/acme", {})
    client.backend.place = Standing(active=False, name="two", holder="one")
    for method, target in (
        ("PUT", "/v1/tenants/b"),
        ("DELETE", "/v1/tenants/acme"),
        ("POST", "/stats/flowentry/add"),
        ("DELETE", "/stats/flowentry/clear/1"),
    ):
        response = client(method, target, {} if method != "DELETE" else None)
        assert response.status == 503
        assert json.loads(response.body)["active"] == "one"
        assert response.headers["Retry-After"] == "1"
    assert client("GET", "/v1/tenants/acme").status == 200
    assert client("POST", "/stats/flow/1", {}).status == 200
    assert json.loads(client("GET", "/v1/health").body)["controller"] == {
        "name": "two",
        "active": False,
        "holder": "one",
    }


def test_without_a_store() -> None:
    """All kinds answer the same: what is missing, and how to get it."""
    client = Client(store=False)
    for target in ("/v1/tenants", "/v1/vpcs/v", "/v1/vpcs/v/nodes", "/v1/policies/p", "/v1/services"):
        assert detail(client("GET", target)) == detail(client("GET", "/v1/reachability?src=g0&dst=g1"))
    assert client("PUT", "/v1/tenants/a", {}).status == 409
    assert json.loads(client("GET", "/v1/health").body)["mode"] == "open"


_SHARED = Client()
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_FIELDS = ("tenant", "vpc", "cidrs", "segment", "ip", "groups", "kind", "node", "port", "vpcs", "service", "action")


@settings(max_examples=150)
@given(
    st.sampled_from(["tenants", "vpcs", "vpcs/v/nodes", "vpcs/v/endpoints", "services", "policies"]),
    _JSON | st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=6),
)
def test_no_body_breaks_the_interface(kind: str, body: Any) -> None:
    """Whatever JSON-like a body is, the answer is a problem or a resource, and never an internal error."""
    response = _SHARED("PUT", f"/v1/{kind}/x", json.dumps(body).encode())
    assert response.status in (200, 201, 400, 404, 409, 422, 428), response.body
    json.loads(response.body)
    if response.status == 422:
        assert json.loads(response.body)["errors"]
