"""Nanoseconds a frame of each stage of the data plane, in batches of 1, 16, 64 and 256 frames on one CPU.

Frames are 60 bytes long and lie in frames of 2048 bytes, as in a ring; the flows are as many as the frames. What
forwarding costs frame by frame, with the pipeline of the ``forward`` daemon, stands next to it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from ipaddress import IPv4Address, ip_network

import numpy as np
from numpy.typing import NDArray

from gateway.dataplane.classify import Tenants, classify
from gateway.dataplane.edits import deltas_of
from gateway.dataplane.parse import parse
from gateway.dataplane.pipeline import Configuration, Pipeline
from gateway.dataplane.policy import Rule, judge
from gateway.dataplane.reasons import Reason
from gateway.dataplane.rewrite import write_macs, write_plain
from gateway.dataplane.route import NextHop, Route, Routes, route
from gateway.dataplane.translate import Endpoint, translate
from gateway.pipeline import ForwardingTable, decide, rewrite
from tests.bench.table import Row, spread
from tests.support.dataplane_reference import ones_complement

BATCHES = (1, 16, 64, 256)
_MAC, _PEER = bytes.fromhex("020000000001"), bytes.fromhex("0200000000aa")
_SLOT, _ROOM = 2048, 256
_BUDGET_NS = 40_000_000
_RULES = 64


def _frame(number: int, tag: bytes) -> bytes:
    addresses = IPv4Address(f"10.1.{number >> 8}.{number & 255}").packed + IPv4Address("10.0.0.2").packed
    header = bytearray(bytes([0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0]) + addresses)
    header[10:12] = ones_complement(header).to_bytes(2, "big")
    datagram = (1024 + number).to_bytes(2, "big") + (2000).to_bytes(2, "big") + bytes([0, 26, 0x12, 0x34]) + bytes(18)
    return _MAC + _PEER + tag + b"\x08\x00" + header + datagram


class _Bed:
    """A batch in a memory, and a gateway that forwards it."""

    def __init__(self, frames: int, *, tagged: bool = False, translated: bool = False) -> None:
        tag = b"\x81\x00\x00\x05" if tagged else b""
        self.memory = np.zeros(frames * _SLOT, np.uint8)
        slots = np.random.default_rng(1).permutation(frames)
        self.offsets = (slots * _SLOT + _ROOM).astype(np.int64)
        self.frames = [_frame(number, tag) for number in range(frames)]
        self.lengths = np.array([len(frame) for frame in self.frames], np.int64)
        self.room = np.full(frames, _ROOM, np.int64)
        # One that matches comes behind many that do not.
        never = Rule(True, protocol=6, target=ip_network("192.0.2.0/24"), target_ports=(80, 90))
        self.pipeline = Pipeline(
            Configuration(
                macs={0: _MAC},
                tenants=Tenants(by_port={0: 0}, by_vlan={5: 0}, addresses={0: [ip_network("10.0.0.0/8")]}),
                rules=[never] * (_RULES - 1) + [Rule(True, tenant=0, source=ip_network("10.0.0.0/8"))],
                routes=[Route(0, ip_network("10.0.0.0/8"), 1)],
                next_hops=[NextHop(1, _PEER, _MAC, vlan=5 if tagged else 0)],
                endpoints=[Endpoint(17, IPv4Address("10.0.0.2"), 2000, IPv4Address("10.9.9.9"), 77)]
                if translated
                else [],
            )
        )
        self.fill()
        self._places = (self.offsets[:, None] + np.arange(60)).ravel()
        self._bytes = self.memory[self._places]

    def fill(self) -> None:
        """Put the frames where they belong."""
        for offset, frame in zip(self.offsets.tolist(), self.frames, strict=True):
            self.memory[offset : offset + len(frame)] = np.frombuffer(frame, np.uint8)

    def restore(self) -> None:
        """The same, quickly."""
        self.memory[self._places] = self._bytes

    def process(self) -> NDArray[np.uint8]:
        """Take the batch through the pipeline."""
        return self.pipeline.process(self.memory, self.offsets, self.lengths, self.room, 0, 0).reason


def _time(action: Callable[[], object], prepare: Callable[[], object] | None = None) -> float:
    """Nanoseconds of one call: the median of as many as fit the budget."""
    taken: list[int] = []
    end = time.perf_counter_ns() + _BUDGET_NS
    while (start := time.perf_counter_ns()) < end:
        if prepare is not None:
            prepare()
            start = time.perf_counter_ns()
        action()
        taken.append(time.perf_counter_ns() - start)
    return float(np.median(taken))


def _stages(frames: int) -> dict[str, float]:
    bed = _Bed(frames)
    memory, pipeline = bed.memory, bed.pipeline
    if bed.process().any():
        raise RuntimeError("the benchmark's frames are not forwarded")
    bed.restore()
    headers = parse(memory, bed.offsets, bed.lengths)
    classes, edits, _ = pipeline.decide(headers, 0)
    numbers = pipeline.flows.find(headers, classes.tenant)
    routes: Routes = pipeline.routes
    slow = _Bed(frames)
    result = {
        "parse": _time(lambda: parse(memory, bed.offsets, bed.lengths)),
        "classify": _time(lambda: classify(headers, 0, pipeline.classifier)),
        f"policy, {_RULES} rules": _time(lambda: judge(headers, classes, pipeline.policy)),
        "translate": _time(lambda: translate(headers, classes, pipeline.translations)),
        "route": _time(lambda: route(headers, classes, edits, routes)),
        "checksum differences": _time(lambda: deltas_of(headers, edits)),
        "find flows": _time(lambda: pipeline.flows.find(headers, classes.tenant)),
        "rewrite": _time(
            lambda: (
                write_plain(memory, headers, pipeline.flows, numbers),
                write_macs(memory, bed.offsets, edits.next_hop, routes),
            )
        ),
        "all, flows known": _time(bed.process, bed.restore),
        "all, flows new": _time(slow.process, lambda: (slow.restore(), slow.pipeline.flows.clear())),
    }
    for name, options in (
        ("all, one tag", {"tagged": True}),
        ("all, translated", {"translated": True}),
        ("all, one tag and translated", {"tagged": True, "translated": True}),
    ):
        other = _Bed(frames, **options)
        if other.process().any():
            raise RuntimeError("the benchmark's frames are not forwarded")
        result[name] = _time(other.process, other.restore)
    return {name: value / frames for name, value in result.items()}


def _one_by_one() -> float:
    """The same frames by the scalar pipeline: decide and rewrite, without tenants, rules or flows."""
    buffer = bytearray(_frame(1, b""))
    table = ForwardingTable.build(_MAC, [], {IPv4Address("10.0.0.2"): _PEER})

    def forward() -> None:
        buffer[22], buffer[24:26] = before
        addresses = decide(buffer, 0, len(buffer), table)
        if isinstance(addresses, Reason) or not isinstance(addresses, bytes):
            raise RuntimeError("the benchmark's frame is not forwarded")
        rewrite(buffer, 0, addresses)
        buffer[0:6] = _MAC

    before = buffer[22], bytes(buffer[24:26])
    return _time(forward)


def measure(rounds: int) -> list[Row]:
    """All stages in batches of all sizes."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cpus)})
    try:
        rows = [Row("decide and rewrite, one by one, ns a frame", spread([_one_by_one() for _ in range(rounds)]))]
        for frames in BATCHES:
            runs = [_stages(frames) for _ in range(rounds)]
            rows += [
                Row(f"{name}, batch of {frames}, ns a frame", spread([run[name] for run in runs])) for name in runs[0]
            ]
    finally:
        os.sched_setaffinity(0, cpus)
    return rows
