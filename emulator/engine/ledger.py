"""What runs create on the host, written down before it exists, so that it can be removed whatever happens.

Each run of an engine has one folder and one ledger file in a base folder of the user's own::

    /tmp/icgw-<uid>/<pid>-<start>-<n>.ledger      lines: "session <pid> <start>", "cpu <n>"
    /tmp/icgw-<uid>/<pid>-<start>-<n>/            the run's folder

The name holds the owner (process number and start time), the ledger's existence covers the folder of the same name,
and lines are only ever appended: a run that is killed at any moment leaves a ledger that can be acted upon.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from emulator.engine import guard, process
from emulator.engine.account import Account
from emulator.errors import HostError

_NAME = re.compile(r"(?P<pid>\d+)-(?P<start>\d+)-\d+\.ledger")
_SUFFIX = ".ledger"
_REPOSITORY = Path(__file__).resolve().parents[2]
_ATTEMPTS = 20
_PREFIX = "/tmp/icgw-"  # noqa: S108 - short enough for UNIX sockets in it; owner and mode are checked


def base_folder() -> Path:
    """Folder of all runs of the user that this process runs as."""
    return Path(f"{_PREFIX}{os.geteuid()}")


def _own(base: Path) -> None:
    """Make the base folder, or make sure that the existing one is nobody else's.

    Raises:
        HostError: Somebody else made it.
    """
    # Others may pass through (a run's folder may belong to the invoking user), but see and change nothing.
    try:
        base.mkdir(mode=0o711)
    except FileExistsError:
        found = base.lstat()
        if base.is_symlink() or not base.is_dir() or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise HostError(f"{base} is not a private folder of this user: remove it") from None
    except OSError as error:
        raise HostError(f"cannot make {base}: {error.strerror}") from None


class Ledger:
    """The ledger and folder of one run. Use as a context: on leaving, everything named is ended and removed.

    Args:
        account: Who the run's folder is for, if not this process's own user.
        base: Folder of all runs of this user.

    Attributes:
        folder: The run's folder.
    """

    _count = itertools.count()

    def __init__(self, account: Account | None = None, base: Path | None = None) -> None:
        self._base = base_folder() if base is None else base
        self._account = account
        self._guard: subprocess.Popen[bytes] | None = None
        me = process.find(os.getpid())
        if me is None:
            raise HostError("/proc is not mounted")
        self.folder = self._base / f"{me.pid}-{me.start_ticks}-{next(self._count)}"
        self._path = self.folder.with_name(self.folder.name + _SUFFIX)

    def __enter__(self) -> Ledger:
        try:
            self._make_ledger()
            self.folder.mkdir(mode=0o700)
            if self._account is not None:
                os.chown(self.folder, self._account.uid, self._account.gid)
            self._guard = _start_guard(self._path)
        except OSError as error:
            remove_run(self._path)
            raise HostError(f"cannot make {self.folder}: {error.strerror}") from None
        return self

    def _make_ledger(self) -> None:
        for attempt in itertools.count():
            _own(self._base)
            sweep(self._base)
            try:
                self._path.touch(mode=0o600, exist_ok=False)
            except FileNotFoundError:
                # Another run ended in between and took the empty base folder with it.
                if attempt >= _ATTEMPTS:
                    raise
            else:
                return

    def __exit__(self, *_: object) -> None:
        remove_run(self._path)
        if self._guard is not None:
            self._guard.communicate()

    def add_session(self, pid: int) -> None:
        """Name a session of processes (its first process has just been started)."""
        found = process.find(pid)
        if found is not None:
            self._add(f"session {pid} {found.start_ticks}\n")

    def add_cpu(self, cpu: int) -> None:
        """Say that this run keeps a CPU busy, so that other runs may take another one."""
        self._add(f"cpu {cpu}\n")

    def _add(self, line: str) -> None:
        with self._path.open("a", encoding="ascii") as file:
            file.write(line)

    def cpus_of_others(self) -> Counter[int]:
        """How many living runs of this user, other than this one, said that they keep a CPU busy."""
        found: Counter[int] = Counter()
        for path in self._base.glob(f"*{_SUFFIX}"):
            if path != self._path and _owner_lives(path):
                found.update({cpu for (cpu,) in _lines(path, r"cpu (\d+)")})
        return found


def _start_guard(ledger: Path) -> subprocess.Popen[bytes]:
    """Start the guard of a run; it does its work when the returned process's standard input is closed."""
    return subprocess.Popen(
        [sys.executable, "-IS", guard.__file__, str(_REPOSITORY), str(ledger)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,  # a Ctrl-C is not for it
    )


def _lines(path: Path, pattern: str) -> list[tuple[int, ...]]:
    """The numbers in all lines of a ledger that match a pattern; a line cut short does not."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return []
    matches = (re.fullmatch(pattern, line) for line in text.splitlines())
    return [tuple(int(group) for group in match.groups()) for match in matches if match]


def _owner_lives(path: Path) -> bool:
    match = _NAME.fullmatch(path.name)
    return match is not None and process.is_running(int(match["pid"]), int(match["start"]))


def remove_run(path: Path) -> list[str]:
    """End and remove what a ledger names, then the ledger, and the base folder if no other run is in it.

    Args:
        path: The ledger. It stays, for a later attempt, if the folder cannot be removed.

    Returns:
        What there was, one text each.
    """
    removed = []
    for pid, start_ticks in _lines(path, r"session (\d+) (\d+)"):
        leader = process.find(pid)
        # If the number belongs to another process by now, the session is gone: numbers of living sessions stay taken.
        if (leader is None or leader.start_ticks == start_ticks) and process.end_session(pid):
            removed.append(f"processes of session {pid}")
    folder = path.with_name(path.name.removesuffix(_SUFFIX))
    if folder.is_dir() and not folder.is_symlink():
        # Somebody else may be removing the same: the run's guard, the next run, ``clean``.
        shutil.rmtree(folder, ignore_errors=True)
        if folder.is_dir():
            return removed
        removed.append(str(folder))
    path.unlink(missing_ok=True)
    with suppress(OSError):
        path.parent.rmdir()
    return removed


def sweep(base: Path) -> list[str]:
    """Remove what runs left behind whose owner is no more.

    Args:
        base: Folder of all runs of a user.

    Returns:
        What was removed, one text each. Nothing that no ledger names is touched.
    """
    removed: list[str] = []
    if not base.is_dir() or base.is_symlink() or base.lstat().st_uid != os.geteuid():
        return removed
    for path in sorted(base.glob(f"*{_SUFFIX}")):
        if _NAME.fullmatch(path.name) and not _owner_lives(path):
            removed += remove_run(path)
    return removed


def clean() -> list[str]:
    """Remove what this user's runs left behind; for ``icgw clean``.

    Returns:
        What was removed, one text each.
    """
    return sweep(base_folder())
