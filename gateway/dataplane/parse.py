"""From bytes to `Headers`: the common shape of frames by fixed offsets, all others by `walk`.

Most frames are untagged or have one tag, and carry whole IPv4 packets without options of TCP or UDP. All their fields
lie at fixed places, so 64 bytes of each frame, gathered at once and taken as eight numbers of 64 bits, hold everything;
a dozen comparisons tell whether a frame has this shape. Frames that have not are looked at field by field.
"""

from __future__ import annotations

import numpy as np

from gateway.dataplane.headers import (
    ETHERNET_BYTES,
    ETHERTYPE_IPV4,
    ETHERTYPE_VLAN,
    IPV4_BYTES,
    TAG_BYTES,
    TCP,
    UDP,
    UDP_BYTES,
    W_IP,
    W_LAYER4,
    W_PAYLOAD,
    W_SOURCE_TYPE,
    W_TARGET,
    W_TARGET_PORTS,
    W_TCP,
    W_TTL_SOURCE,
    Headers,
)
from gateway.dataplane.memory import Bytes, Flags, Ints, Words, check_batch, constant, integer, windows, word
from gateway.dataplane.payloads import read_payloads
from gateway.dataplane.walk import walk

MAX_BYTES = 65_535 + ETHERNET_BYTES + 8
"""The longest frame that a header's length can describe, with two tags."""

MAX_BATCH = 1 << 16
"""Frames that are parsed at a time, at most."""

_ZEROS, _FOURS = constant(0, size=MAX_BATCH), constant(4, size=MAX_BATCH)
_NO_VNI = constant(-1, size=MAX_BATCH)
_ZERO_WORDS = _ZEROS.view(np.uint64)

_LOW16, _LOW32, _MAC, _BYTE = (word((1 << bits) - 1) for bits in (16, 32, 48, 8))
_TYPE_CLEARED = word((1 << 64) - 1 - 0xFFFF)
_2, _16, _24, _32, _48, _60 = (word(bits) for bits in (2, 16, 24, 32, 48, 60))
_VLAN, _IPV4, _VLAN_ID, _NOTHING = word(ETHERTYPE_VLAN), word(ETHERTYPE_IPV4), word(0x0FFF), word(0)
_IP_SHAPE = word(0x45 << 56)
_IP_SHAPE_BITS = word(0xFF << 56 | 0x3FFF)
"""Version and header length; more-fragments and the fragment's offset, which must be zero."""
_LEAST_DATA_OFFSET = word(5 << 60)
_TCP, _UDP, _UDP_HEADER = integer(TCP), integer(UDP), integer(UDP_BYTES)
_ETHERNET, _TAG, _IP_HEADER = integer(ETHERNET_BYTES), integer(TAG_BYTES), integer(IPV4_BYTES)


def parse(
    memory: Bytes, offsets: Ints, lengths: Ints, max_bytes: int = MAX_BYTES, heads: Ints | None = None
) -> Headers:
    """Parse the headers of a batch.

    Args:
        memory: Where the frames lie.
        offsets: Position of each frame.
        lengths: Length of each frame in bytes, with Ethernet header and padding, without check sequence.
        max_bytes: Longer frames are `Reason.JUMBO`.
        heads: For frames that lie in several pieces, the lengths of the first ones; headers that go beyond them are
            `Reason.TRUNCATED`. None: all frames are in one piece.

    Returns:
        The headers; `Headers.reason` is what is wrong with each frame.

    Raises:
        ValueError: A frame lies outside of the memory, or the batch is longer than `MAX_BATCH`.
    """
    size = offsets.size
    if size > MAX_BATCH:
        raise ValueError(f"a batch of {size} frames: at most {MAX_BATCH}")
    head_ends = check_batch(memory, offsets, lengths if heads is None else heads)
    headers = read_plain(memory, offsets, lengths, head_ends, max_bytes, is_whole=heads is None)
    plain = headers.plain
    if np.count_nonzero(plain) != size:
        _make_writable(headers)
        walk(memory, headers, np.flatnonzero(~plain), max_bytes)
    read_payloads(memory, headers, parse)
    return headers


