"""Compiles the XDP programs with clang, and finds what was compiled before.

The objects are kept outside the clone (``/var/cache/icgw/bpf``, or ``~/.cache/icgw/bpf``) under a hash of all sources,
flags and the compiler's version. `scripts/setup.sh` runs this; whoever only uses the programs needs no compiler.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from emulator.errors import CommandError, EmulatorError, MissingCapability

SOURCES = Path(__file__).resolve().parent / "bpf"
PROGRAMS = ("steer", "offload")
FLAGS = ("-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror")
_SYSTEM_CACHE = Path("/var/cache/icgw/bpf")
_ARCHITECTURE_HEADERS = Path("/usr/include/x86_64-linux-gnu")


def _places() -> list[Path]:
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if base.startswith("/") else Path(os.environ.get("HOME") or "/tmp") / ".cache"  # noqa: S108
    own = home / "icgw" / "bpf"
    return [_SYSTEM_CACHE, own] if os.geteuid() == 0 else [own, _SYSTEM_CACHE]


def digest() -> str:
    """What the objects are kept under: it changes with every source and flag."""
    state = hashlib.sha256("\0".join(FLAGS).encode())
    for path in sorted(SOURCES.iterdir()):
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()[:16]


def find(program: str) -> Path | None:
    """The object of a program, if it was compiled from the sources as they are."""
    for place in _places():
        path = place / digest() / f"{program}.bpf.o"
        if path.is_file():
            return path
    return None


def object_path(program: str) -> Path:
    """The object of a program, compiled now if need be.

    Raises:
        MissingCapability: It was never compiled, and there is no clang.
        CommandError: The compiler refuses it.
    """
    return find(program) or _compile_all()[program]


def _compile_all() -> dict[str, Path]:
    folder = _places()[0] / digest()
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for program in PROGRAMS:
        # Written aside and renamed, so that nobody ever sees half an object.
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".o")
        os.close(handle)
        try:
            compile_source(SOURCES / f"{program}.bpf.c", Path(temporary))
            Path(temporary).chmod(0o644)
            made[program] = Path(temporary).rename(folder / f"{program}.bpf.o")
        finally:
            Path(temporary).unlink(missing_ok=True)
    return made


def compile_source(source: Path, target: Path) -> None:
    """Compile one source of XDP programs.

    Raises:
        MissingCapability: There is no clang.
        CommandError: The compiler refuses it.
    """
    argv = ["clang", *FLAGS, "-I", str(_ARCHITECTURE_HEADERS), "-c", str(source), "-o", str(target)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError:
        raise MissingCapability("clang", "run 'make setup', which compiles the XDP programs") from None
    if done.returncode:
        raise CommandError(argv, done.returncode, done.stderr)


def main() -> int:
    """Compile what is missing and print where the objects are."""
    try:
        for program in PROGRAMS:
            sys.stdout.write(f"{object_path(program)}\n")
    except EmulatorError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
