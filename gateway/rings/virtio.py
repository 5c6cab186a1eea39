"""The kernel's ``virtio_net_hdr`` before a frame, which tells of checksums and segmentation that are still to be done.

Frames between hosts of one machine are often unfinished: the kernel leaves their checksums to a device that never was.
Packet sockets hand this header in and take it out; carried along, unfinished frames are forwarded as what they are.
"""

from __future__ import annotations

import numpy as np

from gateway.rings.batch import Batch

HEADER_BYTES = 10
_NEEDS_CHECKSUM = 1
_KIND = np.dtype([("flags", "u1"), ("segmentation", "u1"), ("rest", "<u2", (2,)), ("start", "<u2"), ("place", "<u2")])


def follow_frames(batch: Batch) -> None:
    """Correct the headers of frames that begin elsewhere than where they were captured.

    A step that put a header before a frame moved its start; what the header says of the checksum counts from there.
    """
    if batch.virtio is None or batch.captured is None:
        return
    for number in np.flatnonzero(batch.captured != batch.offsets).tolist():
        at = int(batch.virtio[number])
        header = batch.memory[at : at + HEADER_BYTES].view(_KIND)
        if header["flags"][0] & _NEEDS_CHECKSUM:
            header["start"] += int(batch.captured[number] - batch.offsets[number])
    batch.captured = batch.offsets.copy()
