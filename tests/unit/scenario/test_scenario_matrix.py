"""The matrix: combinations, names of variants, and mistakes in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.errors import ScenarioError
from emulator.model.workload import TcpBulk
from emulator.scenario import loads

Refuse = Callable[[str], ScenarioError]


def variants(text: str) -> dict[str, dict[str, object]]:
    return {variant.label: dict(variant.parameters) for variant in loads(text).variants}


def test_cross_product_in_the_order_of_the_file(small: str) -> None:
    """Every combination is there once, the last axis varying fastest, named as the values are written."""
    found = variants(small + "matrix: {topology.rate: [25 Gbit/s, 100 Gbit/s], topology.hops: [1, 3, 5]}\n")
    assert list(found) == [f"rate={rate} Gbit/s,hops={hops}" for rate in (25, 100) for hops in (1, 3, 5)]
    assert found["rate=25 Gbit/s,hops=5"] == {"rate_bps": 25_000_000_000, "delay_ns": 1000, "hops": 5}


def test_choices_set_several_keys_together(small: str) -> None:
    """A named axis changes what belongs together, in workloads by their names."""
    text = small + (
        "matrix:\n"
        "  congestion:\n"
        "    cubic: {workloads.bulk.congestion: cubic}\n"
        "    dctcp: {workloads.bulk.congestion: dctcp, workloads.bulk.ecn: true}\n"
    )
    found = {variant.label: variant.workloads[1] for variant in loads(text).variants}
    assert found == {
        "congestion=cubic": TcpBulk("bulk", ("h0",), ("h1",), size_bytes=10_000_000, congestion="cubic"),
        "congestion=dctcp": TcpBulk("bulk", ("h0",), ("h1",), size_bytes=10_000_000, congestion="dctcp", ecn=True),
    }


def test_seed_limits_sampling_and_lists_can_be_varied(small: str) -> None:
    """Sections that the file does not have are made; list values are one value; same last parts keep the whole key."""
    text = small + (
        "matrix: {seed: [1, 2], sampling.interval: [1 ms], limits.wall: [5 s], workloads.bulk.sources: [[h0, h1]],"
        " workloads.rtt.source: [h0]}\n"
    )
    found = loads(text).variants
    assert [variant.label for variant in found] == [
        f"seed={seed},interval=1 ms,wall=5 s,sources=h0+h1,source=h0" for seed in (1, 2)
    ]
    assert [(variant.seed, variant.sampling_ns, variant.limits.wall_ns) for variant in found] == [
        (1, 10**6, 5 * 10**9), (2, 10**6, 5 * 10**9),
    ]  # fmt: skip


def test_ambiguous_axes_keep_their_whole_key(small: str) -> None:
    """Two axes that end alike are told apart in the variants' names."""
    text = small + "matrix: {workloads.rtt.source: [h0], workloads.rtt.count: [1], workloads.bulk.flows: [2]}\n"
    assert list(variants(text)) == ["source=h0,count=1,flows=2"]
    text = small.replace("name: bulk, kind: tcp, sources: h0, targets: h1, size: 10 MB", "name: two, kind: ping, "
                         "source: h0, target: h1")  # fmt: skip
    text += "matrix: {workloads.rtt.count: [1], workloads.two.count: [2]}\n"
    assert list(variants(text)) == ["workloads.rtt.count=1,workloads.two.count=2"]


def test_base_file_is_not_changed_by_combinations(small: str) -> None:
    """One combination's settings do not leak into the next."""
    text = small + "matrix: {x: {a: {topology.hops: 9}, b: {topology.rate: 1 Gbit/s}}}\n"
    assert variants(text)["x=b"] == {"rate_bps": 10**9, "delay_ns": 1000, "hops": 3}


