"""Where built kernels are kept: outside the clone, one folder for each key.

<cache>/<source version>-<hash of the tree>/linux      the kernel
                                           /meta.json  what it was made from
<cache>/build-<random>/                                a build in progress
<cache>/log/<hash of the tree>.log                     of the last failed build
<cache>/lock                                           held while building
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from . import versions
from .errors import HostProblem
from .progress import Progress

SYSTEM_CACHE = Path("/var/cache/icgw/kernel")


def user_cache(environment: Mapping[str, str]) -> Path:
    """The cache of an ordinary user."""
    base = environment.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path(environment.get("HOME", "") or "/tmp") / ".cache"  # noqa: S108
    return root / "icgw" / "kernel"


class Cache:
    """The kernels built so far, in one or several places.

    Args:
        places: folders to look in; new kernels go to the first.
    """

    def __init__(self, *places: Path) -> None:
        self._places = places
        self.home = places[0]

    @classmethod
    def default(cls, environment: Mapping[str, str], uid: int) -> Cache:
        """Root's kernels are for everybody; others' are their own, but root's are found too."""
        own = user_cache(environment)
        return cls(SYSTEM_CACHE, own) if uid == 0 else cls(own, SYSTEM_CACHE)

    def find(self, digest: str) -> Path | None:
        """The kernel made from the tree with this hash, from the newest source; None if there is none."""
        found: list[tuple[object, Path]] = []
        for place in self._places:
            for kernel in place.glob(f"*-{digest}/linux"):
                if os.access(kernel, os.X_OK) and kernel.is_file():
                    version = kernel.parent.name[: -len(digest) - 1]
                    found.append((versions.version_key(version), kernel))
        best: Path | None = None
        best_key: object = None
        for key, kernel in found:
            if best is None or key > best_key:  # type: ignore[operator]
                best, best_key = kernel, key
        return best

    def log_path(self, digest: str) -> Path:
        """Where the log of a failed build is kept."""
        return self.home / "log" / f"{digest}.log"

    @contextmanager
    def lock(self, progress: Progress, interval_s: float = 0.5) -> Iterator[None]:
        """Holds the lock of the cache; says so if it has to wait for another build."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "lock").open("a+", encoding="ascii") as stream:
            waiting = False
            while True:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not waiting:
                        stream.seek(0)
                        holder = stream.read(20).strip()
                        progress.phase("wait", f"process {holder or '?'} is building a kernel")
                        waiting = True
                    time.sleep(interval_s)
            stream.seek(0)
            stream.truncate()
            stream.write(f"{os.getpid()}\n")
            stream.flush()
            yield

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A folder to build in, removed afterwards come what may; call with the lock held."""
        for stale in self.home.glob("build-*"):  # left by a build that was killed; nobody else holds the lock
            shutil.rmtree(stale, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix="build-", dir=self.home))
        try:
            yield folder
        finally:
            remove_tree(folder)

    def install(self, kernel: Path, version: str, digest: str, meta: Mapping[str, object]) -> Path:
        """Moves a kernel into the cache, in one step as seen by others.

        Args:
            kernel: the program, on the same file system.
            version: of the source.
            digest: hash of the tree.
            meta: facts to keep beside it.

        Returns:
            Where it is now.
        """
        name = re.sub(r"[^A-Za-z0-9.+~-]", "_", version)
        final = self.home / f"{name}-{digest}"
        staging = Path(tempfile.mkdtemp(prefix="build-", dir=self.home))
        try:
            shutil.move(kernel, staging / "linux")
            (staging / "meta.json").write_text(json.dumps(meta, indent=2, sort_keys=True) + "\n", encoding="utf-8")
            (staging / "linux").chmod(0o755)
            (staging / "meta.json").chmod(0o644)
            staging.chmod(0o755)
            if final.exists():  # a kernel that was there but could not be used
                shutil.rmtree(final)
            staging.rename(final)
        finally:
            remove_tree(staging)
        return final / "linux"


def remove_tree(folder: Path) -> None:
    """Removes a folder; another Ctrl-C meanwhile does not leave half of it."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def prepare(folder: Path) -> None:
    """Makes the cache folder, readable by everybody if root makes it.

    Raises:
        HostProblem: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0 and folder == SYSTEM_CACHE:
            folder.chmod(0o755)
            folder.parent.chmod(0o755)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if error.errno == 28:
            raise
        raise HostProblem(
            f"the kernel cache {folder} cannot be written ({error.strerror})", "name another place with --cache DIR"
        ) from error
