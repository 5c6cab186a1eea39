"""Batch ports and BPF objects without a kernel: the borders that random interleavings seldom meet."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from emulator.errors import EmulatorError, MissingCapability
from gateway.offload import build
from gateway.rings.batch import Batch
from gateway.rings.copies import CopyLedger
from gateway.rings.frames import FramePool
from gateway.rings.index import require_ordered_memory
from gateway.rings.memory import MemoryPort, make_pool
from gateway.rings.umem import Umem, UmemPlan
from gateway.rings.virtio import HEADER_BYTES, follow_frames
from tests.support.xsk_kernel import PlayedKernel


def test_a_frame_that_is_cut_by_the_limit_stays_in_the_ring() -> None:
    """A batch ends before a frame of which only some pieces were asked for; the next batch begins with it."""
    umem = Umem(UmemPlan(128))
    kernel = PlayedKernel(umem, 64, 2**32 - 10, long_frames=True)
    kernel.core.refill()
    kernel.take_fill(64)
    packets = [bytes([number]) * 5000 for number in range(13)]
    assert all(kernel.receive(packet) for packet in packets)
    got = []
    while len(batch := kernel.core.receive(19)):
        got += [batch.frame(i) for i in range(len(batch))]
        assert kernel.core.enqueue(batch) == len(batch)
    assert got == packets
    kernel.take_tx(64)
    assert kernel.line == packets
    umem.close()


def test_frames_of_another_memory_are_copied_and_counted() -> None:
    """Forwarding between memories works, and the ledger tells what it cost; what is too long is refused."""
    pool, umem = make_pool(8, 4096), Umem(UmemPlan(8))
    ingress, kernel = MemoryPort(pool), PlayedKernel(umem, 8, 0)
    for length in (60, 1000, 3000):
        ingress.inject(bytes([length % 256]) * length)
    assert kernel.core.enqueue(ingress.receive(8)) == 3
    assert kernel.core.copies.as_json()["by_purpose"] == {"between memories": {"frames": 2, "bytes": 1060}}
    assert kernel.core.counters.tx_refused == 1
    assert pool.free == 8
    kernel.take_tx(8)
    assert kernel.line == [bytes([60]) * 60, bytes([1000 % 256]) * 1000]
    umem.close()


def test_what_the_kernel_would_swallow_is_refused() -> None:
    """Frames without a whole Ethernet header, or beyond their piece of memory, never get into the transmit ring."""
    umem = Umem(UmemPlan(8))
    kernel = PlayedKernel(umem, 8, 0)
    kernel.core.refill()
    kernel.take_fill(8)
    assert all(kernel.receive(bytes([number]) * 60) for number in range(4))
    batch = kernel.core.receive(8)
    batch.lengths[:] = [13, 14, 1792, 1793]
    assert kernel.core.enqueue(batch) == 4
    assert [int(entry["length"]) for entry in kernel.tx.contents()] == [14, 1792]
    assert (kernel.core.counters.tx_refused, kernel.core.counters.tx_frames, umem.pool.lent) == (2, 2, 0)
    umem.close()


def test_full_line_leaves_the_rest_with_the_caller() -> None:
    """A port without room takes the first frames and no others, and nothing is counted twice."""
    pool = make_pool()
    ingress, egress = MemoryPort(pool, "a"), MemoryPort(pool, "b", room=3)
    for number in range(5):
        ingress.inject(bytes([number]) * 60, arrival_ns=number)
    batch = ingress.receive(10)
    assert egress.send(batch) == 3
    rest = batch.take(slice(3, None))
    assert [data[0] for data in egress.line] == [0, 1, 2]
    assert rest.arrivals_ns is not None
    assert rest.arrivals_ns.tolist() == [3, 4]
    assert (pool.lent, egress.counters.tx_full) == (2, 2)
    rest.release()
    assert pool.free == pool.count


def test_checksum_notes_follow_a_header_put_before() -> None:
    """A frame that begins 8 bytes earlier has its unfinished checksum 8 bytes later."""
    pool = FramePool(np.zeros(4 * 256, dtype=np.uint8), 256)
    offsets = pool.lend(2) + 64
    for place, flags in zip(offsets.tolist(), (1, 0), strict=True):
        pool.memory[place - HEADER_BYTES : place] = np.frombuffer(
            bytes([flags, 0]) + (0).to_bytes(4, "little") + (34).to_bytes(2, "little") + (16).to_bytes(2, "little"),
            dtype=np.uint8,
        )
    batch = Batch(pool, offsets, np.array([60, 60]), virtio=offsets - HEADER_BYTES)
    batch.offsets = offsets - 8
    for _ in range(2):  # a second attempt to send changes nothing more
        follow_frames(batch)
    starts = [int(pool.memory[place - 4]) for place in offsets.tolist()]
    assert starts == [42, 34]


def test_ledger_tells_bytes_by_purpose() -> None:
    """What is copied is what is counted."""
    ledger = CopyLedger()
    source, target = np.arange(100, dtype=np.uint8), np.zeros(100, dtype=np.uint8)
    places = np.array([0, 10]), np.array([50, 60]), np.array([5, 7])
    ledger.move("a", target, places[0], source, places[1], places[2])
    assert target[:5].tolist() == list(range(50, 55))
    assert target[10:17].tolist() == list(range(60, 67))
    assert ledger.as_json() == {"frames": 2, "bytes": 12, "by_purpose": {"a": {"frames": 2, "bytes": 12}}}


def test_weakly_ordered_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings shared with the kernel need the order of accesses that only x86 gives without barriers."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(MissingCapability, match="x86_64 only, this is aarch64"):
        require_ordered_memory()


def test_programs_are_compiled_once_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects are kept by their sources' hash; without a compiler and without an object, the error says what to do."""
    monkeypatch.setattr(build, "_places", lambda: [tmp_path])
    path = build.object_path("steer")
    assert path.parent.parent == tmp_path
    assert sorted(found.name for found in path.parent.iterdir()) == ["offload.bpf.o", "steer.bpf.o"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.object_path("offload").parent == path.parent
    monkeypatch.setattr(build, "_places", lambda: [tmp_path / "empty"])
    with pytest.raises(EmulatorError, match="make setup"):
        build.object_path("steer")
