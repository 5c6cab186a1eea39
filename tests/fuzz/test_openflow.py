"""Whatever a switch sends, Ryu's parsers end soon, and what is read of it is ours or nothing.

The corpus has answers of Open vSwitch; they are read as they are, with bytes changed, and in forms that would lead
Ryu's own parsers into loops without end.
"""

from __future__ import annotations

import controller.green  # noqa: F401 - first, it makes Ryu importable

# isort: split

import logging
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ryu.ofproto import ofproto_parser
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser
from ryu.ofproto.ofproto_protocol import ProtocolDesc

from controller import ryu_codec as codec
from controller import ryu_rules, ryu_strict, ryu_switch

CORPUS = Path(__file__).parent / "corpus" / "openflow"
MESSAGES = {path.name: bytes.fromhex(path.read_text()) for path in sorted(CORPUS.iterdir())}
MULTIPART, HELLO, QUEUES = ofp.OFPT_MULTIPART_REPLY, ofp.OFPT_HELLO, ofp.OFPT_QUEUE_GET_CONFIG_REPLY
LONGEST = 65_535
_CPU_S = 10


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Ryu writes each malformed message down; the checks are in front of its parsers."""
    caplog.set_level(logging.CRITICAL, "ryu.ofproto.ofproto_parser")
    ryu_strict.install()


@contextmanager
def soon() -> Iterator[None]:
    """Fail, instead of standing still, if something computes for ten seconds; Ryu swallows what is raised in it."""
    late: list[int] = []

    def stop(number: int, _: object) -> None:
        late.append(number)
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert not late, "it does not end"


def parse(data: bytes) -> Any:
    """What Ryu makes of a message; None: nothing."""
    datapath = ProtocolDesc(ofp.OFP_VERSION)
    datapath.id = 1
    version, kind, size, xid = ofproto_parser.header(data)
    # Whoever serves a connection closes it for whatever is raised.
    with soon(), suppress(Exception):
        return ofproto_parser.msg(datapath, version, kind, size, xid, data)
    return None


def read(message: Any) -> int:
    """Read a message as the controller does, and count its entries."""
    entries = message.body if isinstance(getattr(message, "body", None), list) else []
    for entry in entries:
        if isinstance(message, parser.OFPFlowStatsReply):
            rule = ryu_rules.read_rule(1, entry)
            assert str(rule) if rule else ryu_switch._foreign_flow(entry).text
            assert codec.read_flow(1, entry).rule == rule
        elif isinstance(message, parser.OFPGroupDescStatsReply):
            ryu_rules.read_group(1, entry)
        elif isinstance(message, parser.OFPGroupStatsReply):
            codec.read_group_counters(entry)
        elif isinstance(message, parser.OFPMeterConfigStatsReply):
            ryu_rules.read_meter(1, entry)
        elif isinstance(message, parser.OFPPortStatsReply):
            codec.read_port(entry)
        elif isinstance(message, parser.OFPPortDescStatsReply):
            codec.read_port_description(entry)
    return len(entries)


@pytest.mark.parametrize("name", MESSAGES)
def test_the_corpus(name: str) -> None:
    """Honest messages are read whole, however often: the checks cost them nothing."""
    for _ in range(3):
        assert read(parse(MESSAGES[name])) >= 1


def test_a_message_of_the_largest_size_is_read_whole() -> None:
    """As many entries as fit, and the ones with the most parts for their size."""
    for name in ("flows-8", "group-descriptions", "meter-configurations"):
        entries = MESSAGES[name][16:]
        count = (LONGEST - 16) // len(entries)
        once = read(parse(MESSAGES[name]))
        assert read(parse(multipart(MESSAGES[name][9], entries * count))) == once * count


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(MESSAGES)),
    st.lists(st.tuples(st.integers(8, 1100), st.sampled_from([0, 1, 7, 8, 255]) | st.integers(0, 255)), max_size=6),
    st.integers(0, 8),
)
def test_changed_messages(name: str, changes: list[tuple[int, int]], cut: int) -> None:
    """The corpus with a few bytes changed, or cut off."""
    data = bytearray(MESSAGES[name])
    for at, value in changes:
        data[8 + (at - 8) % (len(data) - 8)] = value
    del data[len(data) - cut :]
    struct.pack_into("!H", data, 2, len(data))
    message = parse(bytes(data))
    if message is not None:
        read(message)


def multipart(kind: int, body: bytes) -> bytes:
    return struct.pack("!BBHIHH4x", 4, MULTIPART, 16 + len(body), 1, kind, 0) + body


def hello(version: int, *elements: bytes) -> bytes:
    body = b"".join(elements)
    return struct.pack("!BBHI", version, HELLO, 8 + len(body), 1) + body


def _flow(length: int, instructions: bytes) -> bytes:
    """A flow entry that matches all, and says that it has a length."""
    return (
        struct.pack("!HBxIIHHHH4xQQQ", length, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + struct.pack("!HH4x", 1, 4) + instructions
    )


def _bucket(length: int) -> bytes:
    return struct.pack("!HHII4x", length, 0, 0, 0)


NO_ACTION = struct.pack("!HH4x", 0x19, 8)
"""Pops nothing, in as few bytes as an action can have."""
ENDLESS = {
    "hello": hello(4, struct.pack("!HH", 99, 0)),
    "hello of 1.4": hello(5, struct.pack("!HH", 99, 0)),
    "hello of 1.5": hello(6, struct.pack("!HH", 99, 0)),
    "hello with bits": hello(4, struct.pack("!HHI", 1, 8, 16), struct.pack("!HHI", 1, 0, 16)),
    "short hello": hello(4, struct.pack("!HHI", 99, 3, 0)),
    "flow": multipart(ofp.OFPMP_FLOW, _flow(0, b"")),
    "instruction": multipart(ofp.OFPMP_FLOW, _flow(80, struct.pack("!HH12x", 4, 0))),
    "action": multipart(ofp.OFPMP_FLOW, _flow(80, struct.pack("!HH4xHHI", 4, 24, 0xFFFF, 0, 0x2320))),
    "group": multipart(ofp.OFPMP_GROUP_DESC, struct.pack("!HBxI", 0, 1, 1) * 2),
    "bucket": multipart(ofp.OFPMP_GROUP_DESC, struct.pack("!HBxI", 24, 1, 1) + _bucket(0)),
    "group counters": multipart(ofp.OFPMP_GROUP, bytes(80)),
    "meter": multipart(ofp.OFPMP_METER_CONFIG, struct.pack("!HHI", 0, 1, 1) * 2),
    "band": multipart(ofp.OFPMP_METER_CONFIG, struct.pack("!HHI", 24, 1, 1) + struct.pack("!HHII4x", 1, 0, 1, 1)),
    "meter counters": multipart(ofp.OFPMP_METER, bytes(80)),
    "table": multipart(ofp.OFPMP_TABLE_FEATURES, bytes(128)),
    "property": multipart(ofp.OFPMP_TABLE_FEATURES, struct.pack("!H62x", 72) + struct.pack("!HH4x", 0, 0)),
    "queue": struct.pack("!BBHII4x", 4, QUEUES, 32, 1, 1) + bytes(16),
    "queue property": struct.pack("!BBHII4x", 4, QUEUES, 40, 1, 1) + struct.pack("!IIH6x", 1, 1, 24) + bytes(8),
    # Each of many groups claims to have a bucket that is as large as a message can be, and full of actions.
    "buckets in buckets": multipart(
        ofp.OFPMP_GROUP_DESC,
        ((struct.pack("!HBxI", 24, 1, 1) + _bucket(60_000)) * 1300 + NO_ACTION * 4000)[:LONGEST - 23],
    ),
    "instructions in instructions": multipart(
        ofp.OFPMP_FLOW, ((_flow(64, struct.pack("!HH4x", 4, 60_000))) * 900 + NO_ACTION * 4000)[:LONGEST - 23]
    ),
    "another version": struct.pack("!BBHIHH4x", 6, MULTIPART, 96, 1, 1, 0) + bytes(80),
    "the first version": struct.pack("!BBHIHH", 1, 17, 100, 1, 1, 0) + bytes(88),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
def test_parts_without_length_and_parts_in_parts(name: str) -> None:
    """What Ryu would read for ever, or for minutes, is refused at once; a wrong part costs its message and no more."""
    data = ENDLESS[name]
    assert len(data) == ofproto_parser.header(data)[2] <= LONGEST
    message = parse(data)
    assert message is None or read(message) <= LONGEST // 8
    assert read(parse(MESSAGES["flows-1"])) == 1
