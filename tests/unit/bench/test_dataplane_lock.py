"""Two benchmarks of the data plane never run at a time, and none is kept out by one that is no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.errors import HostError
from tests.bench.dataplane.bed import left_behind
from tests.bench.dataplane.lock import only_one

_HOLDS = """
import subprocess, sys
from pathlib import Path
from tests.bench.dataplane.lock import only_one
with only_one(Path(sys.argv[1])):
    child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    sys.stdin.read()
"""


def test_a_second_one_is_refused(tmp_path: Path) -> None:
    """The refusal is one line that names who is measuring; afterwards, also after an error, the next one may."""
    file = tmp_path / "lock"
    with only_one(file):
        with (
            pytest.raises(HostError, match=f"^process {os.getpid()} is measuring the data plane") as refused,
            only_one(file),
        ):
            pass
        assert "\n" not in str(refused.value)
    with pytest.raises(KeyboardInterrupt), only_one(file):
        raise KeyboardInterrupt
    with only_one(file):
        assert file.read_text() == f"{os.getpid()}\n"


def test_who_is_killed_holds_nothing(tmp_path: Path) -> None:
    """Killed in the middle, with a process of its own still running: the lock is free at once."""
    file = tmp_path / "lock"
    argv = [sys.executable, "-c", _HOLDS, str(file)]
    holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = 0
    try:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        with pytest.raises(HostError, match=f"process {holder.pid} "), only_one(file):
            pass
        holder.kill()
        holder.wait()
        with only_one(file):
            assert Path(f"/proc/{child}").exists()
    finally:
        holder.kill()
        holder.communicate()
        if child:
            os.kill(child, 9)


@pytest.mark.parametrize("what", ["missing/lock", "link"])
def test_a_file_that_cannot_be(tmp_path: Path, what: str) -> None:
    """A folder that is not there, or a link to somewhere else: one line, and nothing is written there."""
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(HostError, match=f"^cannot open {tmp_path / what}: "), only_one(tmp_path / what):
        pass
    assert not (tmp_path / "target").exists()


def test_what_killed_ones_left_is_found(tmp_path: Path) -> None:
    """Namespaces of processes that are no more, and no others."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    for name in (f"b{ended.pid}-gw", f"b{ended.pid}-left", f"b{os.getpid()}-gw", f"b{ended.pid}-else", "b-gw", "gw"):
        (tmp_path / name).touch()
    assert left_behind(tmp_path) == [f"b{ended.pid}-gw", f"b{ended.pid}-left"]
