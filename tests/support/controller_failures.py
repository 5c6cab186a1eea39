"""Groups of a whole fabric in mid-air: where packets may go while groups are changed and links are dead."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from controller.flows import Group
from controller.paths import Paths


class Network:
    """What all switches hold, for following packets by any choice that a group could make."""

    def __init__(self, paths: Paths, groups: Iterable[Group]) -> None:
        self.paths = paths
        self.groups = {(group.dpid, group.number): group for group in groups}
        self._dpids = {node.name: node.dpid or 0 for node in paths.fabric.switches}
        self._links: dict[tuple[str, int], str] = {}
        for link in paths.layout.graph.links:
            self._links[link.a, link.a_port] = self._links[link.b, link.b_port] = link.name

    def change(self, group: Group) -> None:
        """One switch carries out one change."""
        assert (group.dpid, group.number) in self.groups, "rules would point to a group that was never made"
        self.groups[group.dpid, group.number] = group

    def onward(self, switch: str, target: str, plane: int, dead: Collection[str]) -> set[str]:
        """Where a packet may go next: to any live port of its group."""
        group = self.groups[self._dpids[switch], self.paths.group_of(switch, target, plane)]
        return {
            self.paths.peers[switch, bucket.port]
            for bucket in group.buckets
            if self._links[switch, bucket.port] not in dead
        }

    def check_no_loop(self, target: str, plane: int, dead: Collection[str] = ()) -> None:
        """However groups choose, no packet for a target meets a switch twice."""
        done = {target}
        for start in self._dpids:
            way: list[str] = []
            waiting: list[tuple[str, bool]] = [(start, False)]
            while waiting:
                switch, left = waiting.pop()
                if left:
                    done.add(way.pop())
                    continue
                if switch in done:
                    continue
                assert switch not in way, f"packets for {target} go round: {' '.join([*way, switch])}"
                way.append(switch)
                waiting.append((switch, True))
                waiting += [(peer, False) for peer in sorted(self.onward(switch, target, plane, dead))]

    def dead_ends(self, start: str, target: str, plane: int) -> set[str]:
        """Switches where a packet may be dropped although all links are alive."""
        seen, waiting = {start}, [start]
        found = set()
        while waiting:
            switch = waiting.pop()
            if switch == target:
                continue
            peers = self.onward(switch, target, plane, ())
            if not peers:
                found.add(switch)
            waiting += peers - seen
            seen |= peers
        return found
