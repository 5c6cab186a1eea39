"""The BPF file system, where maps and programs have names that outlive the process that made them."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
from pathlib import Path

from emulator.errors import GatewayError, MissingCapability

_MAGIC = 0xCAFE4A11
_SYSTEM = Path("/sys/fs/bpf")
_libc = ctypes.CDLL(None, use_errno=True)


def is_bpffs(path: Path) -> bool:
    """Whether a folder is in a BPF file system."""
    buffer = ctypes.create_string_buffer(256)
    if _libc.statfs(os.fsencode(path), buffer) != 0:
        return False
    return int.from_bytes(buffer.raw[:8], "little") == _MAGIC


def make_folder(path: Path) -> None:
    """Make a folder for names; where no BPF file system is, one is mounted there.

    The mount belongs to the mount namespace of the caller, and stays when the caller ends.

    Raises:
        GatewayError: It cannot be made.
        MissingCapability: There is no right to mount.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        if is_bpffs(path):
            return
        if any(path.iterdir()):
            raise GatewayError(f"{path} is not in a BPF file system, and not empty: name another folder")
    except (OSError, ValueError) as error:
        if path.is_relative_to(_SYSTEM) and not is_bpffs(_SYSTEM):
            hint = f"mount one at {_SYSTEM} ('ip netns exec' hides the host's), or name a folder elsewhere"
            raise MissingCapability("a BPF file system", hint) from None
        reason = error.strerror if isinstance(error, OSError) else error
        raise GatewayError(f"cannot make {path}: {reason}") from None
    if _libc.mount(b"bpf", os.fsencode(path), b"bpf", ctypes.c_ulong(0), b"mode=0700") != 0:
        reason = os.strerror(ctypes.get_errno())
        raise MissingCapability("a BPF file system", f"mount one at {path}: 'mount -t bpf bpf {path}' ({reason})")


def claim_folder(path: Path) -> int:
    """Take a folder for this process alone, for as long as the descriptor that is returned is open.

    Raises:
        GatewayError: Another process has it.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(fd)
            raise
    except BlockingIOError:
        raise GatewayError(f"{path} belongs to another daemon that runs: each needs a folder of its own") from None
    except OSError as error:
        raise GatewayError(f"cannot use {path}: {error.strerror}") from None
    return fd


def remove_folder(path: Path) -> None:
    """Remove all names in a folder, and the folder; what they named goes if nothing else holds it."""
    with contextlib.suppress(FileNotFoundError):
        for entry in path.iterdir():
            if entry.is_dir():
                remove_folder(entry)
            else:
                entry.unlink()
        with contextlib.suppress(OSError):
            path.rmdir()  # a mount point stays
