"""Tests of telling virtual time from real time."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.linux.virtual_clock import clock_is_virtual


@pytest.mark.parametrize(
    ("words", "virtual"),
    [
        ("mem=1G time-travel=inf-cpu time-travel-start=10 quiet\n", True),
        ("time-travel", True),
        ("BOOT_IMAGE=/vmlinuz root=/dev/sda quiet\n", False),
        ("time-travel-start=10 no-time-travel=1", False),
        ("", False),
    ],
)
def test_the_command_line_says(tmp_path: Path, words: str, virtual: bool) -> None:
    """Only the word itself counts, with or without a value."""
    line = tmp_path / "cmdline"
    line.write_text(words)
    assert clock_is_virtual(line) is virtual


def test_without_a_command_line_time_is_real(tmp_path: Path) -> None:
    """A machine that hides it is not a virtual-time kernel."""
    assert clock_is_virtual(tmp_path / "none") is False
