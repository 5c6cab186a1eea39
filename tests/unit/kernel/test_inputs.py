"""The fragment, the dropped-option check, the key of a tree, and the cache."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from kernelbuild import host
from kernelbuild.cache import SYSTEM_CACHE, Cache, user_cache
from kernelbuild.errors import BuildError, HostProblem
from kernelbuild.kconfig import dropped, load_fragment, parse_config, parse_fragment
from kernelbuild.tree import Tree

from .conftest import KERNEL_FOLDER


def test_fragment_lines() -> None:
    text = '# comment\n\nCONFIG_NET=y\n# CONFIG_SMP is not set\nCONFIG_CHAN="null"\nCONFIG_TIMEOUT=-1\n'
    assert parse_fragment(text) == {
        "CONFIG_NET": "y",
        "CONFIG_SMP": "n",
        "CONFIG_CHAN": '"null"',
        "CONFIG_TIMEOUT": "-1",
    }


@pytest.mark.parametrize("line", ["NET=y", "CONFIG_NET", "CONFIG_NET=", "CONFIG-NET=y"])
def test_bad_lines_are_named(line: str) -> None:
    with pytest.raises(BuildError, match="fragment:2"):
        parse_fragment(f"CONFIG_A=y\n{line}\n", "fragment")


def test_an_option_named_twice() -> None:
    with pytest.raises(BuildError, match="CONFIG_A is named twice"):
        parse_fragment("CONFIG_A=y\n# CONFIG_A is not set\n")


@pytest.mark.parametrize(("series", "counts"), [((7, 1), True), ((7, 2), True), ((7, 3), False), ((8, 0), False)])
def test_options_that_later_series_do_not_have(series: tuple[int, int], counts: bool) -> None:
    options = parse_fragment("CONFIG_A=y  # until 7.2\nCONFIG_B=y\n", series=series)
    assert options == ({"CONFIG_A": "y", "CONFIG_B": "y"} if counts else {"CONFIG_B": "y"})


def test_dropped_options() -> None:
    config = parse_config("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_D=m\nCONFIG_E=y\n")
    asked = {"CONFIG_A": "y", "CONFIG_B": "y", "CONFIG_C": "y", "CONFIG_D": "y", "CONFIG_E": "n", "CONFIG_F": "n"}
    assert dropped(asked, config) == [
        "CONFIG_B=y (is n)",
        "CONFIG_C=y (is absent)",
        "CONFIG_D=y (is m)",
        "CONFIG_E=n (is y)",
    ]


def test_our_fragment_reads_and_asks_for_the_essentials() -> None:
    options = load_fragment(KERNEL_FOLDER / "config.fragment")
    for name in (
        "UML_TIME_TRAVEL_SUPPORT",
        "NET_SCH_NETEM",
        "OPENVSWITCH",
        "NVME_TARGET_TCP",
        "RDMA_RXE",
        "XDP_SOCKETS",
        "NFT_TPROXY",
        "NFSD_V4",
        "INET_TCP_DIAG",
        "HOSTFS",
        "OVERLAY_FS",
    ):
        assert options[f"CONFIG_{name}"] == "y", name
    assert options["CONFIG_MODULES"] == options["CONFIG_SMP"] == "n"


def test_our_patches_say_why_and_are_small() -> None:
    patches = Tree.load(KERNEL_FOLDER).patches
    assert patches
    for path in patches:
        head, _, diff = path.read_text().partition("\n---\n")
        assert re.match(r"Subject: \S.+\nSPDX-License-Identifier: GPL-2.0\n\n\S", head), path.name
        assert len(head.splitlines()) > 5, path.name
        added = [line for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
        assert 0 < len(added) < 400, path.name


def tree_in(folder: Path, **patches: str) -> Tree:
    folder.mkdir(exist_ok=True)
    (folder / "config.fragment").write_text("CONFIG_NET=y\n")
    (folder / "patches").mkdir(exist_ok=True)
    for name, text in patches.items():
        (folder / "patches" / f"{name}.patch").write_text(text)
    return Tree.load(folder)


def test_digest_depends_on_contents_and_not_on_the_place(tmp_path: Path) -> None:
    one, two = tree_in(tmp_path / "one", a="x", b="y"), tree_in(tmp_path / "two", b="y", a="x")
    assert one.digest() == two.digest()
    assert re.fullmatch(r"[0-9a-f]{16}", one.digest())


def test_digest_sees_every_change(tmp_path: Path) -> None:
    trees = [
        tree_in(tmp_path / "0", a="x", b="y"),
        tree_in(tmp_path / "1", a="x"),
        tree_in(tmp_path / "2", a="y", b="x"),
        tree_in(tmp_path / "3", a="xy", b=""),
        tree_in(tmp_path / "4", a="x", c="y"),
    ]
    other = Tree(trees[0].fragment, trees[0].patches, "aarch64")
    assert len({tree.digest() for tree in (*trees, other)}) == len(trees) + 1


def put(place: Path, name: str, mode: int = 0o755) -> Path:
    kernel = place / name / "linux"
    kernel.parent.mkdir(parents=True)
    kernel.touch()
    kernel.chmod(mode)
    return kernel


def test_cache_finds_the_newest_source_in_any_place(tmp_path: Path) -> None:
    put(tmp_path / "own", "7.2.9-1-abc")
    best = put(tmp_path / "system", "7.2.12-1-abc")
    put(tmp_path / "system", "7.3.1-1-def")
    assert Cache(tmp_path / "own", tmp_path / "system").find("abc") == best


def test_cache_passes_over_what_cannot_run(tmp_path: Path) -> None:
    put(tmp_path, "7.2.9-1-abc", mode=0o644)
    assert Cache(tmp_path).find("abc") is None
    assert Cache(tmp_path / "absent").find("abc") is None


def test_places_of_root_and_of_others() -> None:
    own = Path("/home/ada/.cache/icgw/kernel")
    root, other = (Cache.default({"HOME": "/home/ada"}, uid) for uid in (0, 1000))
    assert (root.home, other.home) == (SYSTEM_CACHE, own)
    assert user_cache({"HOME": "/home/ada", "XDG_CACHE_HOME": "/fast"}) == Path("/fast/icgw/kernel")
    assert user_cache({"HOME": "/home/ada", "XDG_CACHE_HOME": "relative"}) == own


def test_workspace_goes_away_on_errors(tmp_path: Path) -> None:
    def interrupted() -> None:
        with Cache(tmp_path).workspace() as work:
            (work / "file").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_too_little_space(tmp_path: Path) -> None:
    with pytest.raises(HostProblem, match=r"GB free, a kernel build needs 1000000000\.0 GB.*--cache"):
        host.check_space(tmp_path, 10**18)
    host.check_space(tmp_path, 1)


def test_full_disk_and_forbidden_place_are_one_line_each() -> None:
    full = host.describe_os_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x"))
    denied = host.describe_os_error(PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/x"))
    assert (full.exit_code, denied.exit_code) == (3, 3)
    assert "disk is full" in str(full)
    assert "cannot use /x: Permission denied" in str(denied)
    assert "\n" not in str(full) + str(denied)


def test_callers_build_variables_do_not_reach_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAKEFLAGS", "ARCH", "CROSS_COMPILE", "KBUILD_OUTPUT", "CFLAGS"):
        monkeypatch.setenv(name, "surprise")
    assert "surprise" not in host.environment().values()
