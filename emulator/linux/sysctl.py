"""Kernel settings of a network namespace, put back as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path("/proc/sys")


def _path(name: str) -> Path:
    return _ROOT / name.replace(".", "/")


def read(name: str) -> str:
    """Read a setting of the calling thread's network namespace, for example ``net.ipv4.tcp_rmem``."""
    return " ".join(_path(name).read_text(encoding="ascii").split())


def write(settings: Mapping[str, str]) -> dict[str, str]:
    """Write settings and return what they were, only those that changed.

    Raises:
        OSError: The kernel has no such setting or refuses the value.
    """
    before = {}
    for name, value in settings.items():
        old = read(name)
        if old != " ".join(value.split()):
            _path(name).write_text(value, encoding="ascii")
            before[name] = old
    return before


@contextmanager
def changed(settings: Mapping[str, str]) -> Iterator[None]:
    """While this lasts, the calling thread's network namespace has these settings.

    The caller stays in the namespace, or enters it again before it leaves this.
    """
    before = write(settings)
    try:
        yield
    finally:
        write(before)
