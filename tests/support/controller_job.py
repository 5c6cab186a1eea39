"""Runs inside the emulated machine: a fabric, the controller and a design's data plane, and real packets through them.

Prints one line of JSON with what was seen.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from controller_fabrics import leaf_spine, services_of
from controller_process import running_controller

from controller.client import wait_ready
from emulator.experiment.dataplane import data_plane
from emulator.model.fabric import Role
from emulator.model.profile import profile
from emulator.network import EmulatedHost, Network, build

OPENFLOW, REST = "127.0.0.1:6653", "127.0.0.1:8080"
TCP_BYTES = 300_000


def tcp_exchange(client: EmulatedHost, server: EmulatedHost, port: int) -> int:
    """Send bytes to a server that sends them back; returns how many came back."""
    with server.namespace():
        listener = socket.create_server((server.ip, port))

    def echo() -> None:
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(65_536):
                connection.sendall(data)

    thread = threading.Thread(target=echo)
    thread.start()
    with client.namespace():
        connection = socket.create_connection((server.ip, port), timeout=20)
    with connection, listener:
        sender = threading.Thread(target=lambda: (connection.sendall(bytes(TCP_BYTES)), connection.shutdown(1)))
        sender.start()
        received = 0
        while data := connection.recv(65_536):
            received += len(data)
        sender.join()
        thread.join()
    return received


def pings(network: Network, pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    """One echo for each pair; what ping printed as time to live and loss."""
    seen = {}
    for source, target in pairs:
        argv = ["ping", "-n", "-c", "1", "-W", "5", network.host(target).ip]
        text = network.host(source).run(argv, check=False).stdout
        seen[f"{source} {target}"] = [word for word in text.split() if word.startswith("ttl=") or "%" in word]
    return seen


def main(design: str) -> None:
    """Build, measure, print."""
    folder = Path("/tmp/controller")
    folder.mkdir()
    fabric = leaf_spine(gpus=3, storage=2)
    services = services_of(fabric, 4420)
    seen: dict[str, Any] = {}
    with (
        running_controller(folder, fabric, design, services, listen=OPENFLOW, rest=REST) as controller,
        build(fabric, controller=f"tcp:{OPENFLOW}", checksum_offload=False) as network,
    ):
        client = wait_ready(f"http://{REST}", len(fabric.switches), 60_000_000_000)
        hosts = {host.name: host for host in network.hosts}
        with data_plane(fabric, hosts, design, profile("documents"), folder):
            before = client.counters()["roles"]
            clients = [node.name for node in fabric.with_role(Role.GPU)]
            storage = [node.name for node in fabric.with_role(Role.STORAGE)]
            seen["pings"] = pings(network, [(a, b) for a in clients for b in storage] + [("st0", "g1")])
            seen["tcp"] = {
                f"{a} {b} {port}": tcp_exchange(hosts[a], hosts[b], port)
                for a, b, port in (("g0", "st0", 4420), ("g1", "st1", 4420), ("g2", "st0", 22))
            }
            after = client.counters()["roles"]
            seen["direct"] = pings(network, [("g0", "g1"), ("c0", "st1"), ("r0", "st0"), ("gw0", "gw1")])
        seen["bytes_to"] = {role: after[role]["to_bytes"] - before[role]["to_bytes"] for role in after}
        seen["health"] = client.health()
        seen["planned"] = all(flow["planned"] for flow in client.flows())
        seen["exit_code"] = controller.end()
        seen["log"] = controller.log.read_text().splitlines()
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
