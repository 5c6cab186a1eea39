"""VLAN tags that the kernel took out of frames before packet sockets got them."""

from __future__ import annotations

import struct

import numpy as np

from gateway.packet_socket import VLAN_TAG_BYTES
from gateway.rings.batch import Batch
from gateway.rings.copies import CopyLedger

_ADDRESS_BYTES = 12
_ETH_P_8021Q = 0x8100


def put_back(batch: Batch, number: int, tag_type: int, tag: int, copies: CopyLedger) -> None:
    """Put a frame's tag back where it was, which moves the addresses before it into the room before the frame.

    Args:
        batch: The batch.
        number: Which of its frames.
        tag_type: Ethernet type of the tag; 0: that of customers' tags.
        tag: Priority and VLAN.
        copies: Where the addresses' copy is counted.
    """
    memory, start = batch.memory, int(batch.offsets[number])
    end = start + _ADDRESS_BYTES
    memory[start - VLAN_TAG_BYTES : end - VLAN_TAG_BYTES] = memory[start:end].copy()
    raw = struct.pack("!HH", tag_type or _ETH_P_8021Q, tag)
    memory[end - VLAN_TAG_BYTES : end] = np.frombuffer(raw, dtype=np.uint8)
    batch.offsets[number] -= VLAN_TAG_BYTES
    batch.lengths[number] += VLAN_TAG_BYTES
    copies.count("VLAN tag", 1, _ADDRESS_BYTES)
