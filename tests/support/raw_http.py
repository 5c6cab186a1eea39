"""HTTP by hand: what a well-behaved client would never send."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_S = 30
_CHUNK_BYTES = 65_536


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        status: Its status.
        headers: Names in lower case.
        body: Undecoded.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


def connect(address: str) -> socket.socket:
    """A connection to ``host:port``."""
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def read_all(sock: socket.socket) -> bytes:
    """Everything until the other side closes."""
    received = b""
    with suppress(ConnectionResetError):
        while chunk := sock.recv(_CHUNK_BYTES):
            received += chunk
    return received


def split(received: bytes) -> list[Answer]:
    """All answers of a connection, in order; nothing else may be in between."""
    found: list[Answer] = []
    while received:
        head, blank, rest = received.partition(b"\r\n\r\n")
        assert blank, received[:200]
        first, *lines = head.decode("latin-1").split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1"
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        size = int(headers.get("content-length", "0"))
        assert len(rest) >= size, "an answer is cut off"
        found.append(Answer(int(status), headers, rest[:size]))
        received = rest[size:]
    return found


def exchange(address: str, *pieces: bytes, half_close: bool = False) -> list[Answer]:
    """Send pieces one after the other, and return all answers until the connection is closed."""
    with connect(address) as sock:
        with suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                sock.sendall(piece)
            if half_close:
                sock.shutdown(socket.SHUT_WR)
        return split(read_all(sock))


def request(method: str, target: str, body: bytes = b"", *headers: str, close: bool = True) -> bytes:
    """A proper request."""
    lines = [f"{method} {target} HTTP/1.1", "Host: x", *headers]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + body


def check_problem(answer: Answer, status: int) -> str:
    """RFC 9457: media type, members and status agree; returns the detail."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json
    assert problem["status"] == status
    assert {"type", "title", "detail", "instance"} <= problem.keys()
    assert "Traceback" not in problem["detail"]
    detail: str = problem["detail"]
    return detail


def memory_bytes(pid: int, what: str = "VmRSS") -> int:
    """Resident memory of a process now, or with ``VmHWM`` the most so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {what}")
