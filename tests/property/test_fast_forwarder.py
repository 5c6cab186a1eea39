"""The fast forwarder on ports in memory: every frame has one fate, whatever arrives and however full the lines are."""

from __future__ import annotations

from ipaddress import IPv4Network

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dataplane.classify import Tenants
from gateway.dataplane.pipeline import Configuration, Pipeline
from gateway.dataplane.policy import Rule
from gateway.dataplane.reasons import Reason
from gateway.dataplane.route import NextHop, Route
from gateway.fast.forwarder import Forwarder
from gateway.rings.memory import MemoryPort, make_pool
from tests.support.plain_frames import udp_frame

PORTS = 3
MACS = {number: bytes([2, 0, 0, 0, 0, number + 1]) for number in range(PORTS)}


def pipeline() -> Pipeline:
    """Everything to 10.N.0.0/16 leaves by port N."""
    return Pipeline(
        Configuration(
            macs=MACS,
            tenants=Tenants(by_port=dict.fromkeys(range(PORTS), 0)),
            rules=[Rule(allow=False, protocol=17, target_ports=(53, 53)), Rule(allow=True)],
            routes=[Route(0, IPv4Network(f"10.{number}.0.0/16"), number + 1) for number in range(PORTS)],
            next_hops=[NextHop(number, bytes([2, 9, 0, 0, 0, number]), MACS[number]) for number in range(PORTS)],
            flow_capacity=64,
        )
    )


FRAME = st.one_of(
    st.tuples(
        st.integers(0, PORTS - 1),
        st.integers(0, PORTS),
        st.sampled_from([80, 80, 80, 53]),
        st.sampled_from([2, 64, 255, 1, 0]),
    ),
    st.binary(max_size=80),
)


@settings(max_examples=60)
@given(
    arrivals=st.lists(st.tuples(st.integers(0, PORTS - 1), FRAME), min_size=10, max_size=60),
    rooms=st.tuples(*[st.integers(0, 6)] * PORTS),
    limit=st.integers(1, 16),
)
def test_every_frame_has_one_fate(
    arrivals: list[tuple[int, tuple[int, int, int, int] | bytes]], rooms: tuple[int, ...], limit: int
) -> None:
    """What arrived was sent, or dropped for one reason; the memory is whole; order is kept between two ports."""
    pool = make_pool(frames=128, frame_bytes=1024)
    ports = [MemoryPort(pool, f"p{number}", MACS[number], room=room) for number, room in enumerate(rooms)]
    forwarder = Forwarder([[port] for port in ports], pipeline(), limit)
    expected: dict[tuple[int, int], list[int]] = {}
    for serial, (ingress, frame) in enumerate(arrivals):
        if isinstance(frame, bytes):
            ports[ingress].inject(frame)
            continue
        _, network, port, ttl = frame
        ports[ingress].inject(udp_frame(MACS[ingress], f"10.{network}.0.9", port, ttl, serial))
        if network < PORTS and port != 53 and ttl > 1:
            expected.setdefault((ingress, network), []).append(serial)
    turn = 0
    while forwarder.turn(turn := turn + 1):
        assert pool.lent == 0
    counters = forwarder.pipeline.counters
    sent = sum(port.counters.tx_frames for port in ports)
    assert counters.frames(Reason.FORWARDED) == sent
    assert counters.frames_in == len(arrivals) == sum(port.counters.rx_frames for port in ports)
    assert pool.free == pool.count
    for egress, port in enumerate(ports):
        serials = [int.from_bytes(data[42:46], "big") for data in port.line]
        for ingress in range(PORTS):
            wanted = expected.get((ingress, egress), [])
            got = [serial for serial in serials if serial in set(wanted)]
            assert got == wanted[: len(got)]
        lost = sum(len(serials) for (_, network), serials in expected.items() if network == egress) - len(serials)
        assert lost == 0 or len(port.line) == rooms[egress]


def test_a_full_line_drops_and_gives_back() -> None:
    """What a line has no room for is counted under one reason, in frames and bytes, and its memory is free again."""
    pool = make_pool()
    ports = [MemoryPort(pool, f"p{number}", MACS[number], room=3) for number in range(PORTS)]
    forwarder = Forwarder([[port] for port in ports], pipeline(), 16)
    frames = [udp_frame(MACS[0], "10.1.0.9", 80, 64, serial) for serial in range(8)]
    for frame in frames:
        ports[0].inject(frame)
    assert forwarder.turn(1) == 8
    assert (pool.lent, pool.free) == (0, pool.count)
    assert [int.from_bytes(data[42:46], "big") for data in ports[1].line] == [0, 1, 2]
    counted = forwarder.as_json()["pipeline"]["reasons"]
    assert counted["forwarded"] == {"frames": 3, "bytes": 3 * len(frames[0])}
    assert counted["egress_full"] == {"frames": 5, "bytes": 5 * len(frames[0])}
    ports[1].room = 20
    ports[0].inject(frames[0])
    forwarder.turn(2)
    assert len(ports[1].line) == 4


def test_a_line_that_has_room_after_a_push_takes_the_rest() -> None:
    """Frames that found no room are offered once more after the line was served."""

    class Slow(MemoryPort):
        def flush(self) -> bool:
            self.room = None
            return True

    pool = make_pool()
    ports = [MemoryPort(pool, "a", MACS[0]), Slow(pool, "b", MACS[1], room=2)]
    forwarder = Forwarder([[port] for port in ports], pipeline(), 16)
    for serial in range(5):
        ports[0].inject(udp_frame(MACS[0], "10.1.0.9", 80, 64, serial))
    forwarder.turn(1)
    assert [int.from_bytes(data[42:46], "big") for data in ports[1].line] == [0, 1, 2, 3, 4]
    assert forwarder.pipeline.counters.frames(Reason.EGRESS_FULL) == 0


def test_draining_takes_in_no_more() -> None:
    """What arrives while draining is given back and counted, not forwarded."""
    pool = make_pool()
    ports = [MemoryPort(pool, f"p{number}", MACS[number]) for number in range(PORTS)]
    forwarder = Forwarder([[port] for port in ports], pipeline(), 8)
    forwarder.draining = True
    ports[0].inject(udp_frame(MACS[0], "10.1.0.9", 80, 64, 1))
    assert forwarder.turn(1) == 1
    assert (forwarder.drained_frames, ports[1].line, pool.free) == (1, [], pool.count)
