"""Two controllers that share a store and a gateway: one of them talks to it, and nothing is lost when that one is gone.

The gateway's end is a control server with a real pipeline behind it; it notes which processes connect.
"""

from __future__ import annotations

import signal
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controller.client import ControllerClient, Unavailable
from controller.compose import Composer
from controller.designs import Design
from controller.gateways.connections import STANDS_BY
from controller.gateways.policies import policies_for
from controller.paths import Spread
from controller.tenancy.store import Store
from emulator.messages.gateway import Policies
from gateway.client import ControlClient
from tests.support.controller_fabrics import leaf_spine
from tests.support.controller_process import RunningController, running_controller
from tests.support.gateway_control import Running
from tests.support.memory_gateway import Daemon
from tests.support.waiting import until

FABRIC = leaf_spine(gpus=2, gateways=1, storage=1)
SITE = Composer(FABRIC, Design.GATEWAY, Spread.HOSTS).site
_CREDENTIALS = struct.Struct("3i")
_LONG_S = 30


class Witness(socket.socket):
    """A listening socket that notes which processes connect."""

    def __init__(self, path: Path) -> None:
        super().__init__(socket.AF_UNIX)
        self.processes: list[int] = []
        self.bind(str(path))
        self.listen()

    def accept(self) -> tuple[socket.socket, Any]:
        sock, address = super().accept()
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        self.processes.append(_CREDENTIALS.unpack(credentials)[0])
        return sock, address


class Pausable(Daemon):
    """A gateway that stands still while it is asked for its figures, until it may go on."""

    def __init__(self) -> None:
        super().__init__(str(FABRIC.by_name["gw0"].mac))
        self.asked, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def stats(self) -> dict[str, Any]:
        self.asked.set()
        assert self.go_on.wait(_LONG_S)
        return super().stats()


@dataclass
class Pair:
    """Two controllers, of which the first one decides, and a gateway."""

    one: RunningController
    two: RunningController
    daemon: Pausable
    witness: Witness
    control: Path
    store: Path

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """What is sent to the gateway waits meanwhile."""
        self.daemon.go_on.clear()
        self.daemon.asked.clear()
        try:
            with closing(socket.socket(socket.AF_UNIX)) as sock:
                sock.connect(str(self.control))
                sock.sendall(b'{"v": 1, "op": "stats"}\n')
                assert self.daemon.asked.wait(_LONG_S)
                yield
        finally:
            self.daemon.go_on.set()

    def told(self) -> tuple[int, Policies]:
        """What the gateway has, and its revision."""
        with ControlClient(self.control) as client:
            answer = client.call("policies.get")
        return answer["revision"], Policies.model_validate(answer["policies"], strict=False)

    def is_told(self) -> bool:
        """Whether the gateway has exactly what the resources in the store's file say."""
        with closing(Store(self.store, SITE.ground)) as store:
            return self.told()[1] == policies_for(SITE, store.state, "gw0")


def gateway(controller: RunningController) -> dict[str, Any]:
    [found] = controller.client.get("/v1/gateways")["gateways"]
    return dict(found)


def decides(controller: RunningController) -> bool:
    return bool(controller.client.health()["controller"]["active"])


def ready(controller: RunningController, rules: int) -> bool:
    found = gateway(controller)
    return (found["state"], found["rules"]) == ("ready", rules)


def declare(client: ControllerClient) -> None:
    """A tenant with two nodes and a volume that nobody may open yet."""
    client.put("/v1/tenants/red", {})
    client.put("/v1/vpcs/red", {"tenant": "red", "cidrs": ["192.168.0.0/24"]})
    for number in range(2):
        client.put(f"/v1/vpcs/red/nodes/g{number}", {"ip": f"192.168.0.{10 + number}"})
    client.put("/v1/services/disk", {"kind": "block", "node": "st0", "port": 4420, "vpcs": ["red"]})
    client.put("/v1/vpcs/red/endpoints/disk", {"service": "disk", "ip": "192.168.0.100", "port": 4420})


