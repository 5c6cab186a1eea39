"""Live upgrade, the successor's side: asks the daemon whose place it takes for all that it has.

The old daemon stands still from its answer until it hears ``upgrade.taken``; what arrives meanwhile waits in the
kernel's ring, which both processes hold. If the successor fails before that, the old daemon goes on as if nothing had
been.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from emulator.errors import GatewayError
from gateway.control_requests import TAKEN, encode

_MAX_DESCRIPTORS = 64
_ANSWER_S = 10.0
_MOST_ANSWER_BYTES = 1 << 28


class Predecessor:
    """The daemon whose place this process takes, while it stands still.

    Args:
        control: Path of its control socket.
        kind: What kind of daemon it must be.

    Attributes:
        state: What it handed over.
        descriptors: The descriptors that came along; whoever uses one owns it.
        listener: Its listening control socket.

    Raises:
        GatewayError: There is none, it is of another kind, or it refuses.
    """

    def __init__(self, control: Path, kind: str) -> None:
        self._control = control
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_ANSWER_S)
        try:
            self._socket.connect(str(control))
            self._socket.sendall(encode({"v": 2, "id": 0, "op": "upgrade"}))
            answer, received = self._receive()
        except OSError as error:
            self._socket.close()
            raise GatewayError(f"control socket {control}: {error.strerror or error}") from None
        except BaseException:
            self._socket.close()
            raise
        try:
            self.state = self._check(answer, kind, received)
            self.listener = socket.socket(fileno=received.pop())
        except BaseException:
            _close_all(received)
            self._socket.close()
            raise
        self.descriptors = received

    def _receive(self) -> tuple[bytes, list[int]]:
        answer, received = b"", list[int]()
        itemsize = array.array("i").itemsize
        try:
            while not answer.endswith(b"\n"):
                data, rights, _, _ = self._socket.recvmsg(1 << 20, socket.CMSG_LEN(_MAX_DESCRIPTORS * itemsize))
                for _, _, raw in rights:
                    numbers = array.array("i")
                    numbers.frombytes(raw[: len(raw) - len(raw) % itemsize])
                    received += numbers
                if not data:
                    raise GatewayError(f"control socket {self._control}: the daemon ended instead of handing over")
                answer += data
                if len(answer) > _MOST_ANSWER_BYTES:
                    raise GatewayError(f"control socket {self._control}: an answer without an end")
        except BaseException:
            _close_all(received)
            raise
        return answer, received

    def _check(self, answer: bytes, kind: str, received: list[int]) -> dict[str, Any]:
        message: object = None
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(answer)
        if not isinstance(message, dict) or (message.get("ok") is True and not _is_state(message.get("result"))):
            raise GatewayError(f"control socket {self._control}: an answer that is not understood: {answer[:80]!a}")
        if message.get("ok") is not True:
            error = message.get("error")
            reason = error.get("message") if isinstance(error, dict) else error
            raise GatewayError(f"control socket {self._control}: {reason}")
        state: dict[str, Any] = message["result"]
        if state["kind"] != kind:
            raise GatewayError(f"control socket {self._control}: a {state['kind']} daemon listens there, not {kind}")
        if not received:
            raise GatewayError(f"control socket {self._control}: no descriptors came along")
        return state

    def taken(self) -> None:
        """Let the old daemon end: everything is here.

        Raises:
            GatewayError: It is gone, or has gone on by itself because this took too long.
        """
        try:
            self._socket.sendall(encode({"v": 2, "id": 1, "op": TAKEN}))
        except OSError as error:
            raise GatewayError(f"control socket {self._control}: {error.strerror or error}") from None

    def __enter__(self) -> Predecessor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self.listener.close()


def _is_state(result: object) -> bool:
    return isinstance(result, dict) and isinstance(result.get("kind"), str)


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
