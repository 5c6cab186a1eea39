"""A process that declares tenants as fast as it can, and says after each one that it is there. For tests that kill it.

Usage: ``python tenancy_writer.py FILE PREFIX COUNT``
"""

from __future__ import annotations

import sys

from controller.tenancy.ground import Ground
from controller.tenancy.kinds import Kind
from controller.tenancy.store import Store


def main() -> None:
    """Declare tenants and VPCs; one line of output each, after the store has acknowledged."""
    file, prefix, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    store = Store(file, Ground({}, frozenset(), frozenset()))
    for number in range(count):
        name = f"{prefix}{number}"
        store.put(Kind.TENANTS, name, {"description": name})
        stored = store.put(Kind.VPCS, name, {"tenant": name, "cidrs": ["10.0.0.0/8"]})
        sys.stdout.write(f"{name} {stored.version}\n")
        sys.stdout.flush()
    store.close()


main()
