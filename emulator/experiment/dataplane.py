"""Starts the data planes that a design needs on its hosts, each under the profile's station.

The gateway design runs the forwarding daemon on the gateway nodes. The conventional design runs, on the VPC router and
on the general compute nodes, a copying proxy that terminates TCP, and the forwarding daemon for everything else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from emulator.engine.host import HostHandle
from emulator.errors import GatewayError
from emulator.experiment.processes import Program
from emulator.model.fabric import Fabric, Node, Role
from emulator.model.profile import Profile, StationModel
from gateway.client import request

PROXY_PORT = 15001
INTERCEPTED_PORTS = (4420, *range(5201, 5209))
"""NVMe/TCP, and iperf3's port with those of further flows."""

READY_S = 30
"""Until a daemon must be ready, by the clock of the machine that it runs in."""

_LOOK_S = 0.001

CONVENTIONAL, GATEWAY = "conventional", "gateway"


class DataPlane:
    """The running daemons; `counters` asks each for its figures."""

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.sockets: dict[str, Path] = {}

    def wait_ready(self) -> None:
        """Wait until every daemon's control socket is there.

        Raises:
            GatewayError: A daemon ended, or is not ready in time.
        """
        deadline = time.monotonic() + READY_S
        while missing := [name for name, socket in self.sockets.items() if not socket.exists()]:
            self.check()
            if time.monotonic() > deadline:
                raise GatewayError(f"the {missing[0]} daemon is not ready after {READY_S} s")
            time.sleep(_LOOK_S)

    def check(self) -> None:
        """Make sure that all daemons still run.

        Raises:
            GatewayError: One ended.
        """
        for program in self.programs:
            program.check()

    def counters(self) -> dict[str, dict[str, object]]:
        """Figures of each daemon by ``<node>-<forward|proxy>``."""
        return {name: request(socket, "stats") for name, socket in self.sockets.items()}


@contextmanager
def data_plane(
    fabric: Fabric,
    hosts: Mapping[str, HostHandle],
    design: str,
    profile: Profile,
    folder: Path,
    intercepted: Sequence[int] = INTERCEPTED_PORTS,
) -> Iterator[DataPlane]:
    """Run a design's daemons until the block ends.

    Args:
        fabric: Says which nodes play which role.
        hosts: The running hosts by name.
        design: ``shortest-path`` (no daemons), ``conventional`` or ``gateway``.
        profile: Parameters of the stations.
        folder: For inputs and logs.
        intercepted: TCP ports of services whose connections proxies end.

    Raises:
        GatewayError: A daemon did not start, or ended early.
    """
    plane = DataPlane()
    neighbours = folder / "neighbours.json"
    addresses = {str(node.ip.ip): node.mac for node in fabric.hosts if node.ip is not None}
    neighbours.write_text(json.dumps(addresses), encoding="utf-8")
    with ExitStack() as stack:

        def start(node: Node, kind: str, station: StationModel, *arguments: str) -> None:
            name = f"{node.name}-{kind}"
            parameters = folder / f"{name}-station.json"
            parameters.write_text(json.dumps(asdict(station)), encoding="utf-8")
            socket = folder / f"{name}.sock"
            argv = [
                *(sys.executable, "-m", "gateway", kind, "--station", str(parameters), "--control", str(socket)),
                *arguments,
            ]

            def launch(log: int) -> subprocess.Popen[str]:
                return hosts[node.name].popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

            program = Program(f"the {kind} daemon on {node.name}", launch, folder / f"{name}.log", GatewayError)
            plane.programs.append(stack.enter_context(program))
            plane.sockets[name] = socket

        def forward(node: Node, station: StationModel, *arguments: str) -> None:
            interface = hosts[node.name].interfaces[0]
            start(node, "forward", station, "--interface", interface, "--neighbours", str(neighbours), *arguments)

        if design == GATEWAY:
            for node in fabric.with_role(Role.GATEWAY):
                forward(node, profile.gateway)
        elif design == CONVENTIONAL:
            ports = ",".join(str(port) for port in dict.fromkeys(intercepted))
            for role, station in ((Role.ROUTER, profile.router), (Role.COMPUTE, profile.compute)):
                for node in fabric.with_role(role):
                    forward(node, station, "--ignore-tcp")
                    start(node, "proxy", station, "--listen", str(PROXY_PORT), "--ports", ports)
        plane.wait_ready()
        yield plane
