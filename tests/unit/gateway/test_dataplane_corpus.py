"""The corpus of frames, and thousands of mutations of it, through parser and pipeline: every byte of every outcome."""

from __future__ import annotations

import itertools
from collections import Counter
from ipaddress import IPv4Address, ip_network

import numpy as np
import pytest

from gateway.dataplane.classify import Tenants
from gateway.dataplane.parse import parse
from gateway.dataplane.pipeline import Configuration, Pipeline
from gateway.dataplane.policy import Rule
from gateway.dataplane.reasons import Reason
from gateway.dataplane.route import NextHop, Route
from gateway.dataplane.translate import Endpoint
from tests.property.test_dataplane_parse import as_found
from tests.support.dataplane_frames import Batch
from tests.support.dataplane_reference import look
from tests.support.frame_corpus import load, mutated, seeds

CORPUS = load()
ROOM = 64
MAC, NEIGHBOUR = bytes.fromhex("020000000001"), bytes.fromhex("0200000000bb")


def batches(frames: list[bytes], size: int, gap: int) -> list[Batch]:
    """The frames in batches."""
    return [Batch.of(frames[at : at + size], gap) for at in range(0, len(frames), size)]


def test_the_corpus_is_what_the_tool_makes() -> None:
    """No frame is lost or changed by hand: the tool can write the corpus anew."""
    assert seeds() == CORPUS


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("empty", Reason.RUNT),
        ("tcp", Reason.FORWARDED),
        ("llc", Reason.NOT_IP),
        ("bad-checksum", Reason.BAD_CHECKSUM),
        ("total-65535", Reason.TRUNCATED),
        ("header-16", Reason.MALFORMED),
        ("first-fragment", Reason.FRAGMENT),
        ("last-fragment", Reason.FRAGMENT),
        ("ipv6-fragment", Reason.FRAGMENT),
        ("ipv6-atomic-fragment", Reason.FORWARDED),
        ("ipv6-atomic-fragment-reserved-bits", Reason.FORWARDED),
        ("ipv6-all-extensions", Reason.FORWARDED),
        ("ipv6-nine-extensions", Reason.TOO_MANY_EXTENSIONS),
        ("ipv6-late-hop-by-hop", Reason.MALFORMED),
        ("three-tags", Reason.TOO_MANY_TAGS),
        ("tag-cut", Reason.TRUNCATED),
        ("udp-length-7", Reason.MALFORMED),
        ("udp-length-long", Reason.TRUNCATED),
        ("tcp-offset-4", Reason.MALFORMED),
        ("vxlan-no-vni", Reason.MALFORMED),
        ("vxlan-cut", Reason.TRUNCATED),
        ("roce-cut", Reason.TRUNCATED),
    ],
)
def test_seeds_have_their_reason(name: str, reason: Reason) -> None:
    """What each seed was made for is what is found."""
    batch = Batch.of([CORPUS[name]], 2)
    assert parse(batch.memory, batch.offsets, batch.lengths).reason[0] == reason


@pytest.mark.parametrize("seed", range(4))
def test_mutations_are_parsed_as_the_reference_does(seed: int) -> None:
    """Thousands of damaged frames: each field and each reason is the reference's, and many reasons are met."""
    frames = [*CORPUS.values(), *mutated(list(CORPUS.values()), 1500, seed)]
    met: Counter[Reason] = Counter()
    for batch in batches(frames, 64, gap=seed):
        headers = parse(batch.memory, batch.offsets, batch.lengths)
        for row in range(headers.size):
            found = as_found(headers, row)
            assert found == look(batch.frame(row))
            met[found.reason] += 1
    assert len(met) >= 9
    assert met[Reason.FORWARDED] > 300


