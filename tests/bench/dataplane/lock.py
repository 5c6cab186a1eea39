"""One benchmark of the data plane at a time on a host: two would take the CPUs from each other by their priorities."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.errors import HostError

FILE = Path("/run/icgw-bench-dataplane.lock")


@contextmanager
def only_one(file: Path = FILE) -> Iterator[None]:
    """Keep others out until the block ends, or this process does, however that ends.

    Raises:
        HostError: Another one is running, or the file cannot be made.
    """
    try:
        # Programs that are started do not inherit it, so it does not outlive this process in one of them.
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise HostError(f"cannot open {file}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "?"
            raise HostError(
                f"process {holder} is measuring the data plane on this host: two benchmarks would starve each other,"
                " so wait until it has ended"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
