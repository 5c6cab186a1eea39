"""Kernel source packages from the machine's own package mirrors.

The mirror is the one the machine's apt is configured for; nothing of the
machine's apt is changed, as lists and cache are private. apt verifies the
signatures with the installed archive keyring.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import host, versions
from .errors import HostProblem
from .progress import Progress
from .versions import Offer

#: Suites to look in beside the machine's own; a kernel needs nothing else from them.
MORE_SUITES = ("trixie-backports", "forky", "sid")

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

_TARGETS = "$(REPO_URI)\t$(SUITE)\t$(CODENAME)\t$(ORIGIN)\t$(LABEL)\t$(CREATED_BY)\t$(SIGNED_BY)"

Runner = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Mirror:
    """A package mirror the machine uses, and the suites it uses of it."""

    uri: str
    suites: tuple[str, ...]
    keyring: Path


def find_mirrors(runner: Runner = host.run, keyring: Path = KEYRING) -> list[Mirror]:
    """Reads the machine's mirrors of the distribution from apt's configuration.

    Raises:
        HostProblem: apt names none, or there is no keyring to trust.
    """
    result = runner(["apt-get", "indextargets", "--format", _TARGETS])
    suites: dict[str, list[str]] = {}
    keyrings: dict[str, Path] = {}
    for line in result.stdout.splitlines():
        fields = [("" if field.startswith("$(") else field) for field in line.split("\t")]
        if len(fields) != 7:
            continue
        uri, suite, codename, origin, label, created_by, signed_by = fields
        if created_by != "Packages" or origin not in ("Debian", "") or label not in ("Debian", ""):
            continue
        if not uri.startswith(("http://", "https://", "file:", "mirror+", "copy:", "ftp://")):
            continue
        names = suites.setdefault(uri, [])
        name = codename or suite
        if name and name not in names:
            names.append(name)
        if signed_by.startswith("/"):
            keyrings.setdefault(uri, Path(signed_by))
    if not suites:
        raise HostProblem(
            "apt on this host has no Debian mirror to get a kernel source from",
            "configure one, or pass a kernel source of at least 7.2 with --source",
        )
    mirrors = []
    for uri, names in suites.items():
        trusted = keyrings.get(uri, keyring)
        if not trusted.exists():
            raise HostProblem(
                f"{trusted} is missing, so packages cannot be verified", "apt-get install debian-archive-keyring"
            )
        mirrors.append(Mirror(uri, tuple(names), trusted))
    return mirrors


class SourceArchive:
    """The mirrors seen through a private apt state below `folder`."""

    def __init__(self, folder: Path, mirrors: Sequence[Mirror], runner: Runner = host.run) -> None:
        self._folder = folder
        self._runner = runner
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(
            "".join(
                f"deb [signed-by={mirror.keyring}] {mirror.uri} {suite} main\n"
                for mirror in mirrors
                for suite in self._suites(mirror)
            ),
            encoding="utf-8",
        )
        options = {
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": folder / "lists",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder / "cache",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
            "Acquire::Retries": "3",
        }
        if os.geteuid() == 0:
            # the private folder need not be open to apt's own user
            options["APT::Sandbox::User"] = "root"
        self._options = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]

    @staticmethod
    def _suites(mirror: Mirror) -> list[str]:
        return list(mirror.suites) + [name for name in MORE_SUITES if name not in mirror.suites]

    def update(self) -> None:
        """Fetches the lists of packages.

        A mirror need not have all suites; the lists it has are enough.

        Raises:
            HostProblem: no list could be had at all.
        """
        result = self._runner(["apt-get", *self._options, "-q", "update"])
        if result.returncode != 0 and not any((self._folder / "lists").glob("*Packages*")):
            reason = next((line for line in result.stderr.splitlines() if line.startswith(("E:", "Err"))), "no answer")
            raise HostProblem(
                f"the package mirror cannot be read ({reason})",
                "check the network, or pass a kernel source with --source",
            )

    def offers(self) -> list[Offer]:
        """Lists the kernel source packages on offer, in no order."""
        names = self._runner(["apt-cache", *self._options, "pkgnames", "linux-source-"]).stdout.split()
        wanted = sorted(name for name in names if versions.is_source_package(name))
        if not wanted:
            return []
        shown = self._runner(["apt-cache", *self._options, "show", *wanted]).stdout
        return parse_offers(shown)

    def download_command(self, offer: Offer) -> list[str]:
        """The command that downloads a package into the current folder."""
        return ["apt-get", *self._options, "-q", "download", f"{offer.package}={offer.version}"]

    def download(self, offer: Offer, folder: Path, progress: Progress, log: Path) -> Path:
        """Downloads a package; apt checks it against the signed lists.

        Raises:
            HostProblem: the download failed.
        """

        def tick() -> None:
            files = [*folder.glob("*.deb"), *(self._folder / "cache/archives/partial").glob("*")]
            done = max((path.stat().st_size for path in files if path.is_file()), default=0)
            progress.step(done, offer.size_bytes, f"{done / 1e6:.0f} of {offer.size_bytes / 1e6:.0f} MB")

        code = host.watch(self.download_command(offer), log=log, tick=tick, cwd=folder)
        found = sorted(folder.glob("*.deb"))
        if code != 0 or not found:
            raise HostProblem(
                f"{offer.package} could not be downloaded ({host.tail(log, ('E:',))})",
                "check the network, or pass a kernel source with --source",
            )
        return found[0]


def parse_offers(text: str) -> list[Offer]:
    """Reads the paragraphs `apt-cache show` prints."""
    offers = []
    for paragraph in re.split(r"\n\s*\n", text):
        fields = dict(
            line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and not line.startswith(" ")
        )
        name = fields.get("Package", "")
        if versions.is_source_package(name) and fields.get("Size", "").isdigit():
            offers.append(Offer(name, fields.get("Version", ""), int(fields["Size"]), fields.get("SHA256", "")))
    return offers
