"""The ways in which getting a kernel can fail, each with its exit code."""

from __future__ import annotations


class BuildError(Exception):
    """A failure told in one line: what happened, and what to do about it."""

    exit_code = 4

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(what)

    def __str__(self) -> str:
        text = f"{self.what}: {self.remedy}" if self.remedy else self.what
        return " ".join(text.split())


class HostProblem(BuildError):
    """The host lacks something: a program, a package source, disk space."""

    exit_code = 3


class UnsuitableSource(BuildError):
    """This kernel source does not take our patches or options; another may."""


class BuildFailure(BuildError):
    """The source is fine, yet it did not compile, link or boot."""
