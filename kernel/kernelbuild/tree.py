"""What this clone asks for: fragment and patches, and the key they make."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path

#: Raised when the builder itself changes what it makes of the same inputs.
FORMAT = 2


@dataclass(frozen=True)
class Tree:
    """The inputs a kernel is built from, apart from the kernel source."""

    #: the configuration fragment
    fragment: Path
    #: the patches, in the order in which they apply
    patches: tuple[Path, ...]
    #: the machine to build for, as `uname -m` says it
    machine: str

    @classmethod
    def load(cls, folder: Path) -> Tree:
        """Finds the inputs in the `kernel/` folder of a clone."""
        return cls(
            fragment=folder / "config.fragment",
            patches=tuple(sorted((folder / "patches").glob("*.patch"))),
            machine=platform.machine(),
        )

    def digest(self) -> str:
        """A hash of all inputs: names of patches, contents, machine, format."""
        total = hashlib.sha256(f"{FORMAT} {self.machine}\0".encode())
        for path in (self.fragment, *self.patches):
            content = path.read_bytes()
            total.update(f"{path.name} {len(content)}\0".encode())
            total.update(content)
        return total.hexdigest()[:16]
