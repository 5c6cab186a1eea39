"""Collectives over real TCP on the loopback device: many ranks in one loop, every number checked."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

from emulator.collectives import Collective, Schedule, build
from emulator.collectives.cost import schedule_edges
from emulator.collectives.messages import messages_of, stages_of
from emulator.collectives.payload import payload
from emulator.errors import WorkloadError
from emulator.workloads.collective import links as links_module
from emulator.workloads.collective.buffers import Buffers
from emulator.workloads.collective.ends import Receiver
from emulator.workloads.collective.execution import Execution
from emulator.workloads.collective.links import opened
from emulator.workloads.collective.work import CardModel, Work


class LoopbackHost:
    """A host that is an address of the loopback device."""

    interfaces = ("lo",)

    def __init__(self, rank: int) -> None:
        self.name = f"h{rank}"
        self.ip = f"127.0.9.{rank + 1}"

    def run(self, argv: Sequence[str], *, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        raise NotImplementedError

    def popen(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        raise NotImplementedError

    def namespace(self) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.fixture(autouse=True)
def unprivileged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers beyond the system's limits are root's."""
    monkeypatch.setattr(links_module, "_SO_SNDBUFFORCE", socket.SO_SNDBUF)
    monkeypatch.setattr(links_module, "_SO_RCVBUFFORCE", socket.SO_RCVBUF)


@contextmanager
def execution(
    schedule: Schedule,
    size_bytes: int,
    buffer_bytes: int = 65_536,
    card: CardModel | None = None,
    cards: Sequence[CardModel] | None = None,
) -> Iterator[tuple[Execution, Buffers]]:
    edges = schedule_edges(schedule, size_bytes)
    messages = messages_of(schedule, edges)
    buffers = Buffers(schedule, messages, edges // 4, payload(schedule, edges, "float", "sum", seed=5))
    hosts = [LoopbackHost(rank) for rank in range(schedule.ranks)]
    work = Work(cards or [card or CardModel()] * schedule.ranks)
    with opened(hosts, messages.connections, "cubic", buffer_bytes, "test") as links:
        names = [host.name for host in hosts]
        yield Execution(messages, stages_of(messages), buffers, links, work, buffer_bytes, names, "test"), buffers


@pytest.mark.parametrize(
    ("kind", "name", "shape", "size"),
    [
        (Collective.ALL_REDUCE, "ring", (5,), 1_000_004),
        (Collective.ALL_REDUCE, "halving-doubling", (8,), 4 << 20),
        (Collective.ALL_REDUCE, "double-binary-tree", (7,), 40_000),
        (Collective.ALL_REDUCE, "torus-buckets", (3, 2, 2), 300_000),
        (Collective.ALL_REDUCE, "bidirectional-ring", (4,), 8),
        (Collective.ALL_REDUCE, "ring", (3,), 0),
        (Collective.REDUCE_SCATTER, "torus-rings", (2, 3), 60_000),
        (Collective.ALL_GATHER, "ring", (6,), 120_000),
        (Collective.ALL_TO_ALL, "torus-exchange", (2, 2, 2), 80_000),
        (Collective.BROADCAST, "chain", (4,), 2 << 20),
        (Collective.REDUCE, "binomial", (6,), 50_000),
    ],
)
def test_results_are_right(kind: Collective, name: str, shape: tuple[int, ...], size: int) -> None:
    """Messages larger than sockets' buffers, of a few bytes and of none, and several rounds one into the other."""
    with execution(build(kind, name, shape), size) as (one, _):
        for rounds in (1, 4):
            outcome = one.run(rounds)
            assert outcome.wrong == 0
            assert all(end >= outcome.start_ns for end in outcome.ends_ns)


def test_cards_that_compute() -> None:
    """Adding up and preparing take time: three reductions of 40 000 bytes and six messages, one after the other."""
    schedule = build(Collective.ALL_REDUCE, "ring", (4,))
    with execution(schedule, 160_000, card=CardModel(reduce_rate=10**9, message_ns=200_000)) as (one, _):
        outcome = one.run(1)
    assert outcome.wrong == 0
    assert min(outcome.ends_ns) - outcome.start_ns >= 3 * 40_000 + 6 * 200_000


def test_who_cannot_follow_does_not_hoard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that waits for nobody is quick with all rounds; the one that waits for another too reads two ahead."""
    schedule = build(Collective.REDUCE, "binomial", (3,))
    cards = [CardModel(), CardModel(), CardModel(message_ns=1_000_000)]
    ahead: list[int] = []
    with execution(schedule, 4000, cards=cards) as (one, _):
        read = one._read

        def noted(end: Receiver) -> None:
            read(end)
            ahead.append(end.round - one._round[end.rank])

        monkeypatch.setattr(one, "_read", noted)
        assert one.run(12).wrong == 0
    assert max(ahead) == 2


def test_wrong_numbers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One number that goes wrong in a reduction is wrong at every rank, in every round."""
    with execution(build(Collective.ALL_REDUCE, "ring", (4,)), 4096) as (one, buffers):
        combine = buffers._combine
        calls: list[int] = []

        def once(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
            combine(left, right, out=out)
            calls.append(1)
            if len(calls) % 12 == 1:
                out[3] += 1

        monkeypatch.setattr(buffers, "_combine", once)
        assert one.run(1).wrong == 4
        assert one.run(2).wrong == 8


def test_a_connection_that_breaks_is_named() -> None:
    """The rank that waits and the one that it waits for."""
    with execution(build(Collective.ALL_REDUCE, "ring", (3,)), 3 << 20) as (one, _):
        one._senders[1].socket.shutdown(socket.SHUT_RDWR)
        with pytest.raises(WorkloadError, match="workload test: h1 to h2: "):
            one.run(1)


def test_a_host_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """No endless wait."""
    monkeypatch.setattr(links_module, "_PATIENCE_NS", 50_000_000)
    hosts = [LoopbackHost(rank) for rank in range(3)]
    hosts[2].ip = "192.0.2.1"
    with pytest.raises(WorkloadError, match="workload test: "), opened(hosts, [(0, 2, 0)], "cubic", 65_536, "test"):
        pass
