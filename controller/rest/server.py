"""HTTP/1.1 on a green socket, around the standard library's request parser; every error has a problem body."""

from __future__ import annotations

import logging
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from controller.green import eventlet
from controller.rest.api import Api
from controller.rest.http import (
    MAX_BODY_BYTES,
    MAX_HEADERS_BYTES,
    MAX_TARGET_BYTES,
    Problem,
    Response,
    problem_response,
)

LOG = logging.getLogger("controller.rest")
MOST_CONNECTIONS = 512
IDLE_TIMEOUT_S = 75.0
_ACCEPT_PAUSE_S = 0.1


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_TIMEOUT_S
    wbufsize = -1
    api: Api

    def handle_any(self) -> None:
        """Check sizes, read what body there is, answer."""
        problem = self._oversized()
        if problem is not None:
            self.close_connection = True
            self._send(problem_response(problem, self.path[:200]))
            return
        length = int(self.headers.get("Content-Length") or 0)
        if length and len(self.rfile.read(length)) < length:
            self.close_connection = True
            return
        self._send(self.api.answer(self.command, self.path))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_any  # noqa: N815

    def _oversized(self) -> Problem | None:
        if len(self.path) > MAX_TARGET_BYTES:
            return Problem(414, f"the request target has {len(self.path)} bytes, at most {MAX_TARGET_BYTES} are taken")
        size = sum(len(name) + len(value) + 4 for name, value in self.headers.items())
        if size > MAX_HEADERS_BYTES:
            return Problem(431, f"the headers have {size} bytes, at most {MAX_HEADERS_BYTES} are taken")
        if "Transfer-Encoding" in self.headers:
            return Problem(411, "a body needs a Content-Length")
        lengths = set(self.headers.get_all("Content-Length", ["0"]))
        text = lengths.pop()
        if lengths or not (text.isascii() and text.isdigit()):
            return Problem(400, "the Content-Length is not a number")
        if len(text) > 18 or int(text) > MAX_BODY_BYTES:
            return Problem(413, f"a body of {text[:40]} bytes is too large, at most {MAX_BODY_BYTES} are taken")
        return None

    def _send(self, response: Response) -> None:
        if self.request_version == "HTTP/0.9":
            self.request_version = "HTTP/1.0"  # the base class would leave the head out
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the standard library's parser refuses."""
        self.close_connection = True
        if not hasattr(self, "path"):
            self.path = "*"
        detail = explain or message or HTTPStatus(code).phrase
        if code == HTTPStatus.NOT_IMPLEMENTED:
            detail = "this method is not known here"
        self._send(problem_response(Problem(code, detail[:200]), self.path[:200]))

    def version_string(self) -> str:
        """What the Server header says."""
        return "icgw"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Requests are worth a line only when one looks closely."""
        LOG.debug("%s: " + format, self.client_address[0], *args)


def serve(api: Api, sock: Any) -> None:
    """Answer requests on a listening green socket, for ever."""
    handler = type("Handler", (_Handler,), {"api": api})
    pool = eventlet.GreenPool(MOST_CONNECTIONS)
    while True:
        try:
            connection, address = sock.accept()
        except OSError as error:  # out of file descriptors, or the other side left already
            LOG.warning("cannot accept a REST connection: %s", error.strerror)
            eventlet.sleep(_ACCEPT_PAUSE_S)
            continue
        pool.spawn_n(_attend, handler, connection, address)


def _attend(handler: type[_Handler], connection: Any, address: Any) -> None:
    try:
        handler(connection, address, None)  # type: ignore[arg-type]  # no socketserver around it
    except OSError as error:
        LOG.debug("REST connection from %s ended: %s", address[0], error)
    except Exception as error:  # noqa: BLE001 - one connection must not end the others
        LOG.error("REST connection from %s failed: %s: %s", address[0], type(error).__name__, error)
    finally:
        connection.close()
