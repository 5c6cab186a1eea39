"""Where to look: interfaces, and the network namespace that they are in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Vantage:
    """Interfaces of one network namespace.

    Attributes:
        interfaces: Their names, unique in the fabric.
        enter: Puts the calling thread into their namespace, for example a host's ``namespace`` method; by default it
            stays where it is, which is where switches are.
        queues: Queues to look at beside the interfaces' own figures, by a name: interface, and the queueing
            discipline's handle.
    """

    interfaces: tuple[str, ...]
    enter: Callable[[], AbstractContextManager[None]] = nullcontext
    queues: Mapping[str, tuple[str, int]] = field(default_factory=dict)
