"""Small parts that watch: packet headers, alarms, the journal, the election, rivals, links, the clock."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether

from controller.alarms import PERIOD_NS, Alarms
from controller.core.clock import Steady
from controller.core.links import LinkStates
from controller.headers import read_headers
from controller.journal import CAPACITY, Journal, Kind, Severity
from controller.lease import LENGTH_NS, RENEW_NS, Attempt, Election
from controller.lldp import BadFrame, read_frame
from controller.rivals import MOST_CHANGES, Rivals
from controller.rivals import PERIOD_NS as RIVALS_NS
from controller.tenancy.leases import Lease
from controller.tenancy.violations import Violation
from tests.support.controller_fabrics import leaf_spine

CORPUS = Path(__file__).resolve().parents[2] / "fuzz" / "corpus"
S = 10**9
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")

# --- headers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packet", "shown", "fields"),
    [
        (
            ETHER / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=5, dport=80),
            "tcp 10.0.0.1:5 to 10.0.0.2:80",
            {"eth_type": 0x800},
        ),
        (
            ETHER / IP(src="1.1.1.1", dst="2.2.2.2", options=b"\1" * 8) / UDP(sport=1, dport=2),
            "udp 1.1.1.1:1 to 2.2.2.2:2",
            {},
        ),
        (ETHER / IP(src="1.1.1.1", dst="2.2.2.2") / ICMP(), "icmp 1.1.1.1 to 2.2.2.2", {}),
        (ETHER / IP(src="1.1.1.1", dst="2.2.2.2", proto=89), "89 1.1.1.1 to 2.2.2.2", {}),
        (ETHER / IP(src="1.1.1.1", dst="2.2.2.2", frag=9) / UDP(sport=1), "udp 1.1.1.1 to 2.2.2.2", {}),
        (
            ETHER / Dot1AD(vlan=3) / Dot1Q(vlan=4) / IP(src="1.1.1.1", dst="2.2.2.2") / UDP(sport=1, dport=2),
            "udp 1.1.1.1:1 to 2.2.2.2:2",
            {"vlans": [3, 4]},
        ),
        (
            ETHER / ARP(op=2, hwsrc="02:00:00:00:00:09", psrc="10.0.0.1", pdst="10.0.0.2"),
            "arp: 10.0.0.1 is at 02:00:00:00:00:09, to 10.0.0.2",
            {"arp_mac": "02:00:00:00:00:09"},
        ),
        (ETHER / IPv6(src="fd00::1", dst="fd00::2"), "ipv6 fd00::1 to fd00::2", {}),
        (
            Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=0x88B5),
            "type 0x88b5 02:00:00:00:00:01 to 02:00:00:00:00:02",
            {},
        ),
    ],
    ids=range(9),
)
def test_headers_are_those_that_scapy_wrote(packet: Ether, shown: str, fields: dict[str, object]) -> None:
    """Addresses and ports of every kind of packet, in words and by name."""
    found = read_headers(bytes(packet)[:128])
    assert (str(found), found.defect) == (shown, "")
    assert found.fields().items() >= {"eth_src": "02:00:00:00:00:01", "eth_dst": "02:00:00:00:00:02"}.items()
    for name, value in fields.items():
        assert found.fields()[name] == value


@given(st.binary(max_size=160))
def test_any_bytes_have_headers(data: bytes) -> None:
    """Nothing escapes; what is known can be shown; what is cut off is said."""
    found = read_headers(data)
    assert str(found)
    assert isinstance(found.fields(), dict)
    assert found.defect or len(data) >= 14


@given(st.data())
def test_cut_packets_keep_what_is_left(data: st.DataObject) -> None:
    """A prefix of a packet never has other addresses than the packet."""
    whole = bytes(ETHER / Dot1Q(vlan=9) / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=5, dport=80))
    full, part = read_headers(whole), read_headers(whole[: data.draw(st.integers(0, len(whole)))])
    for name, value in part.fields().items():
        if name not in ("defect", "eth_type", "vlans"):
            assert getattr(full, name) == value


@pytest.mark.parametrize(
    "path",
    sorted(path for kind in ("headers", "lldp") for path in (CORPUS / kind).iterdir()),
    ids=lambda path: path.name,
)
def test_the_corpus(path: Path) -> None:
    """Bytes that broke parsers elsewhere, or are likely to: kept, and read with each change."""
    data = bytes.fromhex(path.read_text())
    assert str(read_headers(data))
    with pytest.raises(BadFrame):
        read_frame(data, b"key")


# --- alarms -----------------------------------------------------------------------------------------------------------


def test_the_first_report_is_told_at_once_and_the_rest_once_a_second() -> None:
    """However many come: one, then one a second with their number, until none came for a second."""
    alarms = Alarms()
    assert [alarm.count for alarm in alarms.report(1, 2, Violation.IP_SPOOFING, b"", 0)] == [1]
    for now_ns in range(0, PERIOD_NS, PERIOD_NS // 1000):
        assert alarms.report(1, 2, Violation.IP_SPOOFING, b"", now_ns) == []
    assert alarms.due(PERIOD_NS - 1) == []
    assert alarms.next_ns() == PERIOD_NS
    [alarm] = alarms.due(PERIOD_NS)
    assert (alarm.dpid, alarm.port, alarm.violation, alarm.count) == (1, 2, Violation.IP_SPOOFING, 1000)
    assert alarms.due(2 * PERIOD_NS) == []
    assert alarms.next_ns() is None
    assert alarms.tallies == {Violation.IP_SPOOFING: 1001}


def test_ports_and_violations_are_told_apart() -> None:
    """Noise at one port hides nothing at another one."""
    alarms = Alarms()
    for port in (1, 2):
        for violation in Violation:
            assert len(alarms.report(1, port, violation, b"", 5)) == 1
    assert alarms.next_ns() == 5 + PERIOD_NS


# --- the journal ------------------------------------------------------------------------------------------------------


def test_the_journal_keeps_the_last_entries_by_number() -> None:
    """Numbers go on without gaps, whatever is forgotten; what is asked for and forgotten is not answered."""
    journal = Journal(capacity=10)
    assert (journal.first, journal.last, journal.since()) == (1, 0, ())
    for number in range(1, 26):
        kind = Kind.PORT if number % 2 else Kind.LINK
        assert journal.add(number * S, kind, f"entry {number}", port=number).number == number
    assert (journal.first, journal.last) == (16, 25)
    assert [entry.number for entry in journal.since()] == list(range(16, 26))
    assert [entry.number for entry in journal.since(20, [Kind.PORT], 2)] == [21, 23]
    assert journal.since(25) == journal.since(99) == ()
    assert CAPACITY >= 1000


def test_entries_are_one_bounded_line_at_a_time_of_day() -> None:
    """Whatever others put into messages; and the journal's owner says what time it is."""
    journal = Journal()
    journal.epoch_ns = 1_000 * S
    heard: list[str] = []
    end = journal.listen(lambda entry: heard.append(entry.message))
    entry = journal.add(5, Kind.SWITCH, "a\nb\r\tc " + "x" * 1000, severity=Severity.WARNING)
    assert entry.message.startswith("a b c xxx")
    assert len(entry.message) == 500
    assert entry.time_ns == 1_000 * S + 5
    end()
    end()
    journal.add(6, Kind.SWITCH, "unheard")
    assert heard == [entry.message]


