"""Mininet nodes that forward for each other, as the cards and switches of supernodes do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from emulator.errors import NodeError
from emulator.linux.foreign_logging import own_logger_class
from emulator.model.routing import FORWARDING_SYSCTLS, MULTIPATH_SYSCTLS

with own_logger_class():
    from mininet.node import Switch


class Forwarding:
    """Mixed into a Mininet host: with the parameter ``ip_lines`` it forwards, and has the routes that these say.

    Attributes:
        errors: Makes the context in which this happens, for those who want errors in their own way.
    """

    errors: Callable[[], AbstractContextManager[None]] = nullcontext

    def config(self, **params: Any) -> Any:
        """Configure as any host, then the routes.

        Raises:
            NodeError: A command failed; repeats what it said.
        """
        ip_lines = params.pop("ip_lines", ())
        result = super().config(**params)  # type: ignore[misc]
        if ip_lines:
            with self.errors():
                start_forwarding(self, ip_lines)
        return result


class Forwarder(Switch):  # type: ignore[misc]
    """A switch that routes: a node with a namespace of its own, which ``pingall`` does not ask for an answer."""

    errors: Callable[[], AbstractContextManager[None]] = nullcontext

    def __init__(self, name: str, ip_lines: Sequence[str], address: str, **params: Any) -> None:
        self._ip_lines = ip_lines
        self._address = address
        super().__init__(name, **{**params, "inNamespace": True})

    def start(self, _controllers: Any) -> None:
        """Give the node its address and routes; it has no controller."""
        own = [f"address add {self._address} dev lo", "link set lo up"]
        with self.errors():
            start_forwarding(self, [*own, *self._ip_lines])

    def defaultIntf(self) -> Any:  # noqa: N802
        """No interface is special: the address is the node's."""
        return None


def start_forwarding(node: Any, ip_lines: Sequence[str]) -> None:
    """Let a Mininet node forward.

    Raises:
        NodeError: A command failed; repeats what it said.
    """
    settings = {**FORWARDING_SYSCTLS, **MULTIPATH_SYSCTLS}
    _run(node, ["sysctl", "-q", "-w", *(f"{key}={value}" for key, value in settings.items())], "")
    _run(node, ["ip", "-batch", "-"], "".join(f"{line}\n" for line in ip_lines))


def _run(node: Any, argv: list[str], text: str) -> None:
    process = node.popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said, _ = process.communicate(text.encode())
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines()
        raise NodeError(f"{node.name}: {argv[0]} failed: {lines[0] if lines else process.returncode}")
