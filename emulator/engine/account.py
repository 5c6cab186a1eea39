"""Whom a run is for: under sudo, the user who called it."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import HostError


@dataclass(frozen=True)
class Account:
    """A user other than the one this process runs as.

    Attributes:
        uid: User number.
        gid: Primary group number.
        groups: All group numbers.
    """

    uid: int
    gid: int
    groups: tuple[int, ...]

    def may(self, mode: str, path: Path) -> bool:
        """Whether the user may use a path.

        Args:
            mode: ``r``, ``w`` or ``x``, as for ``test``.
            path: What to use.
        """
        command = ["test", f"-{mode}", str(path)]
        done = subprocess.run(command, user=self.uid, group=self.gid, extra_groups=list(self.groups), check=False)
        return done.returncode == 0


def invoking_account(environment: Mapping[str, str] = os.environ) -> Account | None:
    """The user who called sudo, or None if this process already runs as the right user.

    Args:
        environment: Where sudo tells who called it.

    Raises:
        HostError: What sudo tells is not a user.
    """
    if os.geteuid() != 0 or "SUDO_UID" not in environment:
        return None
    try:
        uid = int(environment["SUDO_UID"])
        gid = int(environment.get("SUDO_GID", ""))
        if uid < 0 or gid < 0:
            raise ValueError
    except ValueError:
        raise HostError("SUDO_UID and SUDO_GID are not a user: unset both or call sudo again") from None
    if uid == 0:
        return None
    try:
        groups = tuple(os.getgrouplist(pwd.getpwuid(uid).pw_name, gid))
    except KeyError:
        groups = (gid,)
    return Account(uid, gid, groups)
