"""A pretend host for the kernel builder: programs on a private PATH that act like the real ones."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import pytest

KERNEL_FOLDER = Path(__file__).resolve().parents[3] / "kernel"
sys.path.insert(0, str(KERNEL_FOLDER))

REAL_PROGRAMS = ("bash", "sh", "tar", "xz", "patch", "cp", "cat", "sleep", "touch", "chmod", "mkdir", "sed", "env")

# `make allnoconfig` takes over the fragment (less what DROP names); `make linux` "links" the pretend kernel
MAKE = r"""
case "$*" in
*allnoconfig*)
    for word; do case $word in KCONFIG_ALLCONFIG=*) fragment=${word#*=} ;; esac; done
    sed -e "/^${DROP:-no_such_option}=/d" -e 's/^\(CONFIG_[A-Za-z0-9_]*\)=n$/# \1 is not set/' "$fragment" > .config ;;
*)
    echo "$$" >> "$SHIM_LOG/compiled"
    echo "  CC      init/main.o"
    if [ -n "${SLOW:-}" ]; then touch "$SHIM_LOG/compiling"; sleep "$SLOW"; fi
    if [ -n "${BREAK:-}" ]; then echo "kernel/foo.c:1:1: error: $BREAK"; exit 2; fi
    cp "$SHIM_DATA/pretend-linux" linux ;;
esac
"""

GCC = r"""
case "$*" in
*-dumpfullversion*) echo 12.2.0 ;;
*-E*) [ -z "${NO_LIBC:-}" ] ;;
*) while [ $# -gt 0 ]; do [ "$1" = -o ] && touch "$2"; shift; done ;;
esac
"""

STRIP = r"""cp "$3" "$2" """

APT_GET = r"""
case "$*" in
*indextargets*) cat "$SHIM_DATA/targets" ;;
*update*)
    for word; do
        case $word in
            Dir::State::Lists=*) lists=${word#*=} ;;
            Dir::Etc::SourceList=*) list=${word#*=} ;;
        esac
    done
    cp "$list" "$SHIM_LOG/sources.list"
    [ -n "${NO_NETWORK:-}" ] && { echo "E: Could not resolve the mirror" >&2; exit 100; }
    touch "$lists/a_Packages" ;;
*download*)
    for word; do name=$word; done
    echo "$name" >> "$SHIM_LOG/downloads"
    [ -n "${NO_DOWNLOAD:-}" ] && { echo "E: Failed to fetch" >&2; exit 100; }
    cp "$SHIM_DATA/${name%%=*}.deb" . ;;
esac
"""

APT_CACHE = r"""
case "$*" in
*pkgnames*) sed -n 's/^Package: //p' "$SHIM_DATA/offers" ;;
*show*) cat "$SHIM_DATA/offers" ;;
esac
"""

DPKG_DEB = r"""cat "$2" """

GOOD_BOOT = "echo 'smoke slept_ns=60000000002 random=0123456789abcdef end'"


@dataclass
class PretendHost:
    """A host whose programs are scripts."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def write(self, name: str, script: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{script}\n")
        path.chmod(0o755)

    def boots_as(self, script: str) -> None:
        path = self.data / "pretend-linux"
        path.write_text(f"#!{shutil.which('bash')}\n{script}\n")
        path.chmod(0o755)

    def offer(self, *packages: tuple[str, str], applies: bool = True) -> None:
        """Puts source packages on the mirror, `applies` saying whether our patches fit them."""
        with (self.data / "offers").open("a") as offers:
            for package, version in packages:
                deb = self.data / f"{package}.deb"
                deb.write_bytes(pretend_deb(package, applies))
                offers.write(f"Package: {package}\nVersion: {version}\nSize: {deb.stat().st_size}\n\n")

    def environment(self) -> dict[str, str]:
        return {
            "PATH": str(self.bin),
            "HOME": str(self.folder),
            "SHIM_DATA": str(self.data),
            "SHIM_LOG": str(self.log),
            **self.variables,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts the builder of a private copy of the clone's kernel folder."""
        return subprocess.Popen(
            [sys.executable, str(self.folder / "kernel/build.py"), "--cache", str(self.cache), *arguments],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def build(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def leftovers(self) -> list[str]:
        """What unfinished builds left in the cache."""
        return sorted(path.name for path in self.cache.glob("build-*"))


def pretend_tree(version: str, applies: bool) -> dict[str, bytes]:
    """The files of a kernel source, as far as the builder looks at them."""
    major, minor = version.split(".")[:2]
    return {
        "Kbuild": b"",
        "Makefile": f"VERSION = {major}\nPATCHLEVEL = {minor}\nSUBLEVEL = 5\n".encode(),
        "arch/um/clock.c": b"one\ntwo\nthree\n" if applies else b"something else\n",
    }


def pretend_deb(package: str, applies: bool) -> bytes:
    """What the pretend dpkg-deb prints as the content of a package: a tar with a tar.xz in it."""
    inner, outer = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:xz") as archive:
        for name, content in pretend_tree(package.removeprefix("linux-source-"), applies).items():
            add(archive, f"{package}/{name}", content)
    with tarfile.open(fileobj=outer, mode="w") as archive:
        add(archive, f"./usr/src/{package}.tar.xz", inner.getvalue())
    return outer.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


PATCH = """\
Subject: change the clock

---
--- a/arch/um/clock.c
+++ b/arch/um/clock.c
@@ -1,3 +1,3 @@
 one
-two
+2
 three
"""


@pytest.fixture
def pretend(tmp_path: Path) -> PretendHost:
    """A host that has everything a build needs, and a small patch and fragment to build with."""
    host = PretendHost(tmp_path)
    for folder in (host.bin, host.data, host.log):
        folder.mkdir()
    for program in REAL_PROGRAMS:
        found = shutil.which(program)
        assert found, program
        (host.bin / program).symlink_to(found)
    for name, script in {
        "make": MAKE,
        "gcc": GCC,
        "strip": STRIP,
        "apt-get": APT_GET,
        "apt-cache": APT_CACHE,
        "dpkg-deb": DPKG_DEB,
    }.items():
        host.write(name, script)
    for name in ("ld", "flex", "bison", "bc"):
        host.write(name, "true")
    host.boots_as(GOOD_BOOT)
    keyring = host.data / "keyring.gpg"
    keyring.touch()
    (host.data / "targets").write_text(
        f"http://mirror.example/debian/\toldstable\tbookworm\tDebian\tDebian\tPackages\t{keyring}\n"
    )
    (host.data / "offers").touch()
    shutil.copytree(KERNEL_FOLDER, tmp_path / "kernel", ignore=shutil.ignore_patterns("*.patch", "__pycache__"))
    (tmp_path / "kernel/patches").mkdir(exist_ok=True)
    (tmp_path / "kernel/patches/0001-clock.patch").write_text(PATCH)
    (tmp_path / "kernel/config.fragment").write_text(
        textwrap.dedent("""\
        # what we want
        CONFIG_NET=y
        CONFIG_SMP=n
        """)
    )
    os.environ.pop("PYTHONPATH", None)
    return host
