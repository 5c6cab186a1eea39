"""A running controller, a gateway in memory and strange things behind control sockets; real: `fast_control_guest`."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.client import Conflict, Event, Invalid, NotFound, Unavailable
from tests.support.controller_fabrics import leaf_spine
from tests.support.controller_process import running_controller
from tests.support.gateway_control import Running
from tests.support.memory_gateway import Daemon

_ANSWER_S = 30


@contextmanager
def listening(path: Path, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """A daemon that does with each connection what the test likes."""
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(_ANSWER_S)

        def run() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                with sock:
                    sock.settimeout(_ANSWER_S)
                    serve(sock)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def speaks_an_old_version(sock: socket.socket) -> None:
    sock.recv(4096)
    sock.sendall(b'{"v":1,"ok":false,"error":"\'v\' is 2, not 1"}\n')
    sock.recv(4096)


def takes_no_policies(sock: socket.socket) -> None:
    number = json.loads(sock.recv(4096))["id"]
    result = {"version": 2, "versions": [1, 2], "mode": "forward", "operations": ["hello", "stats"]}
    sock.sendall(json.dumps({"v": 2, "id": number, "ok": True, "result": result}).encode() + b"\n")
    while line := sock.recv(4096):
        question = json.loads(line)
        answer: dict[str, Any] = {"ok": True, "result": {"stats": {"frames": 5}}}
        if question["op"] != "stats":
            answer = {"ok": False, "error": {"code": "unsupported", "message": "no"}}
        sock.sendall(json.dumps({"v": 2, "id": question["id"], **answer}).encode() + b"\n")


def hangs_up(sock: socket.socket) -> None:
    sock.recv(4096)


def messages(events: Iterator[Event], count: int) -> set[str]:
    return {next(events).message for _ in range(count)}


def test_strange_daemons_are_one_event_each(tmp_path: Path) -> None:
    """An absent socket, a file, another version, another kind of daemon, one that hangs up: the controller lives on."""
    paths = {name: tmp_path / name for name in ("gw0", "gw1", "gw2", "gw3", "gw4")}
    fabric = leaf_spine(gateways=5)
    paths["gw1"].write_text("")
    options = [word for name, path in paths.items() for word in ("--gateway", f"{name}={path}")]
    with ExitStack() as stack:
        stack.enter_context(listening(paths["gw2"], speaks_an_old_version))
        stack.enter_context(listening(paths["gw3"], takes_no_policies))
        stack.enter_context(listening(paths["gw4"], hangs_up))
        controller = stack.enter_context(
            running_controller(tmp_path, fabric, "gateway", (), "--store", ":memory:", *options)
        )
        events = stack.enter_context(controller.client.events(after=0, kinds=["gateway"]))
        assert messages(iter(events), 5) == {
            f"gateway gw0: {paths['gw0']}: No such file or directory",
            f"gateway gw1: {paths['gw1']}: Connection refused",
            "gateway gw2: a daemon that speaks version 1, not 2",
            "gateway gw3: a forward daemon of version 2 takes no policies",
            f"gateway gw4: {paths['gw4']}: the daemon ended the connection",
        }
        shown = {one["name"]: one for one in controller.client.read("/v1/gateways").body["gateways"]}
        assert (shown["gw2"]["state"], shown["gw3"]["state"]) == ("refused", "refused")
        assert shown["gw3"]["mode"] == "forward"
        assert controller.client.read("/v1/gateways/gw3").body["statistics"] == {"frames": 5}
        controller.client.put("/v1/tenants/red", {})
        assert controller.end() == 0
        assert "Traceback" not in controller.log.read_text()
        assert (tmp_path / "stderr").read_text() == ""


def test_flows_are_decided_over_rest(tmp_path: Path) -> None:
    """The client lists, installs and deletes a gateway's flows; nobody, strangers and wrong ones each have an error.

    Verify: the gateway's own table has what was installed, and forgets it with the next policies.
    """
    paths = {name: tmp_path / name for name in ("gw0", "gw1", "gw2")}
    options = [word for name, path in paths.items() for word in ("--gateway", f"{name}={path}")]
    key = {"tenant": 2, "protocol": 6, "source": "10.0.0.1", "target": "10.0.0.2", "source_port": 1, "target_port": 2}
    with ExitStack() as stack:
        running = Running(paths["gw0"], daemon := Daemon())
        stack.callback(running.close)
        stack.enter_context(listening(paths["gw1"], takes_no_policies))
        store = ("--store", ":memory:", "--lldp-interval", "0")
        fabric = leaf_spine(gpus=2, gateways=3)
        controller = stack.enter_context(running_controller(tmp_path, fabric, "gateway", (), *store, *options))
        client = controller.client
        with client.events(after=0, kinds=["gateway"]) as events:
            messages(iter(events), 3)
        assert client.install_flows("gw0", [{"key": {**key, "source_port": n}, "allow": False} for n in range(5)]) == 5
        found = list(client.gateway_flows("gw0", tenant=2, limit=2))
        assert [one["key"]["source_port"] for one in found] == [0, 1, 2, 3, 4]
        assert {(one["reason"], one["rule"], one["frames"]) for one in found} == {("denied", -1, 0)}
        assert list(client.gateway_flows("gw0", tenant=3)) == []
        assert client.delete_flows("gw0", key) == 1
        with pytest.raises(NotFound, match="gateway gw0 knows no such flow"):
            client.delete_flows("gw0", key)
        with pytest.raises(Invalid, match="there are 0 next hops, not 1"):
            client.install_flows("gw0", [{"key": key, "allow": True, "next_hop": 1}])
        assert len(daemon.pipeline.flows) == 4
        with pytest.raises(Unavailable, match=f"gateway gw2 is not connected: {paths['gw2']}: No such file"):
            list(client.gateway_flows("gw2"))
        with pytest.raises(Conflict, match="gateway gw1 refuses: no"):
            client.delete_flows("gw1")
        assert client.delete_flows("gw0") == 4
        assert len(daemon.pipeline.flows) == 0
        assert controller.end() == 0
        assert "Traceback" not in controller.log.read_text()
