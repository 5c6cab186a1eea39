"""Starts the controller inside the emulated machine and waits until its rules are in every switch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from controller.client import ControllerClient
from emulator.errors import ControllerError
from emulator.experiment.processes import Program
from emulator.model.codec import fabric_to_json
from emulator.model.fabric import Fabric, Role
from emulator.scenario import Control
from emulator.units import NS_PER_S

OPENFLOW = "127.0.0.1:6653"
REST = "127.0.0.1:8080"
NVME_PORT = 4420
IPERF3_PORT = 5201
READY_SECONDS = 60
"""Emulated seconds until all switches must be connected and programmed."""


def services_of(fabric: Fabric) -> list[dict[str, Any]]:
    """The storage services of a fabric: one NVMe/TCP target on each storage node."""
    return [
        {"name": f"block-{node.name}", "node": node.name, "ip": str(node.ip.ip), "port": NVME_PORT, "protocol": "tcp"}
        for node in fabric.with_role(Role.STORAGE)
        if node.ip is not None
    ]


def start_controller(fabric: Fabric, design: str, settings: Control, folder: Path) -> Program:
    """Start the Ryu application on the loopback of the emulated machine.

    Args:
        fabric: What it computes routes on.
        design: ``shortest-path``, ``conventional`` or ``gateway``.
        settings: How it is run.
        folder: Where its inputs and log are kept.
    """
    fabric_file, services_file = folder / "controller-fabric.json", folder / "controller-services.json"
    fabric_file.write_text(json.dumps(fabric_to_json(fabric)), encoding="utf-8")
    services_file.write_text(json.dumps(services_of(fabric)), encoding="utf-8")
    argv: Sequence[str] = [
        *(sys.executable, "-m", "controller", "--fabric", str(fabric_file), "--design", design),
        *("--spread", settings.spread),
        *("--balance", _seconds(settings.balance_ns), "--lldp-interval", _seconds(settings.lldp_interval_ns)),
        *("--services", str(services_file), "--listen", OPENFLOW, "--rest", REST),
    ]

    def start(log: int) -> subprocess.Popen[str]:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True)

    return Program("the controller", start, folder / "controller.log", ControllerError)


def _seconds(duration_ns: int) -> str:
    return f"{duration_ns // NS_PER_S}.{duration_ns % NS_PER_S:09}"


def client() -> ControllerClient:
    """A client of the controller that `start_controller` started."""
    return ControllerClient(f"http://{REST}")
