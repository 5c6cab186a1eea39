"""What a workload or daemon needs of an emulated host, whoever provides it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class HostHandle(Protocol):
    """A running host: a network namespace in which programs can be started.

    Attributes:
        name: Its name in the fabric.
        ip: Its address without prefix length.
        interfaces: Names of its interfaces, in port order.
    """

    name: str
    ip: str
    interfaces: tuple[str, ...]

    def run(self, argv: Sequence[str], *, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command to its end in the host; text output is captured.

        Raises:
            CommandError: It ended with a non-zero status and *check* is true.
        """
        ...

    def popen(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command in the host; it is ended at the latest when the network stops."""
        ...

    def namespace(self) -> AbstractContextManager[None]:
        """Put the calling thread into the host's network namespace, for opening sockets there."""
        ...
