"""Pages of collections: an opaque cursor names the last item seen, so what changes meanwhile moves no other item."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from controller.rest.http import Problem, Request, Response
from controller.rest.parameters import Integer, Text

MOST_LISTED = 1000
LIMIT = Integer("limit", "How many items at most.", lowest=1, highest=MOST_LISTED, default=100)
_CURSOR = re.compile(r"([A-Za-z0-9_-]{4})*([A-Za-z0-9_-]{2,3})?", re.ASCII)


@dataclass(frozen=True)
class Cursor(Text):
    """Where a page begins."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of its values."""
        return {"type": "string", "minLength": 2, "pattern": f"^{_CURSOR.pattern}$"}


AFTER = Cursor("after", "Continues after an earlier page: take the address under `next` as it is.")


def cursor(name: str) -> str:
    """The cursor after an item."""
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def read_cursor(request: Request) -> str | None:
    """The item after which a page begins, or None: the first page.

    Raises:
        Problem: The cursor is none.
    """
    text = request.query.get(AFTER.name)
    if text is None:
        return None
    if not text or not _CURSOR.fullmatch(text):
        raise Problem(400, "after is the cursor of an earlier page, not anything else", parameter=AFTER.name)
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode(errors="replace")


def read_limit(request: Request) -> int:
    """How many items a page has at most."""
    return LIMIT.read(request) or MOST_LISTED


def next_url(request: Request, after: str) -> str:
    """The address of the next page."""
    return f"{request.path}?{urlencode({**request.query, AFTER.name: after})}"


def linked(response: Response, url: str | None) -> Response:
    """A page with a link to the next one (RFC 8288)."""
    return response if url is None else response.with_headers(Link=f'<{url}>; rel="next"')
