"""Tests of broken links and dead cards in supernodes, inside the virtual-time kernel of `test_supernode_virtual.py`.

Here computing takes no time: what a fault costs until the stated delay is over is compared with a count, to the packet.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from ipaddress import IPv4Address
from itertools import permutations
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from network_guest import nothing_is_left
from supernode_guest import crossed, routed, sent

from emulator.experiment.faults import FaultDriver
from emulator.experiment.repair import Manager
from emulator.linux.timer import Timer, reset_timer_slack
from emulator.model.detour import Detour
from emulator.model.fault import Action, Fault
from emulator.model.routing import Routing
from emulator.network import Network
from topologies import antipodes, fat_tree, torus3d, tree

__all__ = ["nothing_is_left"]

PORT = 7100
_SO_RCVBUFFORCE = 33
MS = 10**6
LATE_NS = 50_000
"""Readings of the clock take some of its time."""

DETECTION_NS = 2 * MS
GAP_NS = MS // 4
"""From one packet of each pair of cards to the next."""

ROUNDS = 80
CUT_AT, STOP_AT, START_AT, RESTORE_AT = (number * MS + MS // 8 for number in (2, 6, 11, 15))
"""Between two rounds, when nothing is under way: a packet crosses any torus here within 20 us."""

TORI = {
    "3x3x2": torus3d(3, 3, 2),
    "4x4": torus3d(4, 4, 1),
    "twisted 2x2x4": torus3d(2, 2, 4, twist=2),
    "adaptive 4x3": torus3d(4, 3, 1, routing="adaptive"),
}


class Cards:
    """A datagram socket in every card.

    Args:
        network: Has the cards.
        stack: Closes the sockets.
    """

    def __init__(self, network: Network, stack: ExitStack) -> None:
        self._sockets: dict[str, socket.socket] = {}
        for node in network.fabric.ends:
            with network.host(node.name).namespace():
                one = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                one.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 24)
                one.setblocking(False)
                one.bind(("", PORT))
            self._sockets[node.name] = one
        self._addresses = {name: network.host(name).ip for name in self._sockets}
        self.pairs = set(permutations(self._sockets, 2))
        self._heard: set[tuple[int, str, str]] = set()

    def ask(self, number: int) -> None:
        """Let every card send a datagram with a number to every other one."""
        for source, target in sorted(self.pairs):
            # The card itself may know that there is no way.
            with suppress(OSError):
                self._sockets[source].sendto(f"{number} {source} {target}".encode(), (self._addresses[target], PORT))

    def missing(self, number: int) -> set[tuple[str, str]]:
        """Pairs between which that datagram did not arrive so far."""
        for name, one in self._sockets.items():
            with suppress(BlockingIOError):
                while True:
                    word, source, target = one.recv(100).decode().split()
                    assert target == name
                    assert (int(word), source, target) not in self._heard, "nothing arrives twice"
                    self._heard.add((int(word), source, target))
        return {pair for pair in self.pairs if (number, *pair) not in self._heard}


class Installed(Routing):
    """What nodes really do with detours: where there is no way to an address, they do what they did before."""

    def __init__(self, routing: Routing, detour: Detour) -> None:
        super().__init__(routing.fabric, routing.policy, lambda node: routing.routes(node.name))
        self._detour = detour

    def ports(self, node: str, destination: IPv4Address) -> tuple[int, ...]:
        """As `Detour.ports`, or as before."""
        return self._detour.ports(node, destination) or super().ports(node, destination)


def hit(ways: Routing, broken: Collection[int]) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Pairs all of whose packets are lost, and those some of whose packets may be."""
    surely, maybe = set(), set()
    for source, target in permutations([node.name for node in ways.fabric.ends], 2):
        lost = [share for passage, share in ways.shares(source, target).items() if passage.link in broken]
        if lost:
            maybe.add((source, target))
        if max(lost, default=0) == 1:
            surely.add((source, target))
    return surely, maybe


