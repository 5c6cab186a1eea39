"""What ``mn --custom topologies/mn.py`` brings into Mininet: topologies, links, hosts, switches, checks and clean-up.

This runs on the system's Python with Mininet and the standard library only. It is an entry point, like a command line,
so it may join topologies and the network package. Errors become one line and an exit code; Mininet's own handling would
print a banner, exit with 0 and remove things that are not ours.
"""

from __future__ import annotations

import atexit
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from mininet.link import Link
from mininet.log import info
from mininet.node import Host

from emulator.errors import EmulatorError, TopologyError, UnitError
from emulator.model.fabric import LinkSpec
from emulator.network import capability
from emulator.network.bridge_switch import SERVICE, UNDO, BridgeSwitch
from emulator.network.lazy_node import LazyHost
from emulator.network.netlink_intf import FabricLink
from emulator.units import parse_rate, parse_share, parse_size, parse_time
from topologies import FABRICS, checks
from topologies.mininet_topo import FabricTopo
from topologies.mn_forwarding import Forwarder, Forwarding
from topologies.words import asks_for_shaping, fabric_from_words

_TERMINATED = 128 + signal.SIGTERM


@contextmanager
def one_line() -> Iterator[None]:
    """Turn an error into its line and exit code; what was made is removed on the way out."""
    try:
        yield
    except EmulatorError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - this is a command's own error line
        raise SystemExit(error.exit_code) from None


class _Wishes:
    """What the command line asked for, as far as it matters later."""

    shaping = False
    switchless: str | None = None
    """The topology, if it has no switch that Mininet could wire something to."""


def _topology(name: str) -> Callable[..., FabricTopo]:
    def make(*positional: object, **named: object) -> FabricTopo:
        with one_line():
            fabric = fabric_from_words(name, positional, named)
        _Wishes.shaping = asks_for_shaping(name, positional, named)
        _Wishes.switchless = None if fabric.switches else name
        return FabricTopo(fabric, forwarder=MnForwarder)

    make.__name__ = name
    return make


class MnProcessHost(Forwarding, Host):  # type: ignore[misc]
    """The default: Mininet's own host, with a process each."""

    errors = staticmethod(one_line)


class MnForwarder(Forwarder):
    """A switch of a supernode that routes."""

    errors = staticmethod(one_line)


class MnHost(Forwarding, LazyHost):  # type: ignore[misc]
    """``--host lazy``: a host without a process until a command is given to it."""

    errors = staticmethod(one_line)

    def __init__(self, name: str, **params: Any) -> None:
        with one_line():
            super().__init__(name, **params)
        UNDO.callback(self.terminate)


class MnLink(FabricLink):
    """``--link icgw``: shaped as the topology says, or as the words say: ``--link icgw,rate=10Gbit/s,delay=5us``."""

    shapes = True

    def __init__(
        self,
        node1: Any,
        node2: Any,
        spec: LinkSpec | None = None,
        rate: str | None = None,
        delay: str | None = None,
        mtu: str | None = None,
        loss: str | None = None,
        queue: int | None = None,
        storage_share: str | float | None = None,
        **options: Any,
    ) -> None:
        with one_line():
            words: dict[str, Any] = {"rate": rate, "delay": delay, "mtu": mtu, "loss": loss, "queue": queue}
            words["storage_share"] = storage_share
            spec = adapted(spec, {key: value for key, value in words.items() if value is not None})
            if type(self).shapes:
                capability.require_queues(f"{node1}--{node2}", spec, userspace=SERVICE.userspace)
            options = {**options, "spec": spec, "checksum_offload": not SERVICE.userspace, "shaped": type(self).shapes}
            super().__init__(node1, node2, **options)
        UNDO.callback(self.delete)


class MnPlainLink(MnLink):
    """The same without rate, delay and queue, where the kernel has no netem."""

    shapes = False


_LINK_WORDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "rate": ("rate_bps", parse_rate),
    "delay": ("delay_ns", parse_time),
    "mtu": ("mtu_bytes", parse_size),
    "loss": ("loss_ppm", parse_share),
    "queue": ("queue_packets", lambda value: checks.count("queue", value, least=1, most=10_000_000)),
    "storage_share": ("storage_share", checks.storage_share),
}


def adapted(spec: LinkSpec | None, words: Mapping[str, Any]) -> LinkSpec:
    """A link's properties with those replaced that the command line gives.

    Args:
        spec: Of the topology; None where it is not one of ours.
        words: ``rate``, ``delay``, ``mtu``, ``loss`` with their units, ``queue`` in packets, ``storage_share`` as a
            share or a number below 1.

    Raises:
        TopologyError: An impossible value; names the word.
    """
    base = spec or LinkSpec(checks.DEFAULT_RATE_BPS, checks.DEFAULT_DELAY_NS, mtu_bytes=1500)
    changes = {}
    for word, value in words.items():
        field, parse = _LINK_WORDS[word]
        try:
            changes[field] = parse(value)
        except UnitError as error:
            raise TopologyError(error.reason, key=f"link {word}") from None
    return replace(base, **changes)


def default_link(node1: Any, node2: Any, **options: Any) -> Any:
    """Without ``--link``: links of our topologies are shaped where the kernel can, all others are Mininet's own."""
    if "spec" not in options:
        return Link(node1, node2, **options)
    return (MnLink if _can_shape() else MnPlainLink)(node1, node2, **options)


_shaping: list[bool] = []


def _can_shape() -> bool:
    if not _shaping:
        with one_line():
            _shaping.append(capability.has_netem())
    return _shaping[0]


class MnSwitch(BridgeSwitch):
    """The default switch: see `BridgeSwitch`."""

    @classmethod
    def setup(cls) -> None:
        """Find Open vSwitch or start it."""
        with one_line():
            super().setup()

    @classmethod
    def batchStartup(cls, switches: Any, run: Any = None) -> Any:  # noqa: N802
        """Start all switches."""
        with one_line():
            return super().batchStartup(switches, run)


def validate(options: Any) -> None:
    """Called by ``mn`` before anything is made: what cannot be had is refused here."""
    for word in ("nat", "innamespace"):
        if _Wishes.switchless and getattr(options, word, False):
            with one_line():
                raise TopologyError(f"--{word} needs an OpenFlow switch, and {_Wishes.switchless} has none here")
    link = str(options.link).partition(",")[0]
    if link == "icgw" or (link == "default" and _Wishes.shaping):
        with one_line():
            capability.require_netem()
    elif link == "default" and not _can_shape():
        info(f"*** This kernel has no netem: links have no rate, delay or queue ({capability.VIRTUAL_ENGINE})\n")


def cleanup() -> None:
    """Called by ``mn`` after an error or Ctrl-C instead of its own, which kills by name: remove what this run made."""
    UNDO.close()


def _terminated(_number: int, _frame: object) -> None:
    raise SystemExit(_TERMINATED)


topos = {name: _topology(name) for name in FABRICS}
hosts = {"proc": MnProcessHost, "lazy": MnHost}
links = {"default": default_link, "icgw": MnLink}
switches = {"default": MnSwitch, "ovs": MnSwitch, "ovsk": MnSwitch, "ovsbr": MnSwitch}

# Mininet 2.3.0 merges every dictionary of a custom file into its own but `links`, by a missing comma; any other name
# becomes one of its globals. So its table of links is handed over whole.
LINKS = {**getattr(sys.modules.get("__main__"), "LINKS", {}), **links}

atexit.register(cleanup)
signal.signal(signal.SIGTERM, _terminated)
