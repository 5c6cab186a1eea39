"""The other end of the control socket: one question, one answer."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from emulator.errors import GatewayError
from gateway.control import VERSION, Op


def request(path: Path, op: Op | str, timeout_s: float | None = 30.0) -> dict[str, Any]:
    """Ask a daemon and return its figures.

    Args:
        path: Its control socket.
        op: ``stats``, ``drain`` or ``stop``; the latter two answer when nothing is held any more.
        timeout_s: How long to wait for the answer; None: for ever.

    Raises:
        GatewayError: Nobody listens there, no answer came, or the daemon refused.
    """
    value = op.value if isinstance(op, Op) else op
    line = json.dumps({"v": VERSION, "op": value}).encode() + b"\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout_s)
        try:
            sock.connect(str(path))
            sock.sendall(line)
            with sock.makefile("rb") as answers:
                raw = answers.readline()
        except OSError as error:
            raise GatewayError(f"control socket {path}: {error.strerror or error}") from None
    try:
        answer = json.loads(raw)
    except ValueError:
        raise GatewayError(f"control socket {path}: the daemon ended without an answer to {value!r}") from None
    if not isinstance(answer, dict) or answer.get("ok") is not True:
        reason = answer.get("error") if isinstance(answer, dict) else answer
        raise GatewayError(f"control socket {path}: {reason}")
    stats: dict[str, Any] = answer["stats"]
    return stats
