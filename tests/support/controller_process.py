"""The controller as a process of its own, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from controller.client import ControllerClient
from controller.services import Service
from emulator.model.codec import fabric_to_json
from emulator.model.fabric import Fabric

_END_S = 20
_REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass
class RunningController:
    """A started controller."""

    process: subprocess.Popen[str]
    openflow: str
    rest: str
    log: Path

    @property
    def client(self) -> ControllerClient:
        return ControllerClient(f"http://{self.rest}")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(_END_S)


def write_inputs(folder: Path, fabric: Fabric, services: tuple[Service, ...]) -> list[str]:
    """Write the input files and return the arguments that name them."""
    (folder / "fabric.json").write_text(json.dumps(fabric_to_json(fabric)))
    (folder / "services.json").write_text(json.dumps([asdict(service) for service in services]))
    return ["--fabric", str(folder / "fabric.json"), "--services", str(folder / "services.json")]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "controller", *arguments]


@contextmanager
def running_controller(
    folder: Path,
    fabric: Fabric,
    design: str,
    services: tuple[Service, ...],
    *more: str,
    listen: str = "127.0.0.1:0",
    rest: str = "127.0.0.1:0",
) -> Iterator[RunningController]:
    """Start the controller, wait until it listens, and end it at the end of the block."""
    log = folder / "controller.log"
    argv = command(*write_inputs(folder, fabric, services), "--design", design)
    argv += ["--listen", listen, "--rest", rest, "--log", str(log), *more]
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=_REPOSITORY, env=dict(os.environ)
        )
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line, (folder / "stderr").read_text()
        where = json.loads(line)
        yield RunningController(process, where["openflow"], where["rest"], log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout:
            process.stdout.close()
