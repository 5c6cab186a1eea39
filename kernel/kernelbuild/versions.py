"""Which kernel source to take: Debian versions, and the order of preference."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The oldest series that runs here: earlier ones cannot save the registers of
#: CPUs with large vector units and lack the seccomp mode.
MINIMUM = (7, 2)

#: Series the patches were written for and measured on. They are preferred to
#: newer ones, which are tried when none of these is offered.
KNOWN_GOOD = ((7, 2),)

_PACKAGE = re.compile(r"^linux-source-(\d+)\.(\d+)$")


@dataclass(frozen=True)
class Offer:
    """A source package that a mirror offers."""

    package: str
    version: str
    size_bytes: int
    sha256: str

    @property
    def series(self) -> tuple[int, int]:
        """The kernel series, such as (7, 2)."""
        match = _PACKAGE.match(self.package)
        if not match:
            raise ValueError(f"not a kernel source package: {self.package}")
        return int(match[1]), int(match[2])


def is_source_package(name: str) -> bool:
    """Whether `name` is a versioned kernel source package."""
    return _PACKAGE.match(name) is not None


def version_key(version: str) -> tuple[tuple[int, str | int], ...]:
    """A sort key that orders version strings as Debian does.

    Digits compare as numbers, `~` sorts before the end of the string, letters
    before other characters.
    """
    epoch, _, rest = version.partition(":") if ":" in version else ("0", "", version)
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "0")
    key: list[tuple[int, str | int]] = [(2, int(epoch) if epoch.isdigit() else 0)]
    for part in (upstream, revision):
        for piece in re.findall(r"\d+|\D", part):
            if piece.isdigit():
                key.append((2, int(piece)))
            elif piece == "~":
                key.append((-1, piece))
            else:
                key.append((3, piece) if piece.isalpha() else (4, piece))
        key.append((0, ""))
    return tuple(key)


def in_order(offers: list[Offer]) -> list[Offer]:
    """Sorts what is offered, best first, and leaves out what is too old.

    Known good series come before others; within these groups the newest comes
    first. Of one series only the newest version is kept.
    """
    newest: dict[tuple[int, int], Offer] = {}
    for offer in offers:
        series = offer.series
        if series < MINIMUM:
            continue
        if series not in newest or version_key(offer.version) > version_key(newest[series].version):
            newest[series] = offer
    return sorted(newest.values(), key=lambda offer: (offer.series in KNOWN_GOOD, offer.series), reverse=True)