@pytest.mark.parametrize(
    ("matrix", "key", "words"),
    [
        ("5", "matrix", "5 is not a mapping"),
        ("{topology.hops: 5}", "matrix.topology.hops", "neither a list of values nor a mapping"),
        ("{topology.hops: []}", "matrix.topology.hops", "has no values"),
        ("{x: {}}", "matrix.x", "has no values"),
        ("{x: {a: 5}}", "matrix.x.a", "is not a mapping from dotted keys"),
        ("{x: {a: {}}}", "matrix.x.a", "is not a mapping from dotted keys"),
        ("{topology.hops: [1, 1]}", "matrix.topology.hops", "has 'hops=1' twice"),
        ("{topology.hops: [1, x]}", "topology.hops", "'x' is not a whole number"),
        ("{topology.hosp: [1]}", "topology.hosp", "did you mean 'hops'?"),
        ("{topolgy.hops: [1]}", "matrix.topolgy.hops[0]", "'topolgy' cannot be varied: did you mean 'topology'?"),
        ("{topology: [1]}", "matrix.topology[0]", "is not a dotted key"),
        ("{topology.: [1]}", "matrix.topology.[0]", "is not a dotted key"),
        ("{workloads.bulk: [1]}", "matrix.workloads.bulk[0]", "write it like workloads.<name>.<key>"),
        ("{workloads.blk.flows: [1]}", "matrix.workloads.blk.flows[0]", "did you mean 'bulk'?"),
        ("{workloads.bulk.name: [x]}", "matrix.workloads.bulk.name[0]", "a workload's name cannot be varied"),
        ("{designs: [1]}", "matrix.designs[0]", "'designs' cannot be varied"),
        ("{topology.rate: ['1, 2']}", "matrix.topology.rate[0]", "cannot be part of a variant's name"),
        ("{topology.rate: [{a: 1}]}", "matrix.topology.rate[0]", "is neither text nor a number"),
        ("{topology.rate: [null]}", "matrix.topology.rate[0]", "is neither text nor a number"),
    ],
)
def test_wrong_matrices(small: str, refused: Refuse, matrix: str, key: str, words: str) -> None:
    """Mistakes in the matrix are named where they stand: on its line, not on that of the value it replaces."""
    error = refused(small + f"matrix: {matrix}\n")
    assert words in str(error)
    assert (error.line, error.key) == (8, key)


def test_a_bad_value_is_reported_once(small: str, refused: Refuse) -> None:
    """A value that is wrong in six combinations is one problem."""
    error = refused(small + "matrix: {topology.rate: [1 Gbit/s, 2 Gbit/s, 3 Gbit/s], topology.hops: [1, 0]}\n")
    assert str(error) == "f.yaml:8: topology.hops: 0 must be at least 1"


def test_combinations_are_bounded(small: str, refused: Refuse) -> None:
    """A matrix that explodes is refused before it is expanded."""
    axis = list(range(1, 200))
    text = small + f"matrix: {{topology.hops: {axis}, workloads.rtt.count: {axis}, seed: {axis}}}\n"
    assert "makes 7880599 combinations" in str(refused(text))


def test_cells_are_bounded_too(small: str, refused: Refuse) -> None:
    """Designs and profiles multiply the matrix."""
    text = small + f"matrix: {{topology.hops: {list(range(1, 600))}}}\nprofiles: [documents, other]\n"
    assert "makes 1198 cells" in str(refused(text))


def test_a_choice_may_replace_the_topology(small: str, refused: Refuse) -> None:
    """Kinds with other keys can be compared; mistakes in them are reported where they stand, also what is unknown."""
    text = small + (
        "matrix:\n"
        "  fabric:\n"
        "    chain: {topology: {kind: chain, hops: 2}}\n"
        "    pair: {topology: {kind: single, hosts: 2, mtu: 1500 B}}\n"
    )
    assert variants(text) == {"fabric=chain": {"hops": 2}, "fabric=pair": {"hosts": 2, "mtu_bytes": 1500}}
    error = refused(text.replace("hosts: 2,", "hosts: 0,"))
    assert str(error) == "f.yaml:11: topology.hosts: 0 must be at least 1"
    assert "f.yaml:11" in str(refused(text.replace("hosts: 2,", "hops: 2,")))
    assert "'topology' is not a dotted key" in str(refused(small + "matrix: {topology: [1]}\n"))
