"""Holds packets of a sending host until the time that each of them states, before they reach the host's own link.

The host's interface carries the emulated link's queue, which knows nothing of departure times. So packets of one UDP
port are led around: from the interface's egress hook to an `ifb` device whose `fq` queue keeps every packet until its
time (`SO_TXTIME`), and from there back to the interface. To the link they arrive at exactly that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from emulator.engine.host import HostHandle
from emulator.workloads.programs import run_program

_DEVICE = "icgwpace"
_PRIORITY = "7"
_MOST_PACKETS = "1000000"
_HORIZON = "1000s"


@contextmanager
def paced(host: HostHandle, interface: str, port: int, what: str) -> Iterator[None]:
    """While this lasts, UDP packets from *host* to *port* leave *interface* at their own times.

    Args:
        host: The sender.
        interface: Through which its packets leave.
        port: UDP destination port of the packets.
        what: Workload on whose behalf, for messages.

    Raises:
        WorkloadError: The kernel lacks `ifb`, `fq`, `clsact` or `mirred`.
    """

    def tool(*argv: str) -> str:
        return run_program(host, argv, what)

    with ExitStack() as undo:
        tool("ip", "link", "add", _DEVICE, "type", "ifb")
        undo.callback(tool, "ip", "link", "delete", _DEVICE)
        tool("ip", "link", "set", _DEVICE, "up")
        tool("tc", "qdisc", "replace", "dev", _DEVICE, "root", "fq", "limit", _MOST_PACKETS, "flow_limit",
             _MOST_PACKETS, "horizon", _HORIZON, "timer_slack", "1ns")  # fmt: skip
        if "clsact" not in tool("tc", "qdisc", "show", "dev", interface):
            tool("tc", "qdisc", "add", "dev", interface, "clsact")
            undo.callback(tool, "tc", "qdisc", "delete", "dev", interface, "clsact")
        at = ("dev", interface, "egress", "protocol", "ip", "prio", _PRIORITY)
        match = ("match", "ip", "protocol", "17", "0xff", "match", "ip", "dport", str(port), "0xffff")
        tool("tc", "filter", "add", *at, "u32", *match, "action", "mirred", "egress", "redirect", "dev", _DEVICE)
        undo.callback(tool, "tc", "filter", "delete", *at)
        yield
