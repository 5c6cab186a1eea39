"""Parsing of batches against a slow reference, on good, damaged and arbitrary bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import TCP, UDP
from scapy.packet import Raw

from gateway.dataplane.checksum import verify_transport
from gateway.dataplane.headers import Headers
from gateway.dataplane.parse import parse
from gateway.dataplane.reasons import Reason
from tests.support.dataplane_frames import Batch, any_frames, batches, ethernet, ipv4, networks
from tests.support.dataplane_reference import Found, look

_POSITIONS = ("network", "transport", "payload", "ends")
_SAME = (
    *("target_mac", "source_mac", "ethertype", "tags", "vlan", "inner_vlan", "family", "protocol", "ttl"),
    *("source_port", "target_port"),
)


def as_found(headers: Headers, row: int) -> Found:
    """One frame's entries as the reference has them."""
    found = Found(Reason(int(headers.reason[row])))
    for name in _SAME:
        setattr(found, name, int(getattr(headers, name)[row]))
    for name in _POSITIONS:
        at = int(getattr(headers, name)[row])
        setattr(found, name, at - int(headers.offsets[row]) if at else 0)
    found.source = int(headers.source_high[row]) << 64 | int(headers.source[row])
    found.target = int(headers.target_high[row]) << 64 | int(headers.target[row])
    for name, fields in (
        ("bth", ("opcode", "partition", "queue_pair", "sequence", "acknowledge")),
        ("pdu", ("kind", "flags", "header_bytes", "data_offset", "length_bytes")),
    ):
        special = getattr(headers, name)
        if special is not None and row in special.rows:
            entry = int(np.flatnonzero(special.rows == row)[0])
            setattr(found, name, {field: int(getattr(special, field)[entry]) for field in fields})
    if headers.vxlan is not None and row in headers.vxlan.rows:
        entry = int(np.flatnonzero(headers.vxlan.rows == row)[0])
        found.vni, found.inner = int(headers.vxlan.vni[entry]), as_found(headers.vxlan.inner, entry)
    return found


@given(batches(), st.sampled_from([65557, 65557, 100, 13]))
def test_every_field_of_every_frame_is_the_references(batch: Batch, max_bytes: int) -> None:
    """Whatever lies in the memory, however aligned, fields and reasons are the reference's; nothing is written."""
    before = batch.memory.copy()
    headers = parse(batch.memory, batch.offsets, batch.lengths, max_bytes)
    for row in range(headers.size):
        assert as_found(headers, row) == look(batch.frame(row), max_bytes)
    assert np.array_equal(before, batch.memory)


@settings(max_examples=50)
@given(batches(), st.randoms(use_true_random=False))
def test_frames_do_not_look_at_each_other(batch: Batch, random: object) -> None:
    """The order of frames in a batch, and who else is in it, changes nothing about a frame."""
    together = parse(batch.memory, batch.offsets, batch.lengths)
    order = np.array(random.sample(range(together.size), together.size), np.int64)  # type: ignore[attr-defined]
    shuffled = parse(batch.memory, batch.offsets[order], batch.lengths[order])
    for row, original in enumerate(order):
        alone = parse(batch.memory, batch.offsets[original : original + 1], batch.lengths[original : original + 1])
        assert as_found(shuffled, row) == as_found(together, original) == as_found(alone, 0)


@settings(max_examples=50)
@given(batches())
def test_frames_of_the_common_shape_are_read_as_others_are(batch: Batch) -> None:
    """The short way for plain frames and the long way say the same, down to the words that flows are found by."""
    headers = parse(batch.memory, batch.offsets, batch.lengths)
    plain = np.flatnonzero(headers.plain)
    # A third tag takes the short way from no frame, but each plain frame has a twin with an option or in the long way:
    # the words of the reference are made from its fields.
    for row in plain:
        found = look(batch.frame(int(row)))
        assert int(headers.words[4, row]) == found.target << 32 | found.source_port << 16 | found.target_port
        assert int(headers.words[3, row]) & 0x00FF_0000_FFFF_FFFF == found.protocol << 48 | found.source
        assert found.family == 4
        assert found.tags < 2


