"""Networks are planned here: what the kernel would refuse later, or what could not work, is said before it is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric
from emulator.model.routing import FORWARDING_SYSCTLS, Routing
from emulator.network.capability import require_queues
from emulator.network.collecting import uncollected
from emulator.network.construction import Plan
from emulator.network.namespace import quiet_sysctls
from emulator.network.network import Network
from emulator.network.ports import link_ports


def build(
    fabric: Fabric,
    *,
    controller: str | Sequence[str] | None = None,
    fail_mode: str | None = None,
    shaped: bool = True,
    checksum_offload: bool = True,
    userspace: bool = False,
    sysctls: Mapping[str, str] | None = None,
    seed: int = 1,
    routing: Routing | None = None,
) -> Network:
    """Plan a network; `Network.start`, or entering it as a context, builds it.

    Args:
        fabric: What to build.
        controller: OpenFlow controller such as ``tcp:127.0.0.1:6653``, or several of them; None: none.
        fail_mode: What switches do without a controller: ``secure`` (only flows that they are given) or ``standalone``
            (learning bridges). None: ``secure`` with a controller, else ``standalone``.
        shaped: Whether links have their rate, delay and queue.
        checksum_offload: Whether hosts leave TCP and UDP checksums unfinished, which is free and fine between kernels.
            False where a program reads packets off an interface and sends them on. The userspace datapath is one.
        userspace: Open vSwitch forwards in its daemon, not in the kernel.
        sysctls: To set in every host, such as ``{"net.ipv4.tcp_ecn": "1"}``.
        seed: Of random losses.
        routing: Routes of hosts that forward for each other, as in supernodes; None: all hosts are neighbours.

    Raises:
        LinkError: A link's properties are beyond what the kernel or the userspace datapath can do.
        TopologyError: Learning bridges in a fabric with loops, where broadcasts would circle for ever.
    """
    controllers = (controller,) if isinstance(controller, str) else tuple(controller or ())
    mode = fail_mode or ("secure" if controllers else "standalone")
    if mode == "standalone" and _has_loop(fabric):
        raise TopologyError(f"the switches of {fabric.name!r} form loops: without a controller broadcasts would circle")
    if shaped:
        for link in fabric.links:
            require_queues(link.name, link.spec, userspace=userspace)
    checksums = checksum_offload and not userspace
    with uncollected():
        links = link_ports(fabric, shaped=shaped, checksum_offload=checksums, seed=seed)
    settings = {**quiet_sysctls(), **(FORWARDING_SYSCTLS if routing is not None else {}), **(sysctls or {})}
    return Network(Plan(fabric, links, controllers, mode, settings, userspace, routing))


def _has_loop(fabric: Fabric) -> bool:
    """Whether the switches are joined in more ways than a tree."""
    leader = {switch.name: switch.name for switch in fabric.switches}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for link in fabric.links:
        if link.a in leader and link.b in leader:
            a, b = find(link.a), find(link.b)
            if a == b:
                return True
            leader[a] = b
    return False
