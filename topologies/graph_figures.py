"""Figures of any fabric from its graph and routes alone: slow, general, and what the closed forms are held against."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from itertools import combinations, product
from math import comb, prod

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric
from emulator.model.routing import Passage, Routing

MOST_PARTITIONS = 200_000


def shortest_hops(fabric: Fabric) -> tuple[int, float]:
    """Most and mean number of links on shortest paths between different cards."""
    neighbours: dict[str, list[str]] = {node.name: [] for node in fabric.nodes}
    for link in fabric.links:
        neighbours[link.a].append(link.b)
        neighbours[link.b].append(link.a)
    cards = {node.name for node in fabric.ends}
    cards_forward = any(link.a in cards and link.b in cards for link in fabric.links)
    most, total = 0, 0
    for source in cards:
        distances, frontier = {source: 0}, deque([source])
        while frontier:
            here = frontier.popleft()
            if here in cards and here != source and not cards_forward:
                continue
            for there in neighbours[here]:
                if there not in distances:
                    distances[there] = distances[here] + 1
                    frontier.append(there)
        reached = [distances[name] for name in cards if name != source]
        most = max(most, *reached)
        total += sum(reached)
    return most, total / (len(cards) * (len(cards) - 1))


def routed_hops(routing: Routing) -> tuple[int, float]:
    """Most and mean number of links that packets between different cards cross.

    Raises:
        TopologyError: Two cards do not reach each other.
    """
    cards = [node.name for node in routing.fabric.ends]
    hops = [len(routing.path(a, b)) for a, b in product(cards, cards) if a != b]
    return max(hops), sum(hops) / len(hops)


def uniform_loads(routing: Routing) -> dict[Passage, float]:
    """Flows over each link in each direction, if every card has one to every other, split over equal next hops.

    Raises:
        TopologyError: Two cards do not reach each other.
    """
    loads: dict[Passage, float] = {}
    cards = [node.name for node in routing.fabric.ends]
    for source, target in product(cards, cards):
        if source != target:
            for passage, share in routing.shares(source, target).items():
                loads[passage] = loads.get(passage, 0.0) + share
    return loads


def busiest_ns_per_bit(routing: Routing) -> float:
    """Time that the busiest link takes for one bit of every flow between two cards, in ns."""
    links = routing.fabric.links
    return max(1e9 * load / links[passage.link].spec.rate_bps for passage, load in uniform_loads(routing).items())


def uniform_bps(routing: Routing) -> float:
    """What each card can send if all send the same to every other, in bit/s."""
    return (len(routing.fabric.ends) - 1) * 1e9 / busiest_ns_per_bit(routing)


def flow_bound_bps(routing: Routing) -> float:
    """No bisection has less: half of the flows between all cards cross it, at the rate that the routes allow."""
    half = len(routing.fabric.ends) // 2
    return half * (len(routing.fabric.ends) - half) * 1e9 / busiest_ns_per_bit(routing)


def exact_bisection_bps(fabric: Fabric) -> int:
    """The least bandwidth between two halves of the cards, by trying all halves; switches go where it costs least.

    Cards that hang on the same switches are the same, so only their numbers matter.

    Raises:
        TopologyError: There are too many ways to halve the cards.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    cards = {node.name for node in fabric.ends}
    for node in fabric.ends:
        behind = tuple(link.b if link.a == node.name else link.a for link in fabric.links_of(node.name))
        # Cards next to each other differ by their place.
        alike.setdefault((node.name,) if cards.intersection(behind) else behind, []).append(node.name)
    classes = list(alike.values())
    ways = comb(len(cards), len(cards) // 2) if len(classes) == len(cards) else prod(len(one) + 1 for one in classes)
    if ways > 2 * MOST_PARTITIONS:
        raise TopologyError(f"{len(cards)} cards can be halved in too many ways to try them all")
    cut = _Cut(fabric)
    return min(cut.bandwidth_bps(half) for half in _halves(classes, len(cards)))


def _halves(classes: list[list[str]], cards: int) -> Iterator[frozenset[str]]:
    """All halves, up to exchange of cards of one class and, if halves are equally large, of the halves."""
    half = cards // 2
    if len(classes) == cards:
        first, others = classes[0][0], [one[0] for one in classes[1:]]
        if cards % 2:
            yield from map(frozenset, combinations([first, *others], half))
        else:
            yield from (frozenset((first, *some)) for some in combinations(others, half - 1))
        return
    for numbers in product(*(range(len(one) + 1) for one in classes)):
        if sum(numbers) == half:
            yield frozenset(name for one, number in zip(classes, numbers, strict=True) for name in one[:number])


class _Cut:
    """Bandwidth between two sets of cards, with switches on the side where they cost least."""

    def __init__(self, fabric: Fabric) -> None:
        self._cards = {node.name for node in fabric.ends}
        self._capacity: Counter[tuple[str, str]] = Counter()
        for link in fabric.links:
            self._capacity[link.a, link.b] += link.spec.rate_bps
        self._direct = len(self._cards) == len(fabric.nodes)

    def bandwidth_bps(self, half: frozenset[str]) -> int:
        if self._direct:
            return sum(rate for (a, b), rate in self._capacity.items() if (a in half) != (b in half))
        import networkx

        graph = networkx.DiGraph()

        def end(name: str) -> str:
            return name if name not in self._cards else "one" if name in half else "other"

        for (a, b), rate in self._capacity.items():
            for source, target in ((end(a), end(b)), (end(b), end(a))):
                if source == target:
                    continue
                before = graph.get_edge_data(source, target, {"capacity": 0})["capacity"]
                graph.add_edge(source, target, capacity=before + rate)
        return int(networkx.minimum_cut_value(graph, "one", "other"))


def port_counts(fabric: Fabric) -> tuple[int, int]:
    """Ports of cards and of switches that links end at."""
    cards: set[str] = {node.name for node in fabric.ends}
    at_cards = sum((link.a in cards) + (link.b in cards) for link in fabric.links)
    return at_cards, 2 * len(fabric.links) - at_cards