@given(any_frames, st.integers(0, 160), st.integers(0, 20))
def test_headers_of_frames_in_pieces(data: bytes, head: int, last: int) -> None:
    """A frame whose rest lies elsewhere is read as a whole one as long as its headers are in its first piece."""
    head = min(head, len(data))
    batch = Batch.of([data[:head]], 5, last)
    sizes = np.array([len(data)], np.int64)
    headers = parse(batch.memory, batch.offsets, sizes, heads=batch.lengths)
    found, whole = as_found(headers, 0), look(data)
    if head == len(data) or (whole.payload and whole.payload + 128 <= head):
        assert found == whole
    elif whole.payload and whole.payload + 16 <= head and whole.inner is None:
        found.pdu = whole.pdu
        assert found == whole
    else:
        assert found.reason in (whole.reason, Reason.TRUNCATED, Reason.RUNT)


@settings(max_examples=50)
@given(st.lists(networks(), max_size=8), st.data())
def test_transport_checksums_are_scapys(packets: list[object], data: st.DataObject) -> None:
    """What scapy built is right; with one bit of TCP or UDP changed it is wrong."""
    good = [ethernet(packet) for packet in packets]
    batch = Batch.of(good, 3)
    headers = parse(batch.memory, batch.offsets, batch.lengths)
    before = headers.reason.copy()
    verify_transport(batch.memory, headers)
    assert np.array_equal(headers.reason, before)
    for row in np.flatnonzero((headers.reason == 0) & np.isin(headers.protocol, (6, 17))):
        at, end = int(headers.transport[row]), int(headers.ends[row])
        if headers.protocol[row] == 17 and not batch.memory[at + 6 : at + 8].any():
            continue
        position = data.draw(st.integers(at, end - 1))
        batch.memory[position] ^= 1 << data.draw(st.integers(0, 7))
        again = parse(batch.memory, batch.offsets[row : row + 1], batch.lengths[row : row + 1])
        verify_transport(batch.memory, again)
        if again.reason[0] == 0:
            # UDP whose checksum became zero says that it has none; a changed length shortens what is summed.
            assert again.protocol[0] == 17
            at = int(again.transport[0])
            assert position - at in (4, 5) or not batch.memory[at + 6 : at + 8].any()


@pytest.mark.parametrize(
    ("offsets", "lengths", "says"),
    [
        ([0], [61], "outside of its memory of 60 bytes"),
        ([-1], [10], "outside"),
        ([0], [-1], "outside"),
        ([61], [0], "outside"),
        ([2**62], [2**62], "outside"),
        ([10, 1], [50], "2 offsets, but 1 lengths"),
    ],
)
def test_frames_outside_of_the_memory_are_the_callers_mistake(
    offsets: list[int], lengths: list[int], says: str
) -> None:
    """A descriptor that points out of the memory is refused before anything is read."""
    memory = np.zeros(60, np.uint8)
    with pytest.raises(ValueError, match=says):
        parse(memory, np.array(offsets, np.int64), np.array(lengths, np.int64))


def test_no_frames_and_no_memory() -> None:
    """An empty batch is parsed, even in a memory without bytes."""
    nothing = np.zeros(0, np.int64)
    assert parse(np.zeros(0, np.uint8), nothing, nothing).size == 0
    assert parse(np.zeros(100, np.uint8), nothing, nothing).size == 0
    empty = parse(np.zeros(0, np.uint8), np.zeros(3, np.int64), np.zeros(3, np.int64))
    assert list(empty.reason) == [Reason.RUNT] * 3


@pytest.mark.parametrize("layer4", [UDP(sport=1, dport=2), TCP(sport=1, dport=2)])
@pytest.mark.parametrize("tags", [(), (7,)])
def test_the_common_shape_takes_the_short_way(layer4: object, tags: tuple[int, ...]) -> None:
    """Frames that benchmarks count on are plain."""
    batch = Batch.of([ethernet(ipv4(layer4 / Raw(b"x")), tags)] * 3)  # type: ignore[operator]
    assert parse(batch.memory, batch.offsets, batch.lengths).plain.all()