def read_plain(
    memory: Bytes, offsets: Ints, lengths: Ints, head_ends: Ints, max_bytes: int, *, is_whole: bool
) -> Headers:
    """The fields of frames of the common shape; those of all others, for which ``plain`` is False, mean nothing."""
    size = offsets.size
    words = windows(memory, offsets)
    target_mac = words[W_TARGET] & _MAC
    kind = words[W_SOURCE_TYPE] & _LOW16
    tagged = kind == _VLAN
    network = offsets + _ETHERNET
    tags = vlan = _ZEROS[:size]
    if np.count_nonzero(tagged):
        tags = tagged.astype(np.int64)
        network += tags * _TAG
        kind, vlan = _take_tags_out(words, tagged)
    ip, ttl_source, target_ports, layer4 = words[W_IP], words[W_TTL_SOURCE], words[W_TARGET_PORTS], words[W_LAYER4]
    ip_high, ttl_high = ip >> _32, ttl_source >> _32
    source, target = ttl_source & _LOW32, target_ports >> _32
    total = (ip_high & _LOW16).view(np.int64)
    protocol = ((ttl_high >> _16) & _BYTE).view(np.int64)
    tcp, udp = protocol == _TCP, protocol == _UDP
    room = total - _IP_HEADER
    transport_header = ((words[W_TCP] >> _60) << _2).view(np.int64)
    np.copyto(transport_header, _UDP_HEADER, where=udp)
    transport_length = (layer4 >> _48).view(np.int64)
    np.copyto(transport_length, room, where=tcp)
    ends = network + total
    plain = kind == _IPV4
    plain &= (ip & _IP_SHAPE_BITS) == _IP_SHAPE
    # 2^16 is 1 modulo 65535: the remainder of the sum of 32-bit words is that of the sum of 16-bit words.
    header_sum = ip & _LOW32
    header_sum += ip_high
    header_sum += ttl_high
    header_sum += source
    header_sum += target
    plain &= header_sum % _LOW16 == _NOTHING
    plain &= ends <= (head_ends if is_whole else offsets + lengths)
    plain &= transport_header <= transport_length
    plain &= transport_length <= room
    plain &= (tcp & (words[W_TCP] >= _LEAST_DATA_OFFSET)) | udp
    plain &= lengths <= integer(max_bytes)
    transport = network + _IP_HEADER
    payload = transport + transport_header
    if not is_whole:
        plain &= payload <= head_ends
    return Headers(
        offsets=offsets,
        lengths=lengths,
        head_ends=head_ends,
        reason=np.zeros(size, np.uint8),
        words=words,
        plain=plain,
        target_mac=target_mac,
        tags=tags,
        vlan=vlan,
        inner_vlan=_ZEROS[:size],
        family=_FOURS[:size],
        network=network,
        transport=transport,
        payload=payload,
        ends=ends,
        protocol=protocol,
        ttl=(ttl_high >> _24).view(np.int64),
        source=source,
        target=target,
        source_high=_ZERO_WORDS[:size],
        target_high=_ZERO_WORDS[:size],
        source_port=((target_ports >> _16) & _LOW16).view(np.int64),
        target_port=(target_ports & _LOW16).view(np.int64),
        vni=_NO_VNI[:size],
    )


def _take_tags_out(words: Words, tagged: Flags) -> tuple[Words, Ints]:
    """Move the words of frames with a tag as if there were none; returns what follows tags, and VLAN identifiers."""
    source = words[W_SOURCE_TYPE] & _TYPE_CLEARED
    moved = words[W_SOURCE_TYPE : W_TCP + 1] << _32
    moved |= words[W_IP : W_PAYLOAD + 1] >> _32
    np.copyto(words[W_SOURCE_TYPE : W_TCP + 1], moved, where=tagged)
    kind = words[W_SOURCE_TYPE] & _LOW16
    vlan = ((words[W_SOURCE_TYPE] >> _16) & _VLAN_ID).view(np.int64)
    vlan *= tagged
    np.bitwise_or(source, kind, out=words[W_SOURCE_TYPE])
    return kind, vlan


def _make_writable(headers: Headers) -> None:
    for name in ("tags", "vlan", "inner_vlan", "family", "source_high", "target_high"):
        column = getattr(headers, name)
        if not column.flags.writeable:
            setattr(headers, name, column.copy())
