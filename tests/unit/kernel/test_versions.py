"""Which of the kernel sources on offer is taken."""

from __future__ import annotations

import pytest
from kernelbuild.apt import find_mirrors, parse_offers
from kernelbuild.errors import HostProblem
from kernelbuild.versions import KNOWN_GOOD, Offer, in_order, is_source_package, version_key


def offer(series: str, version: str) -> Offer:
    return Offer(f"linux-source-{series}", version, 1, "")


def order(*offers: Offer) -> list[str]:
    return [f"{entry.package.removeprefix('linux-source-')} {entry.version}" for entry in in_order(list(offers))]


def test_newest_known_good_first() -> None:
    known = [f"{major}.{minor}" for major, minor in sorted(KNOWN_GOOD, reverse=True)]
    assert order(*(offer(series, f"{series}.1-1") for series in sorted(known)))[: len(known)] == [
        f"{series} {series}.1-1" for series in known
    ]


def test_unknown_series_come_after_known_good_ones_newest_first() -> None:
    assert order(offer("7.9", "7.9.1-1"), offer("7.10", "7.10.1-1"), offer("7.2", "7.2.1-1")) == [
        "7.2 7.2.1-1",
        "7.10 7.10.1-1",
        "7.9 7.9.1-1",
    ]


def test_too_old_is_left_out() -> None:
    assert order(offer("6.12", "6.12.9-1"), offer("7.1", "7.1.9-1")) == []


def test_one_version_of_each_series() -> None:
    assert order(offer("7.2", "7.2.9-1~bpo13+1"), offer("7.2", "7.2.12-1~bpo13+1")) == ["7.2 7.2.12-1~bpo13+1"]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("7.2.9-1", "7.2.12-1"),
        ("7.2.12-1~bpo13+1", "7.2.12-1"),
        ("7.2.12-1~bpo13+1", "7.2.12-1~bpo13+2"),
        ("7.2~rc4-1", "7.2-1"),
        ("7.2.1-1", "7.10.1-1"),
        ("7.2.1-9", "7.2.1-10"),
        ("9.9-1", "1:1.0-1"),
    ],
)
def test_versions_compare_as_debian_does(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


@pytest.mark.parametrize("name", ["linux-source", "linux-source-7.2-rt", "linux-source-7", "linux-image-7.2"])
def test_other_packages_are_no_sources(name: str) -> None:
    assert not is_source_package(name)


def test_offers_are_read_from_apt() -> None:
    text = (
        "Package: linux-source-7.2\nVersion: 7.2.12-1\nSize: 164744800\nSHA256: 73ca\n"
        "Description: source\n Package: not this\n\n"
        "Package: linux-source\nVersion: 7.2\nSize: 10\n\n"
        "Package: linux-source-7.3\nVersion: 7.3.4-1\n"
    )
    assert parse_offers(text) == [Offer("linux-source-7.2", "7.2.12-1", 164744800, "73ca")]


class Answer:
    def __init__(self, stdout: str) -> None:
        self.stdout = stdout
        self.stderr = ""
        self.returncode = 0


def mirrors_of(tmp_path, *lines: str):
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    return find_mirrors(lambda _argv: Answer("\n".join(lines)), keyring)


def test_mirrors_and_their_suites(tmp_path) -> None:
    own = tmp_path / "own.gpg"
    own.touch()
    found = mirrors_of(
        tmp_path,
        "http://one/debian/\toldstable\tbookworm\tDebian\tDebian\tPackages\t$(SIGNED_BY)",
        "http://one/debian/\toldstable\tbookworm\tDebian\tDebian\tTranslations\t$(SIGNED_BY)",
        "http://one/debian/\toldstable-updates\tbookworm-updates\tDebian\tDebian\tPackages\t$(SIGNED_BY)",
        "http://one/security/\tx\tbookworm-security\tDebian\tDebian-Security\tPackages\t$(SIGNED_BY)",
        "https://other/\tx\tx\tSomebody\tTools\tPackages\t$(SIGNED_BY)",
        f"http://two/debian/\tsid\tsid\tDebian\tDebian\tPackages\t{own}",
    )
    assert [(mirror.uri, mirror.suites, mirror.keyring.name) for mirror in found] == [
        ("http://one/debian/", ("bookworm", "bookworm-updates"), "keyring.gpg"),
        ("http://two/debian/", ("sid",), "own.gpg"),
    ]


def test_mirror_whose_lists_were_never_fetched(tmp_path) -> None:
    found = mirrors_of(tmp_path, "http://one/debian/\tbookworm\t$(CODENAME)\t$(ORIGIN)\t$(LABEL)\tPackages\t")
    assert found[0].suites == ("bookworm",)


def test_no_keyring_no_trust(tmp_path) -> None:
    with pytest.raises(HostProblem, match=r"gone\.gpg is missing.*debian-archive-keyring"):
        find_mirrors(lambda _argv: Answer("http://one/\ts\ts\tDebian\tDebian\tPackages\t"), tmp_path / "gone.gpg")
