"""The other end of the control socket: one question, one answer."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from emulator.errors import GatewayError
from gateway.control_requests import VERSION, Op

_MOST_ANSWER_BYTES = 1 << 26


def _understood(raw: bytes, op: str, kind: str) -> dict[str, Any]:
    """An answer: an object that says whether it is well, and if so has what was asked for.

    Args:
        raw: The line.
        op: What was asked.
        kind: Where an answer has it.

    Raises:
        ValueError: It is none; says why.
    """
    if not raw.endswith(b"\n"):
        raise ValueError(f"the daemon ended without an answer to {op!r}")
    answer: object = None
    with contextlib.suppress(ValueError, RecursionError):
        answer = json.loads(raw)
    if not isinstance(answer, dict) or (answer.get("ok") is True and not isinstance(answer.get(kind), dict)):
        raise ValueError(f"an answer to {op!r} that cannot be understood: {raw[:80]!a}")
    return answer


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
                raw = answers.readline(_MOST_ANSWER_BYTES)
        except OSError as error:
            raise GatewayError(f"control socket {path}: {error.strerror or error}") from None
    try:
        answer = _understood(raw, value, "stats")
    except ValueError as error:
        raise GatewayError(f"control socket {path}: {error}") from None
    if answer.get("ok") is not True:
        raise GatewayError(f"control socket {path}: {answer.get('error')}")
    stats: dict[str, Any] = answer["stats"]
    return stats


class ControlClient:
    """A connection that speaks version 2 (see `emulator.messages.gateway`); a context that closes itself.

    Args:
        path: The daemon's control socket.
        name: Who asks, for the daemon's log.
        timeout_s: How long to wait for each answer; None: for ever.

    Attributes:
        hello: What the daemon says of itself: ``mode`` and ``operations`` among others.

    Raises:
        GatewayError: Nobody listens there, or the daemon does not speak version 2.
    """

    def __init__(self, path: Path, name: str = "", timeout_s: float | None = 30.0) -> None:
        self._path = path
        self._number = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise self._error(error.strerror or str(error)) from None
        self._answers = self._socket.makefile("rb")
        try:
            self.hello = self.call("hello", versions=[2], client=name)
        except BaseException:
            self.close()
            raise

    def _error(self, reason: object) -> GatewayError:
        return GatewayError(f"control socket {self._path}: {reason}")

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask, and return the result.

        Args:
            op: The operation.
            fields: What else the request holds.

        Raises:
            GatewayError: The daemon refused, or ended; `RefusedByDaemon` says why it refused.
        """
        self._number += 1
        line = json.dumps({"v": 2, "id": self._number, "op": op, **fields}).encode() + b"\n"
        try:
            self._socket.sendall(line)
            raw = self._answers.readline(_MOST_ANSWER_BYTES)
        except OSError as error:
            raise self._error(error.strerror or error) from None
        try:
            answer = _understood(raw, op, "result")
        except ValueError as error:
            raise self._error(error) from None
        if answer.get("ok") is True:
            result: dict[str, Any] = answer["result"]
            return result
        refusal = answer.get("error")
        if isinstance(refusal, dict) and {"message", "code"} <= set(refusal):
            raise RefusedByDaemon(f"control socket {self._path}: {refusal['message']}", str(refusal["code"]))
        raise self._error(refusal)

    def close(self) -> None:
        """Hang up."""
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RefusedByDaemon(GatewayError):
    """The daemon did not do what it was asked.

    Attributes:
        code: Why: an `emulator.messages.gateway.ErrorCode`.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code
