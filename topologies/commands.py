"""Routing tables as lines for ``ip -batch``: how stock Mininet hosts get them, and people who want to look."""

from __future__ import annotations

from emulator.model.routing import Routing


def ip_lines(routing: Routing, node: str) -> list[str]:
    """What sets up a node that has its interfaces and its first address already.

    Args:
        routing: Of the fabric.
        node: Which.

    Returns:
        Further addresses, then interfaces, then routes.
    """
    first, *others = routing.addresses(node)
    far = {port: (end, routing.addresses(end.node)[0]) for port, end in routing.far_ends(node).items()}
    name = {
        port: (end.link.a_interface if end.passage.forward else end.link.b_interface) for port, (end, _) in far.items()
    }
    lines = [f"address add {address}/32 dev lo" for address in others]
    lines += [f"link set {interface} up" for interface in name.values()]
    for route in routing.routes(node):
        hops = " ".join(f"nexthop via {far[port][1]} dev {name[port]} onlink" for port in route.ports)
        lines.append(f"route add {route.prefix} src {first} {hops}")
    return lines