def allow(client: ControllerClient, node: str) -> None:
    """A node may open the volume."""
    body = {"vpc": "red", "action": "allow", "source": {"nodes": [node]}, "destination": {"endpoints": ["disk"]}}
    client.put(f"/v1/policies/{node}", body)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Both started, one policy declared, and the gateway told so."""
    control, store = tmp_path / "gw0", tmp_path / "store.db"
    options = ("--store", str(store), "--redundant", "--lldp-interval", "0", "--gateway", f"gw0={control}")
    with ExitStack() as stack:
        daemon, witness = Pausable(), Witness(control)
        stack.callback(Running(control, daemon, witness).close)
        started = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            running = stack.enter_context(running_controller(tmp_path / name, FABRIC, "gateway", (), *options))
            # A process that stands still cannot end in order.
            stack.callback(running.process.send_signal, signal.SIGCONT)
            started.append(running)
            until(lambda: decides(started[0]), "the first one decides")
        made = Pair(started[0], started[1], daemon, witness, control, store)
        declare(made.one.client)
        allow(made.one.client, "g0")
        until(lambda: ready(made.one, 2), "the gateway is told")
        yield made


def check_logs(pair: Pair) -> None:
    for running in (pair.one, pair.two):
        assert "Traceback" not in running.log.read_text()


def test_only_the_one_that_decides_talks_to_the_gateway(pair: Pair) -> None:
    """The standby shows the gateway as not its own, and what it should have as the other does; it never connects."""
    assert set(pair.witness.processes) == {pair.one.process.pid}
    until(lambda: gateway(pair.two)["rules"] == 2, "the standby follows the store")
    shown = gateway(pair.two)
    assert (shown["state"], shown["problem"], shown["connections"]) == ("offline", STANDS_BY, 0)
    assert pair.two.client.get("/v1/gateways/gw0")["statistics"] is None
    assert pair.is_told()
    with pytest.raises(Unavailable, match=STANDS_BY):
        allow(pair.two.client, "g1")
    assert pair.one.process.pid in pair.witness.processes
    assert pair.two.process.pid not in pair.witness.processes
    check_logs(pair)


def test_the_standby_takes_the_gateway_over(pair: Pair) -> None:
    """Killed right after it acknowledged a change, which the gateway has not even read: the survivor makes it good.

    Steps: the gateway stands still; permit something by the first controller and kill it; wait until the second one
    decides, and take something back there; let the gateway go on.
    Verify: the gateway ends up with exactly what the store has, whichever message it reads first, and with what the
    survivor changes later; what is told is told over one connection.
    """
    with pair.standing_still():
        allow(pair.one.client, "g1")
        assert pair.one.end(signal.SIGKILL) == -signal.SIGKILL
        until(lambda: decides(pair.two), "the second one decides")
        client = pair.two.client
        client.delete("/v1/policies/g0", if_match=client.read("/v1/policies/g0").etag)
        assert not ready(pair.two, 2), "the gateway has read nothing yet"
    until(lambda: ready(pair.two, 2), "the gateway is told by the second one")
    assert pair.is_told()
    [rule, _] = pair.told()[1].rules
    assert str(rule.source) == f"{SITE.places['g1'].ip}/32"
    allow(client, "g0")
    until(lambda: ready(pair.two, 4), "the gateway is told more")
    assert pair.is_told()
    found = gateway(pair.two)
    assert (found["connections"], found["disconnections"], found["refusals"], found["problem"]) == (1, 0, 0, None)
    assert pair.witness.processes.count(pair.two.process.pid) == 1
    messages = [event["message"] for event in client.get("/v1/events", kind="gateway", limit=1000)["events"]]
    assert all("has what it should" in message for message in messages), messages
    check_logs(pair)


def test_who_was_away_does_not_meddle(pair: Pair) -> None:
    """A controller that stood still while another one was elected lets go of the gateway as soon as it goes on.

    Steps: stop the first one's process; wait until the second one decides, and change something there; let it go on.
    Verify: the gateway keeps what the survivor told it, without another revision.
    """
    pair.one.process.send_signal(signal.SIGSTOP)
    until(lambda: decides(pair.two), "the second one decides")
    allow(pair.two.client, "g1")
    until(lambda: ready(pair.two, 4), "the gateway is told by the second one")
    revision, told = pair.told()
    pair.one.process.send_signal(signal.SIGCONT)
    until(lambda: gateway(pair.one)["problem"] == STANDS_BY, "the first one lets go")
    until(lambda: gateway(pair.one)["rules"] == 4, "and follows the store")
    assert pair.told() == (revision, told)
    assert pair.is_told()
    assert pair.witness.processes.count(pair.one.process.pid) == 1
    check_logs(pair)
