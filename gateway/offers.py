"""What daemons offer over their control sockets: all of them something, and each kind more of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from emulator.messages import gateway as messages


class Controlled(Protocol):
    """What every daemon offers."""

    mode: str
    """What kind of daemon it is."""

    def stats(self) -> dict[str, Any]:
        """All figures, as plain data."""
        ...

    def drain(self) -> None:
        """Take in no more; call `ControlServer.finished` when nothing is held any more."""
        ...

    def stop(self) -> None:
        """Drain, then end."""
        ...


@runtime_checkable
class Reloadable(Protocol):
    """A daemon that can read its files again."""

    def reload(self) -> dict[str, Any]:
        """Read them, and say what is in force now; on errors nothing changes.

        Raises:
            EmulatorError: A file is wrong.
        """
        ...


@runtime_checkable
class Profiled(Protocol):
    """A daemon whose processing has a price."""

    def profile(self) -> dict[str, Any]:
        """What it costs now."""
        ...

    def set_profile(self, profile: messages.Profile) -> None:
        """Let it cost something else."""
        ...


@runtime_checkable
class Steered(Protocol):
    """A daemon that decides about flows by policies."""

    def policies(self, known: int | None = None) -> dict[str, Any]:
        """``revision`` and ``policies``, which are None if the revision still is *known*."""
        ...

    def set_policies(self, policies: messages.Policies, if_revision: int | None) -> int:
        """Take policies over, and return their revision.

        Raises:
            Refused: They cannot be, or the revision is another one; nothing changed.
        """
        ...

    def list_flows(self, after: int, limit: int, tenant: int | None) -> dict[str, Any]:
        """``flows`` and ``next``."""
        ...

    def install_flows(self, flows: Sequence[messages.Flow]) -> int:
        """Decide about flows, and return how many there are now.

        Raises:
            Refused: One of them cannot be; none was installed.
        """
        ...

    def delete_flows(self, keys: Sequence[messages.FlowKey] | None) -> int:
        """Forget flows (None: all), and return how many were there."""
        ...


@runtime_checkable
class Upgradable(Protocol):
    """A daemon that can hand over to its successor."""

    def hand_over(self) -> tuple[dict[str, Any], list[int]]:
        """What the successor must know, and descriptors that it gets copies of; nothing may change after that.

        Raises:
            EmulatorError: Not now; this daemon goes on.
        """
        ...


_OPERATIONS: tuple[tuple[type[Any] | None, tuple[str, ...]], ...] = (
    (None, ("hello", "stats", "drain", "stop")),
    (Reloadable, ("reload",)),
    (Profiled, ("profile.get", "profile.set")),
    (Steered, ("policies.get", "policies.set", "flows.list", "flows.install", "flows.delete")),
    (Upgradable, ("upgrade",)),
)


def operations(daemon: Controlled) -> list[str]:
    """What a daemon can be asked in version 2."""
    return [op for kind, ops in _OPERATIONS if kind is None or isinstance(daemon, kind) for op in ops]
