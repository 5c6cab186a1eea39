"""The builder as a program: what it prints, its exit codes, what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from pathlib import Path

import pytest

from .conftest import GOOD_BOOT, PretendHost, pretend_tree


def the_error(stderr: str) -> str:
    """The error line, which must be the only one and the last, with no traceback."""
    assert "Traceback" not in stderr
    lines = [line for line in stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, stderr
    assert stderr.splitlines()[-1] == lines[0]
    return lines[0]


def test_builds_and_prints_the_path_last(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    result = pretend.build()
    assert result.returncode == 0, result.stderr
    kernel = Path(result.stdout.splitlines()[-1])
    assert kernel.parent.parent == pretend.cache
    assert kernel.parent.name.startswith("7.2.5-1-")
    assert stat.S_IMODE(kernel.stat().st_mode) == 0o755
    assert stat.S_IMODE(kernel.parent.stat().st_mode) == 0o755
    meta = json.loads((kernel.parent / "meta.json").read_text())
    assert meta["source_version"] == "7.2.5-1"
    assert len(meta["source_sha256"]) == 64
    assert pretend.leftovers() == []
    for phase in ("find source", "download", "unpack", "patch", "configure", "compile", "try", "install"):
        assert f"kernel: {phase}" in result.stderr


def test_second_run_finds_what_the_first_built(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    first = pretend.build()
    second, found = pretend.build(), pretend.build("--print-path")
    assert first.stdout == second.stdout == found.stdout
    assert (second.returncode, found.returncode) == (0, 0)
    assert len((pretend.log / "compiled").read_text().splitlines()) == 1
    assert second.stderr == ""


@pytest.mark.parametrize("changed", ["config.fragment", "patches/0001-clock.patch"])
def test_a_changed_input_is_another_kernel(pretend: PretendHost, changed: str) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    assert pretend.build().returncode == 0
    path = pretend.folder / "kernel" / changed
    path.write_text("# more\n" + path.read_text())
    assert pretend.build("--print-path").returncode == 3


def test_print_path_without_a_kernel(pretend: PretendHost) -> None:
    result = pretend.build("--print-path")
    assert result.returncode == 3
    assert result.stdout == ""
    assert "kernel/build.py" in the_error(result.stderr)
    assert not pretend.cache.exists()


def test_asks_own_suites_and_then_newer_ones(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    pretend.build()
    lines = (pretend.log / "sources.list").read_text().splitlines()
    assert [line.split()[3] for line in lines] == ["bookworm", "trixie-backports", "forky", "sid"]
    assert all(f"[signed-by={pretend.data}/keyring.gpg] http://mirror.example/debian/" in line for line in lines)


def test_takes_the_newest(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-6.12", "6.12.1-1"), ("linux-source-7.8", "7.8.5-1"), ("linux-source-7.9", "7.9.1-1"))
    assert pretend.build().returncode == 0
    assert (pretend.log / "downloads").read_text() == "linux-source-7.9=7.9.1-1\n"


def test_falls_back_when_patches_do_not_apply_and_says_so(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.9", "7.9.1-1"), applies=False)
    pretend.offer(("linux-source-7.8", "7.8.5-1"))
    result = pretend.build()
    assert result.returncode == 0
    assert "/7.8.5-1-" in result.stdout
    assert "linux-source-7.9 7.9.1-1 is not suitable: 0001-clock.patch does not apply" in result.stderr


def test_no_source_takes_the_patches(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.3", "7.3.1-1"), applies=False)
    result = pretend.build()
    assert result.returncode == 4
    assert "0001-clock.patch does not apply" in the_error(result.stderr)
    assert pretend.leftovers() == []


def test_dropped_option_fails_and_is_named(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    pretend.variables["DROP"] = "CONFIG_NET"
    result = pretend.build()
    assert result.returncode == 4
    assert "CONFIG_NET=y (is absent)" in the_error(result.stderr)


@pytest.mark.parametrize("program", ["flex", "bison", "gcc", "apt-get", "patch"])
def test_missing_program(pretend: PretendHost, program: str) -> None:
    (pretend.bin / program).unlink()
    result = pretend.build()
    assert result.returncode == 3
    error = the_error(result.stderr)
    assert program in error
    assert "apt-get install" in error


def test_missing_headers(pretend: PretendHost) -> None:
    pretend.variables["NO_LIBC"] = "1"
    result = pretend.build()
    assert result.returncode == 3
    assert "libc6-dev" in the_error(result.stderr)


def test_nothing_suitable_on_offer(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-6.12", "6.12.1-1"))
    result = pretend.build()
    assert result.returncode == 3
    assert "at least 7.2" in the_error(result.stderr)


def test_no_mirror(pretend: PretendHost) -> None:
    (pretend.data / "targets").write_text("")
    result = pretend.build()
    assert result.returncode == 3
    assert "no Debian mirror" in the_error(result.stderr)


def test_no_network(pretend: PretendHost) -> None:
    pretend.variables["NO_NETWORK"] = "1"
    result = pretend.build()
    assert result.returncode == 3
    assert "Could not resolve the mirror" in the_error(result.stderr)


def test_download_fails(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    pretend.variables["NO_DOWNLOAD"] = "1"
    result = pretend.build()
    assert result.returncode == 3
    assert "could not be downloaded (E: Failed to fetch)" in the_error(result.stderr)
    assert pretend.leftovers() == []


def test_wrong_checksum(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    offers = pretend.data / "offers"
    offers.write_text(offers.read_text().rstrip() + f"\nSHA256: {'0' * 64}\n")
    result = pretend.build()
    assert result.returncode == 4
    assert "wrong checksum" in the_error(result.stderr)


def test_damaged_package(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    (pretend.data / "linux-source-7.2.deb").write_bytes(b"not a package")
    result = pretend.build()
    assert result.returncode == 4
    assert "could not be unpacked" in the_error(result.stderr)


def test_compile_error_keeps_the_log(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    pretend.variables["BREAK"] = "no such thing"
    result = pretend.build()
    assert result.returncode == 4
    error = the_error(result.stderr)
    assert "kernel/foo.c:1:1: error: no such thing" in error
    log = Path(error.rpartition("the log is ")[2])
    assert "no such thing" in log.read_text()
    assert pretend.leftovers() == []
    assert pretend.build("--print-path").returncode == 3


def test_disk_fills_up_while_compiling(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    pretend.variables["BREAK"] = "No space left on device"
    result = pretend.build()
    assert result.returncode == 3
    assert "disk filled up" in the_error(result.stderr)
    assert pretend.leftovers() == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'Kernel panic - not syncing: errno = 14'; exit 1", "Kernel panic - not syncing: errno = 14"),
        ("exit 1", "no output"),
        ("echo 'smoke slept_ns=60000050000 random=0123456789abcdef end'", "clock is wrong"),
        ('echo "smoke slept_ns=60000000001 random=0123456789ab$((1000 + $$ % 9000)) end"', "not deterministic"),
    ],
    ids=["panics", "silent", "inexact", "random"],
)
def test_kernel_that_does_not_work_is_not_installed(pretend: PretendHost, script: str, said: str) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    pretend.boots_as(script)
    result = pretend.build()
    assert result.returncode == 4
    assert said in the_error(result.stderr)
    assert pretend.build("--print-path").returncode == 3
    pretend.boots_as(GOOD_BOOT)
    assert pretend.build().returncode == 0


def test_given_tree_is_not_changed(pretend: PretendHost) -> None:
    tree = pretend.folder / "given"
    for name, content in pretend_tree("7.4", applies=True).items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    (pretend.bin / "apt-get").unlink()
    result = pretend.build("--source", str(tree))
    assert result.returncode == 0, result.stderr
    assert "/7.4.5-" in result.stdout
    assert (tree / "arch/um/clock.c").read_bytes() == b"one\ntwo\nthree\n"
    assert not (tree / "linux").exists()


@pytest.mark.parametrize(
    ("version", "applies", "code", "said"),
    [("6.12", True, 3, "too old"), ("7.9", False, 4, "does not apply")],
)
def test_given_tree_that_will_not_do(pretend: PretendHost, version: str, applies: bool, code: int, said: str) -> None:
    tree = pretend.folder / "given"
    for name, content in pretend_tree(version, applies).items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    result = pretend.build("--source", str(tree))
    assert result.returncode == code
    assert said in the_error(result.stderr)


def test_given_source_does_not_exist(pretend: PretendHost) -> None:
    result = pretend.build("--source", "/no/such/tree")
    assert result.returncode == 3
    assert "/no/such/tree does not exist" in the_error(result.stderr)


def test_given_folder_is_no_kernel(pretend: PretendHost) -> None:
    result = pretend.build("--source", str(pretend.data))
    assert result.returncode == 4
    assert "is not a kernel source" in the_error(result.stderr)


def test_bad_fragment(pretend: PretendHost) -> None:
    (pretend.folder / "kernel/config.fragment").write_text("CONFIG_NET=y\nnonsense\n")
    result = pretend.build()
    assert result.returncode == 4
    assert "config.fragment:2: not an option" in the_error(result.stderr)


def test_bad_argument_is_a_usage_error(pretend: PretendHost) -> None:
    result = pretend.build("--jobs", "0")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_cache_is_a_file(pretend: PretendHost) -> None:
    pretend.cache.write_text("in the way")
    result = pretend.build()
    assert result.returncode == 3
    assert "--cache" in the_error(result.stderr)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def test_two_at_once_build_once(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    pretend.variables["SLOW"] = "1"
    first = pretend.start()
    wait_for(pretend.log / "compiling")
    second = pretend.start()
    out1, err1 = first.communicate(timeout=60)
    out2, err2 = second.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0), err1 + err2
    assert out1 == out2
    assert f"process {first.pid} is building" in err2
    assert len((pretend.log / "compiled").read_text().splitlines()) == 1


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_build_leaves_nothing(pretend: PretendHost, signum: signal.Signals) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    pretend.variables["SLOW"] = "600"
    process = pretend.start()
    wait_for(pretend.log / "compiling")
    process.send_signal(signum)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted" in the_error(err)
    assert pretend.leftovers() == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((pretend.log / "compiled").read_text()), 0)
    pretend.variables["SLOW"] = ""
    assert pretend.build().returncode == 0


def test_killed_build_is_cleared_away_by_the_next(pretend: PretendHost) -> None:
    pretend.offer(("linux-source-7.2", "7.2.5-1"))
    (pretend.cache / "build-left").mkdir(parents=True)
    (pretend.cache / "build-left" / "big").touch()
    assert pretend.build().returncode == 0
    assert pretend.leftovers() == []
