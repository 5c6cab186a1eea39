"""A kernel source tree: unpacked from a package or an archive, or taken as it is."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

from . import host
from .errors import BuildError, BuildFailure, HostProblem, UnsuitableSource
from .progress import Progress

#: What a User-Mode-Linux build never reads; leaving it packed saves time and a third of the space.
SKIPPED = (
    *(
        f"*/arch/{name}/*.[chS]"  # not Kconfig: common files include it
        for name in (
            *("alpha", "arc", "arm", "arm64", "csky", "hexagon", "loongarch", "m68k", "microblaze", "mips"),
            *("nios2", "openrisc", "parisc", "powerpc", "riscv", "s390", "sh", "sparc", "xtensa"),
        )
    ),
    "*.dts",
    "*.dtsi",
    "*/tools/testing",
    "*/tools/perf",
    "*/drivers/gpu/drm/*/*/*.[ch]",
    "*/drivers/gpu/drm/*/*.[ch]",
    "*/drivers/net/ethernet/*/*.[ch]",
    "*/drivers/net/ethernet/*/*/*.[ch]",
    "*/drivers/net/wireless/*/*/*.[ch]",
    "*/drivers/media/*/*/*.[ch]",
    "*/sound/*/*/*.[ch]",
    "*/Documentation/*.rst",
    "*/Documentation/devicetree",
)


def unpack_package(deb: Path, package: str, folder: Path, progress: Progress, log: Path) -> Path:
    """Unpacks the source archive inside a Debian source-code package.

    Returns:
        The source tree.

    Raises:
        BuildFailure: the package is damaged.
    """
    member = f"./usr/src/{package}.tar.xz"
    script = 'set -o pipefail; dpkg-deb --fsys-tarfile "$1" | tar -xO -f - "$2" | tar -xJ -C "$3" "${@:4}"'
    return _unpack(
        ["bash", "-c", script, "unpack", str(deb), member, str(folder), *_excludes()], folder, deb.name, progress, log
    )


def unpack_archive(archive: Path, folder: Path, progress: Progress, log: Path) -> Path:
    """Unpacks a source archive such as `linux-7.2.tar.xz`.

    Returns:
        The source tree.

    Raises:
        BuildFailure: the archive is damaged.
    """
    return _unpack(
        ["tar", "-x", "-f", str(archive), "-C", str(folder), *_excludes()], folder, archive.name, progress, log
    )


def copy_tree(source: Path, folder: Path, log: Path) -> Path:
    """Copies a source tree, so that the original is not changed.

    Raises:
        BuildFailure: it cannot be copied.
    """
    target = folder / "source"
    code = host.watch(["cp", "-a", "--reflink=auto", str(source), str(target)], log=log, tick=lambda: None)
    if code != 0:
        raise BuildFailure(f"{source} could not be copied ({host.tail(log)})", f"see {log}")
    return target


def _excludes() -> list[str]:
    return [f"--exclude={pattern}" for pattern in SKIPPED]


def _unpack(argv: list[str], folder: Path, name: str, progress: Progress, log: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    free_before = shutil.disk_usage(folder).free

    def tick() -> None:
        written = max(0, free_before - shutil.disk_usage(folder).free)
        progress.step(written, 1.2e9, f"{written / 1e6:.0f} MB")

    if host.watch(argv, log=log, tick=tick) != 0:
        reason = host.tail(log)
        if "No space left" in reason:
            raise HostProblem(f"the disk filled up while {name} was unpacked", "free some space or use --cache DIR")
        raise BuildFailure(f"{name} could not be unpacked ({reason})", f"the log is {log}")
    trees = [path for path in folder.iterdir() if (path / "Kbuild").exists()]
    if len(trees) != 1:
        raise BuildFailure(f"{name} holds no kernel source", "pass a kernel source of at least 7.2 with --source")
    return trees[0]


def version_of(tree: Path) -> str:
    """The kernel version a source tree says it has.

    Raises:
        BuildError: it is no kernel source.
    """
    try:
        head = (tree / "Makefile").read_text(encoding="utf-8", errors="replace")[:2000]
    except OSError:
        head = ""
    parts: dict[str, str] = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) *= *(\d+)", head, re.M))
    if not {"VERSION", "PATCHLEVEL"} <= parts.keys() or not (tree / "arch" / "um").is_dir():
        raise BuildError(f"{tree} is not a kernel source", "name its top folder or its archive with --source")
    return ".".join(parts[name] for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL") if name in parts)


def series_of(tree: Path) -> tuple[int, int]:
    """The kernel series of a source tree, such as (7, 2)."""
    major, minor = version_of(tree).split(".")[:2]
    return int(major), int(minor)


def apply_patches(tree: Path, patches: tuple[Path, ...], progress: Progress, log: Path) -> None:
    """Applies our patches, in order.

    Raises:
        UnsuitableSource: one does not apply.
    """
    for number, path in enumerate(patches):
        progress.step(number, len(patches), path.name)
        with path.open(encoding="utf-8") as stream:
            result = host.run(
                ["patch", "-p1", "--batch", "--forward", "--no-backup-if-mismatch", "-d", str(tree)],
                stdin=stream.read(),
            )
        with log.open("a", encoding="utf-8") as stream:
            stream.write(f"== {path.name}\n{result.stdout}{result.stderr}")
        if result.returncode != 0:
            raise UnsuitableSource(f"{path.name} does not apply", f"the log is {log}")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            total.update(chunk)
    return total.hexdigest()