def configuration() -> Configuration:
    """A gateway that forwards much of the corpus: tagged, wrapped, translated, for both families."""
    hops = [NextHop(1, NEIGHBOUR, MAC), NextHop(2, NEIGHBOUR, MAC, vlan=9)]
    return Configuration(
        macs={0: MAC},
        tenants=Tenants(by_port={0: 0}, by_vlan={100: 1, 5: 2}, by_vni={7001: 3}),
        rules=[Rule(True)],
        routes=[
            Route(tenant, ip_network(network), 1 + (tenant + number) % 2)
            for tenant in range(4)
            for number, network in enumerate(("10.0.0.0/8", "fd00::/16", "0.0.0.0/1"))
        ],
        next_hops=hops,
        endpoints=[Endpoint(17, IPv4Address("10.0.0.2"), 2000, IPv4Address("10.0.0.77"), 99)],
        tunnel_ends=[IPv4Address("10.0.0.2")],
        flow_capacity=500,
    )


@pytest.mark.parametrize("seed", range(4))
def test_mutations_leave_every_other_byte_alone(seed: int) -> None:
    """Each frame has one reason, the reasons add up, and only forwarded frames and their headroom are written to."""
    pipeline = Pipeline(configuration())
    frames = [*CORPUS.values(), *mutated(list(CORPUS.values()), 3000, 100 + seed)]
    total = 0
    for number, batch in enumerate(batches(frames, 100, gap=ROOM)):
        before = batch.memory.copy()
        room = np.full(batch.offsets.size, ROOM, np.int64)
        verdicts = pipeline.process(batch.memory, batch.offsets, batch.lengths, room, 0, number)
        forwarded = verdicts.reason == Reason.FORWARDED
        may_change = np.zeros(batch.memory.size, np.bool_)
        for start, length in zip(batch.offsets[forwarded], batch.lengths[forwarded], strict=True):
            may_change[start - ROOM : start + length] = True
        assert np.array_equal(before[~may_change], batch.memory[~may_change])
        assert ((verdicts.port >= 0) == forwarded).all()
        for row in np.flatnonzero(forwarded):
            start, length = int(verdicts.offsets[row]), int(verdicts.lengths[row])
            assert batch.offsets[row] - ROOM <= start <= start + length <= batch.offsets[row] + batch.lengths[row]
            again = look(batch.memory[start : start + length].tobytes())
            assert again.reason is Reason.FORWARDED
            assert again.target_mac == int.from_bytes(NEIGHBOUR, "big")
        total += batch.offsets.size
        assert pipeline.counters.frames_in == total
    counted = pipeline.counters.as_json()
    assert sum(entry["frames"] for entry in counted["reasons"].values()) == total == len(frames)
    assert counted["bytes_in"] == sum(len(frame) for frame in frames)
    assert pipeline.counters.frames(Reason.FORWARDED) > 250
    assert sum(1 for entry in counted["reasons"].values() if entry["frames"]) >= 12


def test_a_small_table_of_flows_changes_nothing() -> None:
    """The same frames have the same fates with room for 8 flows and for thousands, and in batches of any size."""
    frames = list(itertools.islice(mutated(list(CORPUS.values()), 2000, 7), 2000))
    fates = []
    for capacity, size in ((8, 50), (5000, 1000), (5000, 1)):
        pipeline = Pipeline(Configuration(**{**vars(configuration()), "flow_capacity": capacity}))
        out: list[tuple[int, int, bytes]] = []
        for number, batch in enumerate(batches(frames[: 300 if size == 1 else None], size, gap=ROOM)):
            room = np.full(batch.offsets.size, ROOM, np.int64)
            verdicts = pipeline.process(batch.memory, batch.offsets, batch.lengths, room, 0, number)
            for row, reason in enumerate(verdicts.reason):
                start = int(verdicts.offsets[row])
                bytes_out = batch.memory[start : start + int(verdicts.lengths[row])].tobytes()
                out.append((int(reason), int(verdicts.port[row]), bytes_out))
        fates.append(out)
    assert fates[0] == fates[1]
    assert fates[2] == fates[1][:300]
