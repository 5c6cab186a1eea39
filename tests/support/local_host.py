"""A host handle for unit tests: programs run on this machine, in no namespace of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from emulator.errors import CommandError


class LocalHost:
    """Runs everything where the test runs."""

    name = "here"
    ip = "127.0.0.1"
    interfaces = ("lo",)

    def run(self, argv: Sequence[str], *, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
        if check and done.returncode:
            raise CommandError(argv, done.returncode, done.stderr, self.name)
        return done

    def popen(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(argv, env=env, text=True, **options)

    def namespace(self) -> AbstractContextManager[None]:
        """Stay here."""
        return nullcontext()


def program(folder: Path, name: str, script: str) -> Path:
    """A shell script that stands in for a program."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
