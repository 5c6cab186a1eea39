"""What runs leave behind is found and removed; what they did not make is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.engine import process
from emulator.engine.ledger import Ledger, sweep
from emulator.errors import HostError

DEAD = "999999999-1"  # no such process number


def dead_run(base: Path, lines: str = "") -> Path:
    """What a run whose process is no more leaves: a ledger and a folder with something in it."""
    base.mkdir(mode=0o711, exist_ok=True)
    (base / f"{DEAD}-0.ledger").write_text(lines)
    folder = base / f"{DEAD}-0"
    (folder / "m0").mkdir(parents=True)
    (folder / "m0" / "init").write_text("x")
    return folder


def test_a_run_removes_what_it_made(base: Path) -> None:
    """After the context the folder, the ledger and the then empty base are gone."""
    with Ledger(base=base) as ledger:
        (ledger.folder / "file").write_text("x")
        assert ledger.folder.stat().st_mode & 0o777 == 0o700
    assert not base.exists()


def test_two_runs_of_one_process_do_not_meet(base: Path) -> None:
    """Runs that overlap have folders of their own, and the first to end does not take the other's."""
    with Ledger(base=base) as first:
        with Ledger(base=base) as second:
            assert first.folder != second.folder
        assert first.folder.is_dir()
        assert not second.folder.exists()


def test_the_next_run_sweeps_after_a_dead_one(base: Path) -> None:
    """A run whose process is gone is cleaned up by whoever comes next, a living one is not touched."""
    folder = dead_run(base)
    with Ledger(base=base) as living:
        assert not folder.exists()
        assert sweep(base) == []
        assert living.folder.is_dir()


def test_the_owner_is_the_very_process(base: Path) -> None:
    """A process that got the dead owner's number later does not protect its folder."""
    base.mkdir(mode=0o711)
    mine = process.find(os.getpid())
    for start_ticks, stays in ((mine.start_ticks, True), (mine.start_ticks - 1, False)):
        folder = base / f"{os.getpid()}-{start_ticks}-0"
        folder.mkdir()
        folder.with_name(folder.name + ".ledger").touch()
        sweep(base)
        assert folder.exists() is stays


def test_only_what_a_ledger_names_is_removed(base: Path, tmp_path: Path) -> None:
    """Foreign files in the base folder, look-alikes without a ledger, and targets of links survive."""
    treasure = tmp_path / "treasure"
    (treasure / "deep").mkdir(parents=True)
    folder = dead_run(base)
    (folder / "link").symlink_to(treasure)
    (base / "notes.txt").write_text("mine")
    (base / f"{DEAD}-7").mkdir()
    (base / f"{DEAD}-8.ledger").touch()
    (base / f"{DEAD}-8").symlink_to(treasure)
    assert sweep(base) == [str(folder)]
    assert sorted(entry.name for entry in base.iterdir()) == [f"{DEAD}-7", f"{DEAD}-8", "notes.txt"]
    assert (treasure / "deep").is_dir()


def test_a_ledger_cut_short_is_no_obstacle(base: Path) -> None:
    """A run killed in the middle of a line: complete lines count, the rest and any rubbish is ignored."""
    folder = dead_run(base, "session 999999998 17\ncpu 1\nsess\xfeion 12\nsession 1")
    assert sweep(base) == [str(folder)]
    assert not base.exists()


def test_processes_that_outlived_their_owner_are_ended(
    base: Path, gone: Callable[[Path], bool], tmp_path: Path
) -> None:
    """All processes of a named session are ended, also when its first process has gone already."""
    script = f"sleep 1000 & echo $! > {tmp_path}/child; echo x > {tmp_path}/ready"
    leader = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    start_ticks = process.find(leader.pid).start_ticks
    leader.wait()
    folder = dead_run(base, f"session {leader.pid} {start_ticks}\n")
    assert sweep(base) == [f"processes of session {leader.pid}", str(folder)]
    assert gone(tmp_path / "child")


def test_a_session_number_that_was_used_again_is_left_alone(base: Path) -> None:
    """A living process whose number a dead run had named, but which started at another time, is not ours."""
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        dead_run(base, f"session {stranger.pid} {process.find(stranger.pid).start_ticks + 1}\n")
        sweep(base)
        assert stranger.poll() is None
        stranger.kill()
        assert stranger.wait() == -signal.SIGKILL


@pytest.mark.parametrize("what", ["link", "file", "open"])
def test_a_base_folder_that_is_not_ours_is_refused(base: Path, tmp_path: Path, what: str) -> None:
    """In a folder that everybody can write to, somebody else's base folder is not trusted."""
    if what == "link":
        (tmp_path / "elsewhere").mkdir()
        base.symlink_to(tmp_path / "elsewhere")
    elif what == "file":
        base.touch()
    else:
        base.mkdir()
        base.chmod(0o777)
    with pytest.raises(HostError, match="is not a private folder of this user"), Ledger(base=base):
        pass


def test_cpus_of_other_runs(base: Path) -> None:
    """Another living run's CPUs are known, one's own and a dead run's do not count."""
    with Ledger(base=base) as one, Ledger(base=base) as two:
        dead_run(base, "cpu 5\n")
        one.add_cpu(0)
        two.add_cpu(1)
        two.add_cpu(1)
        assert dict(one.cpus_of_others()) == {1: 1}
        assert dict(two.cpus_of_others()) == {0: 1}


def test_a_name_in_proc_can_hold_anything(tmp_path: Path) -> None:
    """Brackets and blanks in a program's name do not confuse its number, session and start."""
    program = tmp_path / "a) Z 1 (2"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "1000"], start_new_session=True) as running:
        found = process.find(running.pid)
        assert (found.pid, found.parent, found.session) == (running.pid, os.getpid(), running.pid)
        assert process.is_running(running.pid, found.start_ticks)
        running.kill()


def killed_run(base: Path, repository: Path, victims: str) -> None:
    """A run in a process of its own that kills itself, or its guard and itself, while its folder exists."""
    code = (
        "import os, pathlib, signal, sys\n"
        "from emulator.engine.ledger import Ledger\n"
        "with Ledger(base=pathlib.Path(sys.argv[1])) as ledger:\n"
        "    (ledger.folder / 'file').touch()\n"
        f"    for victim in {victims}:\n"
        "        os.kill(victim, signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, base], cwd=repository, check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_killed_run_is_cleaned_up_by_its_guard(base: Path, repository: Path, eventually: Callable) -> None:
    """SIGKILL leaves nothing to the engine; its guard removes folder, ledger and base."""
    killed_run(base, repository, "(os.getpid(),)")
    eventually(lambda: not base.exists())


def test_a_run_killed_together_with_its_guard_is_swept(base: Path, repository: Path) -> None:
    """Even then the ledger tells the next sweep what to remove."""
    killed_run(base, repository, "(ledger._guard.pid, os.getpid())")
    assert len(list(base.iterdir())) == 2
    assert len(sweep(base)) == 1
    assert not base.exists()
