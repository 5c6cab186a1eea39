"""Writing results folders: whole files, never over something else, one clear line when the machine says no."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from emulator.errors import EngineError, HostError, ScenarioError
from emulator.results import Kind, Record, ResultsFolder, default_folder, write_part, write_side_file, write_text


def record(variant: str) -> Record:
    return Record("s", variant, "w", "m", 1, "ns", Kind.MEASURED, "test")


def test_default_folder() -> None:
    """Results go to results/<scenario> unless something else is asked for."""
    assert default_folder("demo") == Path("results/demo")


def test_make_write_merge(tmp_path: Path) -> None:
    """Parts of cells become one file whatever order they were written in."""
    results = ResultsFolder.create(tmp_path / "a" / "b")
    for index in (1, 0):
        write_part(results.cell(index), [record(f"v{index}")])
    assert [one.variant for one in results.merge_parts(2)] == ["v0", "v1"]
    assert (results.path / "results.json").read_text().count("variant") == 2
    assert sorted(path.name for path in results.path.iterdir()) == [".icgw-results", "cells", "results.json"]


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    """A cell that left nothing makes the merge fail, and no results.json appears."""
    results = ResultsFolder.create(tmp_path / "r")
    write_part(results.cell(0), [record("v0")])
    with pytest.raises(EngineError, match="cell 1 left no records"):
        results.merge_parts(2)
    assert not (results.path / "results.json").exists()


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    """Half a part is not silently taken for a whole one."""
    results = ResultsFolder.create(tmp_path / "r")
    (results.cell(0) / "records.json").write_text("[{")
    with pytest.raises(ScenarioError, match=r"records\.json:1: not valid JSON"):
        results.merge_parts(1)
    (results.cell(0) / "records.json").write_bytes(b"\xff")
    with pytest.raises(EngineError, match="cannot be read"):
        results.merge_parts(1)


def test_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    """Files of an earlier run are gone before the next writes; what the user put beside them stays."""
    results = ResultsFolder.create(tmp_path / "r")
    write_part(results.cell(7), [record("old")])
    for name in ("results.json", "manifest.json", "report.html", "notes.txt"):
        (results.path / name).write_text("old")
    results.close()
    ResultsFolder.create(tmp_path / "r").close()
    assert sorted(path.name for path in results.path.iterdir()) == [".icgw-results", "cells", "notes.txt"]
    assert list((results.path / "cells").iterdir()) == []


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    """A folder with something else in it, or a file, is refused and not touched."""
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "results.json").write_text("mine")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ScenarioError, match="is not empty and not a results folder"):
        ResultsFolder.create(tmp_path / "thesis")
    with pytest.raises(ScenarioError, match="is a file"):
        ResultsFolder.create(tmp_path / "file")
    assert (tmp_path / "thesis" / "results.json").read_text() == "mine"
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["results.json"]


def test_a_link_named_cells_is_not_followed(tmp_path: Path) -> None:
    """Clearing removes a link, never what it points to."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "keep").write_text("keep")
    results = ResultsFolder.create(tmp_path / "r")
    (results.path / "cells").rmdir()
    (results.path / "cells").symlink_to(tmp_path / "elsewhere")
    results.close()
    ResultsFolder.create(tmp_path / "r").close()
    assert (tmp_path / "elsewhere" / "keep").read_text() == "keep"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When there is no space, the error says so, the old file is whole and no temporary one stays."""
    path = tmp_path / "results.json"
    write_text(path, "old")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HostError, match=r"cannot write .*results\.json: No space left on device"):
        write_text(path, "new" * 1000)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.json"]


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of writing is not swallowed and leaves nothing half."""
    path = tmp_path / "results.json"
    write_text(path, "old")

    def interrupt(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.json"]


def test_a_real_full_disk() -> None:
    """The kernel's own full device gives the same line."""
    if not Path("/dev/full").exists():
        pytest.skip("this machine has no /dev/full")
    with pytest.raises(HostError, match="cannot write"):
        write_text(Path("/dev/full/x"), "text")


@pytest.mark.parametrize("path", ["/proc/icgw/results", "a\0b", "/dev/null/x", "x" * 300])
def test_impossible_places(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be written, one line says so."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HostError) as caught:
        ResultsFolder.create(path)
    assert str(caught.value).startswith("cannot write")
    assert "\n" not in str(caught.value)


def test_side_files_are_compact_and_canonical(tmp_path: Path) -> None:
    """Large files are written without spaces and with sorted keys."""
    write_side_file(tmp_path, "x.json", {"b": [1, 2], "a": 1})
    assert (tmp_path / "x.json").read_text() == '{"a":1,"b":[1,2]}\n'
