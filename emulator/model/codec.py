"""Fabrics as JSON: how a topology travels to the controller and into a results folder."""

from __future__ import annotations

from dataclasses import asdict
from ipaddress import IPv4Interface
from typing import Any

from emulator.errors import TopologyError
from emulator.model.fabric import Aqm, Fabric, Link, LinkSpec, Node, Role


def fabric_to_json(fabric: Fabric) -> dict[str, Any]:
    """Return a JSON object that `fabric_from_json` reads back to an equal fabric."""
    return {
        "name": fabric.name,
        "parameters": {key: str(value) for key, value in fabric.parameters.items()},
        "nodes": [
            {**asdict(node), "role": node.role.value, "ip": str(node.ip) if node.ip else None} for node in fabric.nodes
        ],
        "links": [{**asdict(link), "spec": {**asdict(link.spec), "aqm": link.spec.aqm.value}} for link in fabric.links],
    }


def fabric_from_json(data: dict[str, Any]) -> Fabric:
    """Read a fabric back.

    Raises:
        TopologyError: The object does not describe a valid fabric.
    """
    try:
        nodes = tuple(
            Node(**{**node, "role": Role(node["role"]), "ip": IPv4Interface(node["ip"]) if node["ip"] else None})
            for node in data["nodes"]
        )
        links = tuple(
            Link(**{**link, "spec": LinkSpec(**{**link["spec"], "aqm": Aqm(link["spec"]["aqm"])})})
            for link in data["links"]
        )
        return Fabric(data["name"], nodes, links, dict(data["parameters"]))
    except (KeyError, TypeError, ValueError) as error:
        raise TopologyError(f"not a fabric description: {error}") from None
