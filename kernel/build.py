#!/usr/bin/env python3
"""Builds the virtual-time kernel, or finds the one built before.

The last line on standard output is the path of the kernel. Progress goes to
standard error. Exit codes: 0 there is a kernel; 2 a wrong argument; 3 the host
lacks something (with --print-path: there is no kernel yet); 4 a build failed;
130 interrupted. Runs with the system's Python, before anything is installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

from kernelbuild import apt, cache, compiler, host, kconfig, smoke, source, versions  # noqa: E402
from kernelbuild.errors import BuildError, BuildFailure, HostProblem, UnsuitableSource  # noqa: E402
from kernelbuild.progress import Progress  # noqa: E402
from kernelbuild.tree import Tree  # noqa: E402


@dataclass(frozen=True)
class Job:
    """One build: what to build, with what, and where."""

    tree: Tree
    #: its hash when the build began
    digest: str
    store: cache.Cache
    #: a source tree or archive; None: take it from the package mirror
    given: Path | None
    jobs: int
    #: unpacked sources and the downloaded package go here
    work: Path
    log: Path
    progress: Progress


@dataclass(frozen=True)
class Unpacked:
    """A kernel source ready to be patched, and where it came from."""

    tree: Path
    version: str
    sha256: str


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description="Build the virtual-time kernel, or find the one built before; prints its path."
    )
    parser.add_argument(
        "--print-path",
        action="store_true",
        help="only look: print the path of the kernel for this clone, or exit with 3",
    )
    parser.add_argument(
        "--source",
        type=Path,
        metavar="DIR|ARCHIVE",
        help="build from this kernel source instead of a package from the machine's mirror",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="compile N files at once (default: the number of CPUs)",
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep kernels here")
    arguments = parser.parse_args(argv)
    if arguments.jobs < 1:
        parser.error("--jobs: at least 1")
    return arguments


def main(argv: list[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    arguments = parse_arguments(argv)
    progress = Progress()
    try:
        host.interrupted_by_sigterm()
        kernel = get_kernel(arguments, progress)
    except BuildError as error:
        progress.close()
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        progress.close()
        problem = host.describe_os_error(error)
        print(f"error: {problem}", file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        progress.close()
        print("error: interrupted; nothing was left behind", file=sys.stderr)
        return 130
    print(kernel)
    return 0


def get_kernel(arguments: argparse.Namespace, progress: Progress) -> Path:
    """Finds or builds the kernel for this clone.

    Raises:
        BuildError: there is none and it cannot be built.
    """
    tree = Tree.load(FOLDER)
    store = cache.Cache(arguments.cache.resolve()) if arguments.cache else cache.Cache.default(os.environ, os.geteuid())
    digest = tree.digest()
    kernel = store.find(digest)
    if kernel:
        return kernel
    if arguments.print_path:
        raise HostProblem("no virtual-time kernel is built for this clone", "run python3 kernel/build.py")
    check_request(tree, arguments.source)
    cache.prepare(store.home)
    with store.lock(progress):
        kernel = store.find(digest)  # somebody may have built it while we waited
        if kernel:
            return kernel
        host.check_space(store.home)
        with store.workspace() as work:
            job = Job(tree, digest, store, arguments.source, arguments.jobs, work, work / "build.log", progress)
            try:
                return build(job)
            except BuildFailure as error:
                raise keep_log(job, error) from error


def check_request(tree: Tree, given: Path | None) -> None:
    """Checks everything that can be checked before anything is downloaded.

    Raises:
        BuildError: the build would fail.
    """
    if tree.machine != "x86_64":
        raise HostProblem(
            f"the virtual-time kernel runs on x86_64 only, this is {tree.machine}", "use the native engine"
        )
    kconfig.load_fragment(tree.fragment)
    if given is not None and not given.exists():
        raise HostProblem(f"{given} does not exist", "name a kernel source tree or archive with --source")
    host.check_programs(host.BUILD_PROGRAMS if given else {**host.BUILD_PROGRAMS, **host.FETCH_PROGRAMS})
    host.check_c_library()


def keep_log(job: Job, error: BuildFailure) -> BuildFailure:
    """Saves the log of a failed build from the removal of its folder."""
    if not job.log.exists():
        return error
    kept = job.store.log_path(job.digest)
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(job.log, kept)
    return BuildFailure(error.what.replace(str(job.log), str(kept)), f"the log is {kept}")


def build(job: Job) -> Path:
    """Builds from the best source that takes our patches and options.

    Raises:
        BuildError: no source does, or the build failed.
    """
    if job.given is not None:
        job.progress.phase("find source", str(job.given))
        unpacked = unpack_given(job, job.given)
        return build_from(job, unpacked)

    job.progress.phase("find source", "asking the machine's package mirror")
    archive = apt.SourceArchive(job.work / "apt", apt.find_mirrors())
    archive.update()
    offers = versions.in_order(archive.offers())
    if not offers:
        wanted = ".".join(map(str, versions.MINIMUM))
        raise HostProblem(
            f"the package mirror offers no kernel source of at least {wanted}",
            "pass one with --source (a tree or an archive of kernel.org will do)",
        )
    refused: list[str] = []
    for offer in offers:
        folder = job.work / offer.package
        folder.mkdir()
        try:
            return build_from(job, unpack_offer(job, archive, offer, folder))
        except UnsuitableSource as error:
            job.progress.note(f"{offer.package} {offer.version} is not suitable: {error.what}")
            refused.append(f"{offer.package}: {error.what}")
            cache.remove_tree(folder)
    raise BuildFailure(f"no kernel source on offer is suitable ({'; '.join(refused)})", "pass one with --source")


def unpack_given(job: Job, given: Path) -> Unpacked:
    """Copies or unpacks the source named on the command line."""
    job.progress.phase("unpack", given.name)
    if given.is_dir():
        source.version_of(given)
        tree, digest = source.copy_tree(given, job.work, job.log), ""
    else:
        tree, digest = source.unpack_archive(given, job.work / "given", job.progress, job.log), source.sha256_of(given)
    version = source.version_of(tree)
    if source.series_of(tree) < versions.MINIMUM:
        wanted = ".".join(map(str, versions.MINIMUM))
        raise HostProblem(f"{given} is kernel {version}, which is too old", f"{wanted} or later is needed")
    return Unpacked(tree, version, digest)


def unpack_offer(job: Job, archive: apt.SourceArchive, offer: versions.Offer, folder: Path) -> Unpacked:
    """Downloads and unpacks a source package."""
    job.progress.phase("download", f"{offer.package} {offer.version}, {offer.size_bytes / 1e6:.0f} MB")
    deb = archive.download(offer, folder, job.progress, job.log)
    digest = source.sha256_of(deb)
    if offer.sha256 and digest != offer.sha256:
        raise BuildFailure(f"{deb.name} has the wrong checksum", "try again")
    job.progress.phase("unpack", deb.name)
    tree = source.unpack_package(deb, offer.package, folder / "source", job.progress, job.log)
    deb.unlink()
    return Unpacked(tree, offer.version, digest)


def build_from(job: Job, unpacked: Unpacked) -> Path:
    """Patches, configures, compiles, tries and installs one kernel.

    Raises:
        UnsuitableSource: this source does not take our patches or options.
        BuildFailure: it does not compile or boot.
    """
    started = time.monotonic()
    progress = job.progress
    progress.phase("patch", f"{len(job.tree.patches)} patches")
    source.apply_patches(unpacked.tree, job.tree.patches, progress, job.log)
    progress.phase("configure", job.tree.fragment.name)
    compiler.configure(unpacked.tree, job.tree.fragment, job.log)
    progress.phase("compile", f"{unpacked.version}, {job.jobs} at once; this takes some minutes")
    kernel = compiler.compile_kernel(unpacked.tree, job.jobs, progress, job.log)
    progress.phase("try", "two short boots")
    report = smoke.check(kernel, job.work)
    progress.phase("install", f"{kernel.stat().st_size / 1e6:.0f} MB after {time.monotonic() - started:.0f} s")
    meta = {
        "source_version": unpacked.version,
        "source_sha256": unpacked.sha256,
        "tree": job.digest,
        "patches": [path.name for path in job.tree.patches],
        "compiler": host.run(["gcc", "-dumpfullversion"]).stdout.strip(),
        "kernel_sha256": source.sha256_of(kernel),
        "smoke_random": report.random,
    }
    return job.store.install(kernel, unpacked.version, job.digest, meta)


if __name__ == "__main__":
    sys.exit(main())