# --- the election -----------------------------------------------------------------------------------------------------


class Shelf:
    """A lease as the store keeps it."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.broken = False

    def take_part(self, election: Election, now_ns: int) -> None:
        step = election.step(now_ns)
        if self.broken:
            election.answered(None, now_ns)
        elif step.attempt is Attempt.ACQUIRE:
            lease = self.lease
            if lease is None or step.now_ns >= lease.expires_ns or lease.holder == election.name:
                held = lease is not None and lease.held_by(election.name, step.now_ns)
                generation = (lease.generation if lease else 0) + (not held)
                self.lease = Lease(election.name, generation, step.now_ns + LENGTH_NS)
            assert self.lease
            election.answered(self.lease, now_ns)
        elif self.lease and self.lease.held_by(election.name, step.now_ns) and self.lease.generation == step.generation:
            self.lease = Lease(election.name, step.generation, step.now_ns + LENGTH_NS)
            election.answered(self.lease, now_ns)
        else:
            election.lost(now_ns)


def run(shelf: Shelf, now_ns: int, until_ns: int, *elections: Election) -> int:
    """Let controllers take part whenever they want to; never may two decide, as long as the store works."""
    while now_ns < until_ns:
        due = {election: election.next_ns(now_ns) for election in elections}
        now_ns = max(now_ns + 1, min(due.values()))
        for election, at_ns in due.items():
            if at_ns <= now_ns:
                shelf.take_part(election, now_ns)
                assert shelf.broken or sum(item.active for item in elections) <= 1
    return now_ns


def test_one_decides_and_the_other_takes_over_when_it_falls_silent() -> None:
    """Within the length of the lease after its last renewal, with a later generation."""
    shelf, one, two = Shelf(), Election("one"), Election("two")
    now_ns = run(shelf, 0, 20 * S, one, two)
    assert [one.active, two.active] == [True, False]
    assert (two.holder, two.generation) == ("one", 1)
    start_ns = now_ns
    while not two.active:
        now_ns = run(shelf, now_ns, now_ns + 1, two)
    assert now_ns - start_ns <= LENGTH_NS
    assert two.generation == 2
    now_ns = run(shelf, now_ns, now_ns + 10 * S, one, two)
    assert [one.active, two.active] == [False, True]


def test_a_broken_store_ends_an_office_before_another_can_take_it() -> None:
    """Who cannot renew steps back while the lease still runs."""
    shelf, one = Shelf(), Election("one")
    now_ns = run(shelf, 0, 5 * S, one)
    assert one.active
    assert shelf.lease
    shelf.broken = True
    while one.active:
        now_ns = run(shelf, now_ns, now_ns + 1, one)
    assert now_ns < shelf.lease.expires_ns
    shelf.broken = False
    run(shelf, now_ns, now_ns + 5 * S, one)
    assert one.active


def test_a_lease_from_before_a_restart_of_the_machine_does_not_last() -> None:
    """Its end lies days ahead on a clock that began anew; nobody renews it, so it ends."""
    shelf, one, two = Shelf(), Election("one"), Election("two")
    shelf.lease = Lease("of yesterday", 41, 10**6 * S)
    now_ns = run(shelf, 0, LENGTH_NS + 2 * RENEW_NS, one, two)
    assert [one.active, two.active].count(True) == 1
    run(shelf, now_ns, now_ns + 30 * S, one, two)
    assert [one.generation, two.generation] == [42, 42]


@given(st.lists(st.tuples(st.sampled_from([0, 1]), st.integers(-5 * S, 10 * S), st.booleans()), max_size=60))
def test_nothing_upsets_the_election(moves: list[tuple[int, int, bool]]) -> None:
    """Whatever clocks and stores do: afterwards one decides."""
    shelf, elections, now_ns = Shelf(), (Election("a"), Election("b")), 0
    for which, passed_ns, broken in moves:
        now_ns += passed_ns
        shelf.broken = broken
        shelf.take_part(elections[which], now_ns)
    shelf.broken = False
    now_ns = run(shelf, now_ns, now_ns + 30 * S, *elections)
    assert [election.active for election in elections].count(True) == 1


# --- rivals, links, the clock -----------------------------------------------------------------------------------------


def test_rivals_get_in_some_times_in_half_a_minute() -> None:
    """Then the one that is in stays, until it was quiet for a while; others do not matter."""
    rivals = Rivals()
    assert [rivals.admit(1, now_ns) for now_ns in range(MOST_CHANGES + 2)] == [True] * MOST_CHANGES + [False] * 2
    assert rivals.admit(2, 5)
    assert rivals.admit(1, RIVALS_NS + MOST_CHANGES)
    assert rivals.admit(1, 0)


def test_a_link_is_judged_by_all_that_is_known() -> None:
    """Down before shunned; what is known for sure before what is supposed."""
    links = LinkStates(leaf_spine(), S, 10 * S)
    name = "s0-eth1--l0-eth1"
    links.start(0)
    assert links.usable(1).reasons == {}
    links.discovered(frozenset({name}), frozenset())
    assert links.usable(2).reasons == {name: "nothing is heard over it"}
    links.discovered(frozenset({name}), frozenset({name}))
    assert links.usable(3).down == {name}
    assert links.usable(3).reasons == {name: "it leads elsewhere"}
    links.set_ports(3, {1: False, 2: True}, 4)
    assert links.usable(5).reasons == {name: "port 1 of l0 is down"}
    links.discovered(frozenset(), frozenset())
    # Without its switch nobody says any more what the port does.
    links.gone(3, 6)
    assert links.usable(7).down == frozenset()


@given(st.lists(st.integers(-(10**18), 10**18), min_size=1))
def test_steady_time_never_goes_back(times: list[int]) -> None:
    """And follows the other clock as long as that goes forward."""
    clock = Steady()
    steady = [clock.at(now_ns) for now_ns in times]
    assert steady == sorted(steady)
    for (a, b), (c, d) in zip(pairwise(times), pairwise(steady), strict=True):
        assert d - c == max(0, b - a)
    assert clock.back(steady[-1]) == clock.now_ns == times[-1]
