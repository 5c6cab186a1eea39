"""Starting a program that must not outlive this process."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emulator.engine.account import Account

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def spawn(
    command: Sequence[str],
    output: Path,
    environment: Mapping[str, str],
    *,
    cpu: int | None = None,
    account: Account | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, killed by the kernel as soon as this process is gone.

    Args:
        command: Program and arguments.
        output: File that takes what it prints.
        environment: All of its environment.
        cpu: The one host CPU that it may use, if only one.
        account: Who it runs as, if not this process's own user.

    Raises:
        OSError, subprocess.SubprocessError: It cannot be started.
    """
    parent = os.getpid()

    def last_steps() -> None:
        # After the user was changed, which would clear it. The parent may be gone already: then nobody would signal.
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # An emulated machine holds a file of the host open for every one that its programs have opened so far.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    user: dict[str, Any] = {}
    if account is not None:
        user = {"user": account.uid, "group": account.gid, "extra_groups": list(account.groups)}
    with output.open("wb") as printed:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
            preexec_fn=last_steps,
            **user,
        )
