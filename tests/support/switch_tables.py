"""All that the switches of an emulated network hold, as ``ovs-ofctl`` shows it, with the age of each entry."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from dataclasses import dataclass

from emulator.network import Network

Entry = tuple[str, str]
"""Switch, and the line that ``ovs-ofctl`` prints without counters."""

_DURATION = re.compile(r"\bduration=([0-9.]+)s, ?|,duration=([0-9.]+)s")
_COUNTERS = re.compile(r"n_packets=\d+, n_bytes=\d+, ")
_GROUP = re.compile(r"group_id=(\d+),duration=([0-9.]+)s")
_GRANULARITY_NS = 2_000_000
"""Ages are shown in ms."""


@dataclass(frozen=True)
class Tables:
    """What was found.

    Attributes:
        age_ns: Of each flow entry and group; 0 for meters, whose age Open vSwitch does not show.
        read_ns: When it was read (CLOCK_MONOTONIC); in virtual time that takes no time.
    """

    age_ns: dict[Entry, int]
    read_ns: int

    @classmethod
    def read(cls, network: Network) -> Tables:
        """Ask all switches."""
        ages: dict[Entry, int] = {}
        now_ns = time.monotonic_ns()
        for node in network.fabric.switches:
            for line in network.switches.ofctl("dump-flows", node.name).splitlines():
                if found := _DURATION.search(line):
                    text = _COUNTERS.sub("", line.replace(found[0], "")).strip()
                    ages[node.name, text] = round(float(found[1]) * 1e9)
            groups = dict(_GROUP.findall(network.switches.ofctl("dump-group-stats", node.name)))
            for line in network.switches.ofctl("dump-groups", node.name).splitlines():
                if found := re.search(r"group_id=(\d+)", line):
                    ages[node.name, line.strip()] = round(float(groups[found[1]]) * 1e9)
            ages[node.name, network.switches.ofctl("dump-meters", node.name).partition("\n")[2]] = 0
        return cls(ages, now_ns)

    def made_since(self, before: Tables, but: Collection[Entry] = ()) -> list[Entry]:
        """Which of the entries that were there before, but for some, are not the same ones any more."""
        passed_ns = self.read_ns - before.read_ns
        return [
            entry
            for entry, age_ns in before.age_ns.items()
            if entry not in but and age_ns and self.age_ns.get(entry, -1) < age_ns + passed_ns - _GRANULARITY_NS
        ]
