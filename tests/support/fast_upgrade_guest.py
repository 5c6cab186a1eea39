"""Tests of a fast gateway that takes another one's place, where network namespaces may be made.

Natively: ``python -m pytest tests/support/fast_upgrade_guest.py``, as root; `tests/system` boots a machine.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.client import ControlClient
from tests.support.fast_guest import REPOSITORY, Daemon, datagram, routed, running, settings
from tests.support.rings_bed import Bed, may_make_namespaces

pytestmark = pytest.mark.skipif(not may_make_namespaces(), reason="network namespaces may not be made here")
WINDOW = 16
_PORT_AT, _SUM_AT, _NUMBER_AT = 34, 40, 42
_LAST = 0xFFFF_FFFF


class Load:
    """Numbered datagrams from left to right, as many on their way as the window takes; half of them begin a flow."""

    def __init__(self, built: Bed, left: socket.socket, right: socket.socket) -> None:
        self._left, self._right = left, right
        self.came: list[int] = []
        self.sent = 0
        self._room = threading.Semaphore(WINDOW)
        self._arrived = threading.Condition()
        self._ends = False
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._receive)]

    def _send(self) -> None:
        frame = bytearray(datagram(1))
        frame[_SUM_AT : _SUM_AT + 2] = b"\0\0"
        while not self._ends and self._room.acquire(timeout=20):
            number = self.sent
            port = 20_000 + number % 20_000 if number % 2 else 1000 + number % 10
            frame[_PORT_AT : _PORT_AT + 2] = port.to_bytes(2, "big")
            frame[_NUMBER_AT : _NUMBER_AT + 4] = number.to_bytes(4, "big")
            self._left.send(frame)
            self.sent += 1

    def _receive(self) -> None:
        self._right.settimeout(20)
        with contextlib.suppress(TimeoutError):
            while True:
                data = self._right.recv(2000)
                if data[12:14] == b"\x08\0" and data[36:38] == (9999).to_bytes(2, "big"):
                    number = int.from_bytes(data[_NUMBER_AT : _NUMBER_AT + 4], "big")
                    if number == _LAST:
                        return
                    self.came.append(number)
                    self._room.release()
                    with self._arrived:
                        self._arrived.notify_all()

    def wait_for(self, more: int) -> None:
        """Until so many more have come (or none comes any more)."""
        wanted = len(self.came) + more
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.came) >= wanted, timeout=20), (self.sent, len(self.came))

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Send no more, and wait for what is on its way."""
        if self._ends:
            return
        self._ends = True
        for _ in range(WINDOW):
            self._room.release()
        self._threads[0].join()
        # One more, behind all others, tells the receiver that it is the last.
        frame = bytearray(datagram(1))
        frame[_SUM_AT : _NUMBER_AT + 4] = b"\0\0" + _LAST.to_bytes(4, "big")
        self._left.send(frame)
        self._threads[1].join()


@contextlib.contextmanager
def successor(built: Bed, before: Daemon, folder: Path) -> Iterator[Daemon]:
    """A daemon that took the place of another one."""
    argv = [sys.executable, "-m", "gateway", "fast", "--config", str(folder / "fast.json")]
    argv += ["--control", str(before.control), "--take-over"]
    daemon = Daemon.__new__(Daemon)
    daemon.control = before.control
    daemon.process = built.gw.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY)
    try:
        yield daemon
    finally:
        if daemon.process.poll() is None:
            daemon.process.kill()
            daemon.process.communicate()


@contextlib.contextmanager
def bpf_file_system(folder: Path) -> Iterator[None]:
    """A file system for BPF objects of the test's own."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "bpf", "bpf", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def ended(daemon: Daemon) -> dict[str, Any]:
    out, err = daemon.process.communicate(timeout=60)
    assert (daemon.process.returncode, err) == (0, "")
    figures: dict[str, Any] = json.loads(out)
    return figures


@pytest.mark.parametrize("offload", [False, True])
def test_an_upgrade_loses_no_packet_and_no_decision(tmp_path: Path, offload: bool) -> None:
    """Two upgrades while flows begin and go on: each datagram comes once, and what was decided from outside holds."""
    folder = tmp_path / "bpf"
    more = {"offload": {"folder": str(folder), "capacity": 64}, "idle_s": 3600} if offload else {}
    denied = {"tenant": 0, "protocol": 17, "source": "10.0.1.1", "target": "10.0.2.7", "source_port": 7}
    denied["target_port"] = 9999
    with (
        bpf_file_system(folder),
        routed() as built,
        built.raw(built.left, "lh") as left,
        built.raw(built.right, "rh") as right,
        running(built, tmp_path, settings("af_xdp", **more)) as first,
    ):
        with ControlClient(first.control) as client:
            said = client.call("policies.get")["policies"]
            client.call("policies.set", policies={**said, "rules": [{"allow": True, "protocol": 17}]})
            client.call("flows.install", flows=[{"key": denied, "allow": False}])
        with Load(built, left, right) as load:
            load.wait_for(100)
            with successor(built, first, tmp_path) as second:
                one = ended(first)
                load.wait_for(100)
                with successor(built, second, tmp_path) as third:
                    two = ended(second)
                    load.wait_for(100)
                    with ControlClient(third.control) as client:
                        assert client.call("policies.get")["revision"] >= 1
                        listed = client.call("flows.list", limit=1000)["flows"]
                    assert [flow["reason"] for flow in listed if flow["key"] == denied] == ["denied"]
                    load.finish()
                    assert sorted(load.came) == list(range(load.sent))
                    last = third.end()
    assert one["handed_over"]
    assert two["handed_over"]
    counted = [figures["pipeline"]["frames_in"] for figures in (one, two, last)]
    assert 0 < counted[0] <= counted[1] <= counted[2]
    assert last["pipeline"]["reasons"]["denied"]["frames"] == 0


def test_a_successor_that_fails_leaves_things_as_they_were(tmp_path: Path) -> None:
    """Wrong files are noticed before anything changes; one that dies in the middle is survived by the old daemon."""
    with (
        routed() as built,
        built.raw(built.left, "lh") as left,
        built.raw(built.right, "rh") as right,
        running(built, tmp_path, settings("af_xdp")) as first,
    ):
        other = tmp_path / "other"
        other.mkdir()
        (other / "fast.json").write_text(json.dumps({**settings("packet_mmap")}))
        with successor(built, first, other) as wrong:
            _, err = wrong.process.communicate(timeout=60)
            assert "cannot take over" in err
            assert err.count("\n") == 1
        with ControlClient(first.control) as client:
            said = client.call("policies.get")["policies"]
            client.call("policies.set", policies={**said, "rules": [{"allow": True, "protocol": 17}]})
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(first.control))
            asking.sendall(b'{"v":2,"id":1,"op":"upgrade"}\n')
            answer = asking.makefile("rb").readline()
            assert json.loads(answer)["ok"] is True
        # It hung up without taking over: the old daemon opens its ports again.
        ready = datagram(4242)
        right.settimeout(0.2)
        for _ in range(100):
            left.send(ready)
            with contextlib.suppress(TimeoutError):
                while right.recv(2000)[34:36] != (4242).to_bytes(2, "big"):
                    pass
                break
        else:
            raise AssertionError("nothing is forwarded any more")
        with ControlClient(first.control) as client:
            said = client.call("policies.get")
            assert (said["revision"], said["policies"]["rules"][0]["protocol"]) == (1, 17), "it knows what it was told"
        assert first.end()["pipeline"]["frames_in"] > 0
