"""Making sense of what a kernel printed: why it did not do its work, in one clause."""

from __future__ import annotations

import re

from emulator.engine.guest import COMPLAINT
from emulator.units import format_size

# What the kernel always says on a healthy boot, and what is of no interest to whoever reads the job's log.
_HARMLESS = (
    "Failed to initialize ubd device",
    "Warning: tempdir ",
    "reboot: ",
    "initcall ",
)
_STAMP = re.compile(r"^(?:<\d>)?\[\s*\d+\.\d+\]\s*(?:\[[^\]]*\]\s*)?")
_NO_SECCOMP = "SECCOMP userspace requested but not functional"


def lines_of(text: str) -> list[str]:
    """The lines that matter, without time stamps."""
    found = (_STAMP.sub("", line.strip()).strip() for line in text.splitlines())
    return [line for line in found if line and not line.startswith(_HARMLESS)]


def refuses_seccomp(text: str) -> bool:
    """Whether the kernel did not start because the host offers no seccomp filters."""
    return _NO_SECCOMP in text


def explain_panic(reason: str, memory_bytes: int) -> str:
    """One clause for a panic.

    Args:
        reason: What the kernel gave as its reason.
        memory_bytes: Memory of the emulated machine.
    """
    lowered = reason.lower()
    if "out of memory" in lowered:
        return f"the emulated machine ran out of its {format_size(memory_bytes)} of memory"
    if "no working init" in lowered or "requested init" in lowered:
        return f"the kernel cannot start its first program: {reason}"
    if "unable to mount root" in lowered:
        return "the kernel cannot use the host's root file system"
    return f"the kernel panicked: {reason}"


def explain_end(text: str, message: str, status: int, memory_bytes: int) -> str:
    """One clause for a kernel that ended without saying how the job ended.

    Args:
        text: Everything it printed.
        message: The panic that its status page names, or nothing.
        status: How its process ended: exit status, or minus the signal.
        memory_bytes: Memory of the emulated machine.
    """
    lines = lines_of(text)
    for line in lines:
        if line.startswith(COMPLAINT):
            return f"the machine's {line}"
        _, found, reason = line.partition("Kernel panic - not syncing: ")
        if found and not message:
            message = reason
    if message:
        return explain_panic(message, memory_bytes)
    how = f"signal {-status}" if status < 0 else f"status {status}"
    said = f": {lines[-1][:200]}" if lines else " and printed nothing"
    return f"the kernel does not boot: it ended with {how}{said}"
