"""The cards of a collective's ranks, and the cost model that knows them."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.collectives.cost import CostModel
from emulator.collectives.ways import Ways
from emulator.model.workload import Collectives
from emulator.workloads.collective.work import CardModel


def cards_of(workload: Collectives, names: Sequence[str]) -> list[CardModel]:
    """The card of each rank."""
    usual = CardModel(workload.reduce_bps // 8 or None, workload.message_ns, workload.chunk_bytes)
    others = {
        name: CardModel(reduce_bps // 8 or None, message_ns, chunk_bytes)
        for hosts, reduce_bps, message_ns, chunk_bytes in workload.cards
        for name in hosts
    }
    return [others.get(name, usual) for name in names]


def cost_model(workload: Collectives, ways: Ways) -> CostModel:
    """The model of a workload's ranks, with their cards."""
    cards = cards_of(workload, workload.ranks)
    return CostModel(
        ways,
        workload.ranks,
        [card.message_ns for card in cards],
        [8 * (card.reduce_rate or 0) for card in cards],
        [card.chunk_bytes for card in cards],
        workload.buffer_bytes,
    )


def slow_ranks(ways: Ways, names: Sequence[str]) -> list[int]:
    """Ranks whose links carry less than others' do, all links of a host together; empty if all are alike."""
    rates = [sum(link.spec.rate_bps for link in ways.fabric.links_of(name)) for name in names]
    return [rank for rank, rate in enumerate(rates) if rate < max(rates)]