@pytest.mark.parametrize("name", TORI)
def test_what_a_cut_and_a_dead_card_cost_until_they_are_noticed(name: str) -> None:
    """All pairs of cards send while a link is cut, a card loses its power, comes back, and the link is restored.

    Verify: packets are lost only between a fault and the stated delay after it, and exactly those whose way leads over
    what is broken; afterwards only those to and from the dead card. What is whole again is used again, and all tables
    are as at first. Each packet that arrives does so once: none circled.
    """
    fabric = TORI[name]
    routing, network = routed(fabric)
    link = fabric.links[0]
    card = next(node.name for node in fabric.ends[len(fabric.ends) // 2 :] if node.name not in (link.a, link.b))
    cut, dead = {0}, {number for number, one in enumerate(fabric.links) if card in (one.a, one.b)}
    faults = [
        Fault(CUT_AT, Action.CUT, link.name),
        Fault(STOP_AT, Action.STOP, card),
        Fault(START_AT, Action.START, card),
        Fault(RESTORE_AT, Action.RESTORE, link.name),
    ]
    around_cut, around_both = (Installed(routing, Detour(routing, one)) for one in (cut, cut | dead))
    stretches: list[tuple[int, Routing, set[int]]] = [
        (CUT_AT, routing, set()),
        (CUT_AT + DETECTION_NS, routing, cut),
        (STOP_AT, around_cut, cut),
        (STOP_AT + DETECTION_NS, around_cut, cut | dead),
        (START_AT, around_both, cut | dead),
        (START_AT + DETECTION_NS, around_both, cut),
        (RESTORE_AT, around_cut, cut),
        (RESTORE_AT + DETECTION_NS, around_cut, set()),
        (ROUNDS * GAP_NS, routing, set()),
    ]
    reset_timer_slack()
    with network, ExitStack() as stack:
        network.verify()
        before = tables(network)
        cards = Cards(network, stack)
        manager = Manager(network, routing)
        driver = stack.enter_context(FaultDriver(network, faults, manager.repair, DETECTION_NS))
        timer = stack.enter_context(Timer())
        start_ns = time.monotonic_ns() + MS
        driver.begin(start_ns)
        for number in range(ROUNDS):
            timer.wait_until(start_ns + number * GAP_NS)
            cards.ask(number)
        timer.wait_until(start_ns + (ROUNDS + 4) * GAP_NS)
        looks = [one.at_ns - DETECTION_NS for one in manager.rerouted]
        assert len(looks) == len(faults)
        for one, look_ns in zip(driver.happened(), looks, strict=True):
            assert abs(look_ns - one.at_ns) < LATE_NS
            assert abs(one.at_ns - start_ns - one.fault.at_ns) < LATE_NS
        assert all(one.done_ns - one.at_ns < LATE_NS for one in manager.rerouted)
        for number in range(ROUNDS):
            ways, broken = next((ways, broken) for until, ways, broken in stretches if number * GAP_NS < until)
            surely, maybe = hit(ways, broken)
            missing = cards.missing(number)
            assert surely <= missing <= maybe, number
            assert "adaptive" in name or surely == maybe
        assert tables(network) == before
        network.check()


def tables(network: Network) -> dict[str, str]:
    """What ``ip route`` says in every node, without what changes with the carrier."""
    return {
        host.name: "\n".join(sorted(host.run(["ip", "route"]).stdout.replace(" linkdown", "").splitlines()))
        for host in network.hosts
    }


def answered(network: Network, source: str, target: str) -> bool:
    """Whether one echo is answered."""
    done = network.host(source).run(["ping", "-n", "-c", "1", "-W", "1", network.host(target).ip], check=False)
    return done.returncode == 0


FALLING = {
    "torus": (torus3d(4, 1, 1), "c0_0_0-c1_0_0", "c0_0_0", "c1_0_0"),
    "other end": (torus3d(4, 1, 1), "c0_0_0-c1_0_0", "c1_0_0", "c0_0_0"),
    "tree": (tree("2x2"), "c0_0-t0", "c1_1", "c0_0"),
    "fat tree": (fat_tree(4), None, "c3_1_1", "c0_0_0"),
}


@pytest.mark.parametrize("name", FALLING)
def test_packets_end_where_the_way_is_broken(name: str) -> None:
    """Until somebody enters detours, a packet for what lies behind a broken link is dropped beside it.

    Verify: each interface sent the echo and a notice about it at most: nothing went back and forth until its time to
    live ended, as it does where kernels look on for shorter prefixes.
    """
    fabric, link, source, target = FALLING[name]
    routing, network = routed(fabric)
    with network:
        network.verify()
        network.cut(link or fabric.links_of(target)[0].name)
        before = sent(network)
        assert not answered(network, source, target)
        assert max(crossed(network, before).values(), default=0) <= 2
        assert sum(crossed(network, before).values()) <= 2 * len(routing.path(source, target))


def test_equal_ways_need_no_manager() -> None:
    """In a fat tree, flows on a link that fails take the other ways at once, at its lower end; others wait for detours.

    Verify: from below the cut everything arrives without any repair; from above after one, from all cards to all.
    """
    fabric = fat_tree(4)
    routing, network = routed(fabric)
    spine = next(
        link for link in fabric.links if all(fabric.by_name[end].role.value == "forwarder" for end in (link.a, link.b))
    )
    with network:
        network.verify()
        network.cut(spine.name)
        repair = Manager(network, routing).repair()
        assert repair.broken == (spine.name,)
        assert repair.cut_off == frozenset()
        network.verify(far=antipodes(fabric))
        network.restore(spine.name)
        Manager(network, routing).repair()
        network.verify(far=antipodes(fabric))


def test_a_dead_card_ends_its_programs() -> None:
    """A card that is stopped ends what runs in it, has no carrier, and comes back without programs, with all routes."""
    fabric = torus3d(3, 2, 2)
    _, network = routed(fabric)
    with network:
        network.verify()
        before = tables(network)
        victim, other = (network.host(name).popen(["sleep", "1000"]) for name in ("c1_1_1", "c0_0_0"))
        network.stop_switch("c1_1_1")
        assert victim.wait() == -9
        assert other.poll() is None
        assert not answered(network, "c0_0_0", "c1_1_1")
        assert not answered(network, "c1_1_1", "c0_0_0")
        shown = network.host("c1_1_1").run(["ip", "-br", "link"]).stdout.splitlines()
        assert not any(" UP " in line for line in shown)
        network.start_switch("c1_1_1")
        assert tables(network) == before
        network.verify(far=antipodes(fabric))
        network.check()


def test_faults_overlap_with_detours() -> None:
    """Links of one card and of its detours fail and come back in any order, with and without repairs in between.

    Verify: after each repair all cards that are connected meet; at the end all tables are the first ones.
    """
    fabric = torus3d(3, 3, 1)
    routing, network = routed(fabric)
    links = [link.name for link in fabric.links_of("c1_1_0")]
    others = [link.name for link in fabric.links_of("c2_1_0") if link.name not in links]
    with network, ExitStack() as stack:
        network.verify()
        before = tables(network)
        manager = Manager(network, routing)
        cards = Cards(network, stack)
        timer = stack.enter_context(Timer())
        steps: list[tuple[Callable[[str], None], str, bool]] = [
            (network.cut, links[0], True),
            (network.cut, links[1], False),
            (network.cut, others[0], True),
            (network.restore, links[0], False),
            (network.cut, links[2], True),
            (network.stop_switch, "c0_2_0", True),
            (network.restore, others[0], False),
            (network.restore, links[1], True),
            (network.restore, links[2], False),
            (network.start_switch, "c0_2_0", True),
        ]
        for number, (do, what, repaired) in enumerate(steps):
            do(what)
            if repaired:
                named = manager.repair().broken
                broken = [one for one, link in enumerate(fabric.links) if link.name in named]
                cards.ask(number)
                timer.wait_until(time.monotonic_ns() + MS)
                assert cards.missing(number) == hit(Installed(routing, Detour(routing, broken)), broken)[0]
        assert named == ()
        assert tables(network) == before
