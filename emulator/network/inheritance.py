"""Settings of thousands of namespaces at the price of one: the kernel copies some from its first to all new ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from emulator.errors import NodeError
from emulator.network.namespace import Namespace, read_sysctl, write_sysctl

_INHERIT = "net.core.devconf_inherit_init_net"
_COPIED = ("net.ipv4.ip_forward", "net.ipv4.conf.all.", "net.ipv4.conf.default.", "net.ipv6.conf.")
_HERE = "first namespace"


@contextmanager
def inherited(sysctls: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """While this lasts, new namespaces have some settings from the start.

    Only in a machine that was set up so (the virtual engine's are), and then its first namespace has these settings
    meanwhile; elsewhere nothing is touched.

    Args:
        sysctls: What namespaces are to have.

    Yields:
        The settings that a new namespace still lacks, found out by making one.

    Raises:
        NodeError: Namespaces cannot be made.
    """
    with ExitStack() as undo:
        if _copies():
            for key, value in sysctls.items():
                if key.startswith(_COPIED):
                    with suppress(NodeError):  # the namespaces will tell
                        undo.callback(write_sysctl, key, write_sysctl(key, value, _HERE), _HERE)
        sample = Namespace.create("sample")
        undo.callback(sample.close)
        with sample.entered():
            lacking = {key: value for key, value in sysctls.items() if not _has(key, value)}
        yield lacking


def _copies() -> bool:
    try:
        return read_sysctl(_INHERIT, _HERE) == "1"
    except NodeError:  # this is not the first namespace
        return False


def _has(key: str, value: str) -> bool:
    try:
        return read_sysctl(key, "sample").split() == value.split()
    except NodeError:  # no such setting: whoever sets it will say so
        return False
