"""One gateway's control connection as a state machine: bytes in, bytes out, no socket and no clock.

::

    OFFLINE --connected--> GREETING --hello--> READING --policies.get--> READY
                                                  ^   '-> WRITING --policies.set--> READY
                                                  '------ conflict ---'
    any --disconnected--> OFFLINE        refused: REFUSED until other policies are wanted
    READY --check, and somebody else changed it--> WRITING

The session makes what the gateway has equal to what is wanted, whatever the gateway had before, whoever else changed
it, and however often the connection is lost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from typing import Any

from pydantic import ValidationError

from emulator.messages.gateway import MAX_LINE_BYTES, VERSION, ErrorCode, Flow, FlowKey, Policies

_MOST_ANSWER_BYTES = 1 << 26
_CHECK = "check"
"""Stands for a ``policies.get`` that is asked only to see whether anything changed."""
_NEEDED = frozenset({"policies.get", "policies.set"})


class Phase(Enum):
    """What the session waits for."""

    OFFLINE = "offline"
    GREETING = "greeting"
    READING = "reading"
    WRITING = "writing"
    READY = "ready"
    REFUSED = "refused"


class GatewaySession:
    """See the module.

    Args:
        name: The gateway's name, for messages.
        wanted: What it is to be told.

    Attributes:
        phase: What the session waits for.
        revision: Revision of the policies that the gateway has, None: not known.
        mode: What kind of daemon it is; None: it did not say.
        problem: Why the gateway is not as wanted and will not be by itself; None: it is, or will be.
        results: Answers to `list_flows`, `install`, `delete` and `statistics` by the numbers that these returned.
    """

    def __init__(self, name: str, wanted: Policies) -> None:
        self.name = name
        self.phase = Phase.OFFLINE
        self.revision: int | None = None
        self.mode: str | None = None
        self.problem: str | None = None
        self.results: dict[int, dict[str, Any]] = {}
        self._wanted = wanted
        self._written: Policies | None = None
        self._number = 0
        self._asked: dict[int, str] = {}
        self._inbox = bytearray()

    # What happens

    def connected(self) -> bytes:
        """The connection is there: returns what is to be sent."""
        self.disconnected()
        self.phase = Phase.GREETING
        return self._ask("hello", versions=[VERSION], client="controller")

    def disconnected(self) -> None:
        """The connection is lost: what was asked is not answered any more."""
        self.phase = Phase.OFFLINE
        self.revision = None
        self.mode = None
        self.problem = None
        self._asked.clear()
        self._inbox = bytearray()

    def want(self, policies: Policies) -> bytes:
        """The gateway is to be told something else: returns what is to be sent."""
        if policies == self._wanted and self.phase is not Phase.REFUSED:
            return b""
        self._wanted = policies
        if self.phase in (Phase.READY, Phase.REFUSED) and self.revision is not None:
            return self._write()
        return b""

    def received(self, data: bytes) -> bytes:
        """Bytes came: returns what is to be sent."""
        self._inbox += data
        lines: list[bytes] = []
        if b"\n" in data:
            *lines, rest = bytes(self._inbox).split(b"\n")
            self._inbox = bytearray(rest)
        elif len(self._inbox) > _MOST_ANSWER_BYTES:
            self._inbox.clear()
            return self._refuse(f"an answer of more than {_MOST_ANSWER_BYTES} bytes")
        return b"".join(self._answered(line) for line in lines if line.strip())

    def check(self) -> bytes:
        """See whether the gateway still is as wanted: returns what is to be sent."""
        if self.phase is not Phase.READY:
            return b""
        return self._ask("policies.get", _CHECK, known=self.revision)

    @property
    def wanted(self) -> Policies:
        """What the gateway is to be told."""
        return self._wanted

    @property
    def oldest(self) -> int | None:
        """Number of the oldest question without an answer."""
        return min(self._asked, default=None)

    # What can be asked once the session is ready

    def list_flows(self, after: int, limit: int, tenant: int | None) -> tuple[int, bytes]:
        """A page of the flows behind one of them (-1: from the first); see `install`."""
        return self._question("flows.list", after=after, limit=limit, tenant=tenant)

    def install(self, flows: Sequence[Flow]) -> tuple[int, bytes]:
        """Decide about flows: returns the question's number and what is to be sent."""
        return self._question("flows.install", flows=[flow.model_dump(mode="json") for flow in flows])

    def delete(self, keys: Sequence[FlowKey] | None) -> tuple[int, bytes]:
        """Forget flows (None: all); see `install`."""
        return self._question(
            "flows.delete", keys=None if keys is None else [key.model_dump(mode="json") for key in keys]
        )

    def statistics(self) -> tuple[int, bytes]:
        """Ask for all figures; see `install`."""
        return self._question("stats")

    def _question(self, op: str, **fields: Any) -> tuple[int, bytes]:
        line = self._ask(op, **fields)
        return self._number, line

    def _ask(self, op: str, purpose: str | None = None, **fields: Any) -> bytes:
        self._number += 1
        self._asked[self._number] = purpose or op
        return json.dumps({"v": VERSION, "id": self._number, "op": op, **fields}).encode() + b"\n"

    # Answers

    def _answered(self, line: bytes) -> bytes:
        try:
            answer = json.loads(line)
            if answer["v"] != VERSION:
                self._asked.clear()
                return self._refuse(f"a daemon that speaks version {ascii(answer['v'])[:20]}, not {VERSION}")
            number, ok = answer["id"], answer["ok"]
            result = answer["result"] if ok else answer["error"]
            op = self._asked.pop(number)
        except (ValueError, KeyError, TypeError, RecursionError):
            self._asked.clear()
            return self._refuse(f"an answer that cannot be understood: {line[:80]!a}")
        try:
            if op not in ("hello", "policies.get", "policies.set", _CHECK):
                self.results[number] = answer
                return b""
            if ok:
                return self._done(op, result)
            return self._failed(op, str(result["code"]), str(result["message"]))
        except (KeyError, TypeError, ValueError, ValidationError):
            return self._refuse(f"an answer to {op} that cannot be understood: {line[:80]!a}")

    def _done(self, op: str, result: dict[str, Any]) -> bytes:
        if op == "hello":
            self.mode = str(result["mode"])
            missing = _NEEDED - set(result["operations"])
            if result["version"] != VERSION or missing:
                return self._refuse(f"a {result['mode']} daemon of version {result['version']} takes no policies")
            return self._read()
        if op == _CHECK and (self.phase is not Phase.READY or result["revision"] == self.revision):
            return b""  # as it was, or what is being written finds out itself
        if op in ("policies.get", _CHECK):
            has = self._read_policies(result["policies"])
        elif self._written is None:
            raise ValueError("nothing was written")
        else:
            has = self._written
        self.revision = int(result["revision"])
        if has == self._wanted:
            self.phase = Phase.READY
            return b""
        return self._write()

    def _read(self) -> bytes:
        self.phase = Phase.READING
        return self._ask("policies.get")

    def _read_policies(self, document: Any) -> Policies:
        # Comparing what was read costs a tenth of checking it, and mostly it is what is wanted.
        if document == self._wanted.model_dump(mode="json"):
            return self._wanted
        return Policies.model_validate(document, strict=False)

    def _write(self) -> bytes:
        self.phase = Phase.WRITING
        self.problem = None
        self._written = self._wanted
        # Written by the model itself, at a fifth of the time.
        head = self._ask("policies.set", if_revision=self.revision).removesuffix(b"}\n")
        line = head + b', "policies": ' + self._wanted.model_dump_json().encode() + b"}\n"
        if len(line) > MAX_LINE_BYTES:
            del self._asked[self._number]
            return self._refuse(f"its policies take {len(line)} bytes, and a request has at most {MAX_LINE_BYTES}")
        return line

    def _failed(self, op: str, code: str, message: str) -> bytes:
        if op == "policies.set" and code == ErrorCode.CONFLICT:
            return self._read()
        if op == "policies.set" and self._written != self._wanted:
            return self._write()
        return self._refuse(f"{op}: {message}")

    def _refuse(self, problem: str) -> bytes:
        # Of a gateway that talks nonsense without an end, the first of it is told.
        if self.phase is not Phase.REFUSED:
            self.phase = Phase.REFUSED
            self.problem = f"gateway {self.name}: {problem}"
        return b""
