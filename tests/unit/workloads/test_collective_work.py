"""What cards take for messages: chunks, and one sum after the other."""

from __future__ import annotations

import pytest

from emulator.workloads.collective.work import CardModel, Work


@pytest.mark.parametrize(
    ("chunk", "size", "chunks"), [(0, 0, 1), (0, 10**9, 1), (100, 1, 1), (100, 100, 1), (100, 101, 2), (512, 5120, 10)]
)
def test_each_chunk_takes_its_time(chunk: int, size: int, chunks: int) -> None:
    """A part of a chunk counts as one, and without chunks the whole message does."""
    assert CardModel(message_ns=7, chunk_bytes=chunk).prepare_ns(size) == 7 * chunks


def test_adding_up_is_never_quicker_than_the_rate() -> None:
    """Rounded up to whole nanoseconds; without a rate it takes no time."""
    assert CardModel(reduce_rate=3 * 10**9).reduce_ns(10) == 4
    assert CardModel(reduce_rate=10**9).reduce_ns(10) == 10
    assert CardModel().reduce_ns(10**12) == 0


def test_one_sum_after_the_other() -> None:
    """What arrives while a card adds up waits; another card does not, nor do messages that are prepared."""
    work = Work([CardModel(reduce_rate=10**9, message_ns=5)] * 2)
    assert work.computes
    assert work.next_ns is None
    assert work.reduce(0, 10, 100, 1000)
    assert work.reduce(0, 11, 100, 1050)
    assert work.reduce(1, 12, 100, 1060)
    assert work.prepare(0, 13, 100, 1060)
    assert work.next_ns == 1065
    assert work.ended(1064) == []
    assert work.ended(1160) == [(13, False), (10, True), (12, True)]
    assert work.next_ns == 1200
    assert work.ended(1200) == [(11, True)]
    assert not Work([CardModel()]).computes
    assert not Work([CardModel()]).reduce(0, 1, 100, 0)
