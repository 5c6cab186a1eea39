"""What tests of tenants in a virtual-time kernel share: the fabric, declared resources, and the REST interface."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from controller.client import ControllerClient, wait_ready
from emulator.network import Network
from tests.support.controller_fabrics import leaf_spine

FABRIC = leaf_spine(gpus=4, computes=2, gateways=1, storage=2)
SWITCHES = len(FABRIC.switches)
READY_NS = 60_000_000_000

DESIGNS = ("shortest-path", "gateway", "conventional")

MEMBERS = {("red", "g0"): 10, ("red", "g1"): 11, ("blue", "g3"): 10, ("blue", "g2"): 11}
"""Last byte of the address in 192.168.0.0/24, which both VPCs have; g0 and g3 are behind the same leaf."""
NODE_PORT = 7000

GATES = {"block": (100, 4420), "file": (101, 2049), "object": (100, 443)}
"""Last byte of each endpoint's address and its port, the same in both VPCs."""


@dataclass(frozen=True)
class Behind:
    """Where a service is.

    Attributes:
        node: Storage node.
        port: TCP port there.
    """

    node: str
    port: int


SERVICES = {
    ("red", "block"): Behind("st0", 4420),
    ("blue", "block"): Behind("st1", 4420),
    ("red", "file"): Behind("st1", 2049),
    ("blue", "file"): Behind("st0", 2049),
    ("red", "object"): Behind("st0", 9000),
    ("blue", "object"): Behind("st0", 9001),
}
"""The tenants' services: under one port of two nodes, and under two ports of one node."""

POLICIES: dict[str, dict[str, Any]] = {
    "red-all": {"vpc": "red", "action": "allow"},
    "red-no-file": {
        "vpc": "red",
        "action": "deny",
        "priority": 2000,
        "source": {"nodes": ["g1"]},
        "destination": {"kinds": ["file"]},
    },
    "blue-block": {"vpc": "blue", "action": "allow", "destination": {"endpoints": ["block"]}},
    "blue-file": {"vpc": "blue", "action": "allow", "destination": {"kinds": ["file"]}},
    "blue-object": {
        "vpc": "blue",
        "action": "allow",
        "source": {"nodes": ["g3"]},
        "destination": {"kinds": ["object"]},
        "protocol": "tcp",
        "ports": [{"first": 443, "last": 443}],
    },
    "blue-nodes": {
        "vpc": "blue",
        "action": "allow",
        "source": {"nodes": ["g3"]},
        "destination": {"nodes": ["g2"]},
    },
    "blue-ping": {
        "vpc": "blue",
        "action": "allow",
        "source": {"nodes": ["g2"]},
        "destination": {"nodes": ["g3"]},
        "protocol": "icmp",
    },
}


def address(number: int) -> str:
    """An address of both VPCs by its last byte."""
    return f"192.168.0.{number}"


@dataclass
class Api:
    """A controller's REST interface.

    Attributes:
        rest: Address and port.
    """

    rest: str

    @cached_property
    def client(self) -> ControllerClient:
        """A client of it."""
        return ControllerClient(f"http://{self.rest}")

    def put(self, path: str, body: dict[str, Any]) -> None:
        """Declare a resource that does not exist yet."""
        assert self.client.put(f"/v1/{path}", body).created

    def get(self, path: str, **query: str | int) -> dict[str, Any]:
        """Read a resource."""
        found: dict[str, Any] = self.client.get(f"/v1/{path}", 90, **query)
        return found

    def declare(self) -> None:
        """Two tenants with equal addresses and services of all kinds behind equal endpoints."""
        for vpc in ("red", "blue"):
            self.put(f"tenants/{vpc}", {})
            self.put(f"vpcs/{vpc}", {"tenant": vpc, "cidrs": ["192.168.0.0/24"]})
        for (vpc, kind), behind in SERVICES.items():
            name, (number, port) = f"{kind}-{vpc}", GATES[kind]
            self.put(f"services/{name}", {"kind": kind, "node": behind.node, "port": behind.port, "vpcs": [vpc]})
            self.put(f"vpcs/{vpc}/endpoints/{kind}", {"service": name, "ip": address(number), "port": port})
        for (vpc, node), number in MEMBERS.items():
            self.put(f"vpcs/{vpc}/nodes/{node}", {"ip": address(number)})
        for name, policy in POLICIES.items():
            self.put(f"policies/{name}", policy)
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until all switches are there and have what is declared."""
        wait_ready(self.client.url, SWITCHES, READY_NS)


def join_vpcs(network: Network) -> None:
    """Give each member its address."""
    for (_, node), number in MEMBERS.items():
        network.host(node).run(["ip", "address", "add", f"{address(number)}/24", "dev", f"{node}-eth0"])
