"""Configures and compiles a patched kernel source."""

from __future__ import annotations

from pathlib import Path

from . import host, kconfig, source
from .errors import BuildFailure, HostProblem, UnsuitableSource
from .progress import Progress

#: How many files a build compiles and archives, for the percentage only.
EXPECTED_STEPS = 1950

#: Nothing of the builder or the moment goes into the kernel.
_FIXED = {
    "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
    "KBUILD_BUILD_USER": "icgw",
    "KBUILD_BUILD_HOST": "icgw",
    "KBUILD_BUILD_VERSION": "1",
}


#: Reads the headers that most files share only once, which halves the time of a build.
_COMPILER = Path(__file__).with_name("cc.sh")


def configure(tree: Path, fragment: Path, log: Path) -> None:
    """Makes the configuration: nothing but the fragment and what it depends on.

    Raises:
        UnsuitableSource: an option asked for did not survive.
    """
    asked = kconfig.load_fragment(fragment, source.series_of(tree))
    target = tree / ".icgw-fragment"
    target.write_text("".join(f"{option}={value}\n" for option, value in asked.items()), encoding="utf-8")
    code = host.watch(
        ["make", "ARCH=um", f"KCONFIG_ALLCONFIG={target}", "allnoconfig"],
        log=log,
        tick=lambda: None,
        cwd=tree,
        env=_FIXED,
    )
    if code != 0:
        raise BuildFailure(f"the kernel could not be configured ({host.tail(log)})", f"the log is {log}")
    final = kconfig.parse_config((tree / ".config").read_text(encoding="utf-8"))
    missing = kconfig.dropped(asked, final)
    if missing:
        raise UnsuitableSource(
            f"options of {fragment.name} are not in the configuration: {', '.join(missing)}",
            "correct the fragment: a dependency is off or the option no longer exists",
        )


def compile_kernel(tree: Path, jobs: int, progress: Progress, log: Path) -> Path:
    """Compiles, links and strips the kernel.

    Returns:
        The stripped program.

    Raises:
        BuildFailure: the compiler or the linker failed.
        HostProblem: the disk filled up.
    """
    position = log.stat().st_size if log.exists() else 0
    done = 0

    def tick() -> None:
        nonlocal position, done
        with log.open("rb") as stream:
            stream.seek(position)
            chunk = stream.read()
        position += len(chunk)
        done += sum(line.startswith((b"  CC", b"  AR", b"  AS", b"  HOSTCC")) for line in chunk.splitlines())
        progress.step(done, EXPECTED_STEPS, f"{done} files")

    # Warnings about other people's code help nobody here and cost a tenth of the time.
    argv = ["make", "ARCH=um", f"-j{jobs}", f"CC={_COMPILER}", "KCFLAGS=-w", "linux"]
    code = host.watch(argv, log=log, tick=tick, cwd=tree, env=_FIXED)
    if code != 0:
        reason = host.tail(log, ("error:", "Error", "cannot find", "No space left", "not found"), limit=400)
        if "No space left" in reason:
            raise HostProblem("the disk filled up during the build", "free some space or use --cache DIR")
        raise BuildFailure(f"the kernel did not compile ({reason})", f"the log is {log}")
    result = host.run(["strip", "-o", str(tree / "linux.stripped"), str(tree / "linux")])
    if result.returncode != 0:
        raise BuildFailure(f"the kernel could not be stripped ({result.stderr.strip()})", f"the log is {log}")
    return tree / "linux.stripped"
