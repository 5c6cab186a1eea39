"""A gateway without ports: a real pipeline, and all that can be asked of it over a control socket.

``python -m tests.support.memory_gateway SOCKET`` serves one until Ctrl-C or SIGTERM, for trying out a controller.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from controller.gateways.policies import PORT
from emulator.messages.gateway import Policies
from gateway.control_requests import handle
from gateway.dataplane.pipeline import Configuration, Pipeline
from gateway.steering import Steering, mac_of
from tests.support.gateway_control import Running


class Daemon:
    """A gateway's end of the protocol, with a real pipeline behind it."""

    mode = "memory"

    def __init__(self, mac: str = "02:00:00:00:00:01") -> None:
        self.pipeline = Pipeline(Configuration(macs={PORT: mac_of(mac)}, flow_capacity=64))
        steering = Steering(self.pipeline)
        self.policies, self.set_policies = steering.policies, steering.set_policies
        self.list_flows, self.install_flows = steering.list_flows, steering.install_flows
        self.delete_flows = steering.delete_flows

    def stats(self) -> dict[str, Any]:
        return self.pipeline.as_json()

    def drain(self) -> None:
        raise NotImplementedError

    stop = drain

    def answer(self, data: bytes) -> bytes:
        return b"".join(handle(line, self, 2)[0].data for line in data.splitlines())

    def has(self) -> Policies:
        return Policies.model_validate(self.policies()["policies"], strict=False)


def main(arguments: list[str]) -> int:
    """Serve until a signal comes."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m tests.support.memory_gateway SOCKET\n")
        return 2
    ends = {signal.SIGTERM, signal.SIGINT}
    # Before the thread begins, which then does not get them either.
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    running = Running(Path(arguments[0]), Daemon())
    sys.stdout.write(f"control socket: {arguments[0]}\n")
    sys.stdout.flush()
    signal.sigwait(ends)
    running.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
