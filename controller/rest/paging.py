"""Pages of collections: an opaque cursor names the last item seen, so what changes meanwhile moves no other item."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import urlencode

from controller.rest.http import Problem, Request, Response
from controller.rest.parameters import Integer, Text

MOST_LISTED = 1000
LIMIT = Integer("limit", "How many items at most.", lowest=1, highest=MOST_LISTED, default=100)
AFTER = Text("after", "Continues after an earlier page: take the address under `next` as it is.")
_PREFIX = "n:"


def cursor(name: str) -> str:
    """The cursor after an item."""
    return base64.urlsafe_b64encode((_PREFIX + name).encode()).decode().rstrip("=")


def read_cursor(request: Request) -> str | None:
    """The item after which a page begins, or None: the first page.

    Raises:
        Problem: The cursor is none of ours.
    """
    text = request.query.get(AFTER.name)
    if text is None:
        return None
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        name = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        name = ""
    if not name.startswith(_PREFIX) or cursor(name.removeprefix(_PREFIX)) != text:
        raise Problem(400, "after is the cursor of an earlier page, not anything else", parameter=AFTER.name)
    return name.removeprefix(_PREFIX)


def read_limit(request: Request) -> int:
    """How many items a page has at most."""
    return LIMIT.read(request) or MOST_LISTED


def next_url(request: Request, after: str) -> str:
    """The address of the next page."""
    return f"{request.path}?{urlencode({**request.query, AFTER.name: after})}"


def linked(response: Response, url: str | None) -> Response:
    """A page with a link to the next one (RFC 8288)."""
    return response if url is None else response.with_headers(Link=f'<{url}>; rel="next"')
