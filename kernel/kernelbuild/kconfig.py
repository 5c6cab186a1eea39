"""The configuration fragment, and whether a kernel configuration honours it."""

from __future__ import annotations

import re
from pathlib import Path

from .errors import BuildError

_ASSIGNED = re.compile(r"^(CONFIG_[A-Za-z0-9_]+)=(.+)$")
_UNSET = re.compile(r"^# (CONFIG_[A-Za-z0-9_]+) is not set$")
_UNTIL = re.compile(r"^(.*\S)\s+# until (\d+)\.(\d+)$")


def parse_fragment(text: str, name: str = "config.fragment", series: tuple[int, int] = (0, 0)) -> dict[str, str]:
    """Reads the options asked for.

    Args:
        text: lines `CONFIG_X=value`, comments and blank lines. A line that ends in `# until 7.2` does not
            count for later series, where the option no longer exists.
        name: what to call the file in an error.
        series: the kernel series the options are for.

    Returns:
        The value asked for, by option; `n` means off.

    Raises:
        BuildError: a line is neither, or an option is named twice.
    """
    options: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        counts = True
        if until := _UNTIL.match(line):
            line = until[1]
            counts = series <= (int(until[2]), int(until[3]))
        unset = _UNSET.match(line)
        if not unset and (not line or line.startswith("#")):
            continue
        match = _ASSIGNED.match(line)
        if not match and not unset:
            raise BuildError(f"{name}:{number}: not an option: {line!r}", "write CONFIG_NAME=value")
        option, value = (match[1], match[2]) if match else (unset[1], "n") if unset else ("", "")
        if option in options:
            raise BuildError(f"{name}:{number}: {option} is named twice", "keep one of the lines")
        if counts:
            options[option] = value
    return options


def parse_config(text: str) -> dict[str, str]:
    """Reads a `.config`; options that are off have the value `n`."""
    options: dict[str, str] = {}
    for line in text.splitlines():
        if match := _ASSIGNED.match(line):
            options[match[1]] = match[2]
        elif match := _UNSET.match(line):
            options[match[1]] = "n"
    return options


def dropped(fragment: dict[str, str], config: dict[str, str]) -> list[str]:
    """Lists the options whose final value is not the one asked for.

    The kernel's configuration tool drops an option silently when something it
    depends on is off, or when it no longer exists.
    """
    return [
        f"{option}={value} (is {config.get(option, 'absent')})"
        for option, value in fragment.items()
        if config.get(option, "n") != value
    ]


def load_fragment(path: Path, series: tuple[int, int] = (0, 0)) -> dict[str, str]:
    """Reads and parses the fragment at `path` for a kernel series."""
    return parse_fragment(path.read_text(encoding="utf-8"), path.name, series)
