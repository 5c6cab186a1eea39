"""From text to a scenario: values, defaults, and one clear line for everything that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.errors import ScenarioError
from emulator.model.workload import NvmeIo, Ping, TcpBulk
from emulator.scenario import Bound, Expectation, Limits, check, load, loads

Refuse = Callable[[str], ScenarioError]


def test_values_and_defaults(small: str) -> None:
    """Units become integers; what is left out keeps the default of the dataclass or topology."""
    scenario = loads(small, "f.yaml")
    (variant,) = scenario.variants
    assert (scenario.name, scenario.designs, scenario.profiles) == ("small", ("shortest-path",), ("documents",))
    assert (variant.kind, dict(variant.parameters)) == (
        "chain", {"hops": 3, "rate_bps": 100_000_000_000, "delay_ns": 1000},
    )  # fmt: skip
    assert variant.workloads == (
        Ping("rtt", "h0", "h1", count=20),
        TcpBulk("bulk", ("h0",), ("h1",), size_bytes=10_000_000),
    )
    assert (variant.limits, variant.sampling_ns, variant.seed) == (Limits(), None, 1)
    assert scenario.expectations == (Expectation("rtt", "rtt_error", at_most=Bound(100.0, "ns"), line=7),)


@pytest.mark.parametrize(
    ("given", "parameters"),
    [
        ("queue: 1 BDP", {"queue_bdp": 1.0}),
        ("queue: 0.2 BDP", {"queue_bdp": 0.2}),
        ("queue: 1000 packets", {"queue_packets": 1000}),
        ("loss: 0.1 %", {"loss_ppm": 1000}),
        ("storage_share: 30 %", {"storage_share": 0.3}),
        ("super_packets: true", {"true_packets": False}),
        ("super_packets: false", {"true_packets": True}),
        ("mtu: 9000 B", {"mtu_bytes": 9000}),
        ("bdp_rtt: 100 us", {"bdp_rtt_ns": 100_000}),
    ],
)
def test_topology_parameters(small: str, given: str, parameters: dict[str, object]) -> None:
    """Each key of the topology becomes the keyword argument that its function takes."""
    got = loads(small.replace("hops: 3", given)).variants[0].parameters
    assert {key: got[key] for key in parameters} == parameters
    assert "hops" not in got


def test_a_size_replaces_the_number_of_ios(small: str) -> None:
    """An NVMe workload with a size does not also stop after the default number of I/Os."""
    nvme = "{name: io, kind: nvme, initiators: h0, target: h1, size: 1 MiB, queue_depths: 4}"
    workload = loads(small.replace("{name: bulk, kind: tcp, sources: h0, targets: h1, size: 10 MB}", nvme)).variants[0]
    assert workload.workloads[1] == NvmeIo("io", ("h0",), "h1", queue_depths=(4,), ios=0, size_bytes=1 << 20)


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "words"),
    [
        ("hops: 3", "hosp: 3", 3, "topology.hosp", "unknown key: did you mean 'hops'?"),
        ("hops: 3", "hops: three", 3, "topology.hops", "'three' is not a whole number"),
        ("hops: 3", "hops: 0", 3, "topology.hops", "must be at least 1"),
        ("hops: 3", "hops: true", 3, "topology.hops", "True is not a whole number"),
        ("hops: 3", "hops: 2.5", 3, "topology.hops", "2.5 is not a whole number"),
        ("hops: 3", "hops:", 3, "topology.hops", "None is not a whole number"),
        ("kind: chain", "kind: chian", 3, "topology", "there is no kind 'chian': did you mean 'chain'?"),
        ("kind: chain, ", "", 3, "topology", "the key 'kind' is missing"),
        ("rate: 100 Gbit/s", "rate: 100", 3, "topology.rate", "100 has no unit"),
        ("rate: 100 Gbit/s", "storage_share: 0.3", 3, "topology.storage_share", "0.3 has no unit"),
        ("rate: 100 Gbit/s", "storage_share: 130 %", 3, "topology.storage_share", "more than 100 %"),
        ("rate: 100 Gbit/s", "rate: 100 Gbit", 3, "topology.rate", "unknown unit 'Gbit'"),
        ("rate: 100 Gbit/s", "rate: -1 bit/s", 3, "topology.rate", "is negative"),
        ("rate: 100 Gbit/s", "rate: 9999999999999 Tbit/s", 3, "topology.rate", "out of range"),
        ("delay: 1 us", "delay: 0.3 ns", 3, "topology.delay", "not a whole number of nanoseconds"),
        ("delay: 1 us", "queue: 1", 3, "topology.queue", "1 is not a queue"),
        ("delay: 1 us", "queue: 1.5 packets", 3, "topology.queue", "not a whole number of packets"),
        ("delay: 1 us", "loss: 101 %", 3, "topology.loss", "more than 100 %"),
        ("delay: 1 us", "super_packets: yes", 3, "topology.super_packets", "'yes' is not true or false"),
        ("delay: 1 us", "aqm: drop-tail", 3, "topology.aqm", "unknown key"),
        ("kind: ping", "kind: pong", 5, "workloads[0]", "there is no kind 'pong': did you mean 'ping'?"),
        ("count: 20", "cuont: 20", 5, "workloads[0].cuont", "did you mean 'count'?"),
        ("target: h1, count", "count", 5, "workloads[0].target", "is missing"),
        ("count: 20", "interval: 1 us", 5, "workloads[0].interval", "must be at least 1 ms"),
        ("name: bulk", "name: rtt", 6, "workloads[1].name", "duplicate workload name 'rtt'"),
        ("name: rtt", "name: Round Trip", 5, "workloads[0].name", "is not a name"),
        ("name: rtt", "name: fabric", 5, "workloads[0].name", "is kept for"),
        ("size: 10 MB", "flows: 2", 6, "workloads[1]", "give either 'size' or 'duration'"),
        ("size: 10 MB", "size: 1 MB, duration: 1 s", 6, "workloads[1]", "give either 'size' or 'duration'"),
        ("size: 10 MB", "duration: 1 s, warm_up: 1 s", 6, "workloads[1]", "not shorter than 'duration'"),
        ("size: 10 MB", "size: 1 MB, congestion: vegas", 6, "workloads[1].congestion", "'vegas' is not possible here"),
        ("sources: h0", "sources: []", 6, "workloads[1].sources", "is empty"),
        ("sources: h0", "sources: {a: 1}", 6, "workloads[1].sources", "is not a list"),
        ("sources: h0", "sources: [1]", 6, "workloads[1].sources[0]", "1 is not text"),
        ("scenario: small", "scenario: Small!", 1, "scenario", "is not a name"),
        ("scenario: small", "scenario: ''", 1, "scenario", "is not a name"),
        ("question: Is it small?", "qestion: Is it?", 2, "qestion", "did you mean 'question'?"),
        ("question: Is it small?", "question: [1]", 2, "question", "is not text"),
        ("question: Is it small?", "seed: 5", 1, "question", "is missing"),
        ("workload: rtt", "workload: rrt", 7, "expect[0].workload", "did you mean 'rtt'?"),
        ("rtt_error", "rtt_eror", 7, "expect[0].metric", "of kind ping have no figure 'rtt_eror': did you mean"),
        ("rtt_error", "goodput", 7, "expect[0].metric", "no figure 'goodput': known are loss, ping_rtt"),
        ("workload: rtt", "workload: fabric", 7, "expect[0].metric", "links and ports have no figure 'rtt_error'"),
        ("at_most: 100 ns", "at_most: lots", 7, "expect[0].at_most", "is not a bound"),
        ("at_most: 100 ns", "within: 1 %", 7, "expect[0]", "'within' needs 'of'"),
        (", at_most: 100 ns", "", 7, "expect[0]", "give 'at_least', 'at_most' or 'within'"),
        ("at_most: 100 ns", "within: 1 ns, at_least: 1 ns, of: theory", 7, "expect[0]", "either 'within'"),
        ("expect: ", "seed: -1\nexpect: ", 7, "seed", "must be at least 0"),
        ("expect: ", "seed: 1e3\nexpect: ", 7, "seed", "1000.0 is not a whole number"),
        ("expect: ", "designs: [gatway]\nexpect: ", 7, "designs[0]", "did you mean 'gateway'?"),
        ("expect: ", "designs: gateway\nexpect: ", 7, "designs", "is not a list"),
        ("expect: ", "designs: []\nexpect: ", 7, "designs", "is empty"),
        ("expect: ", "designs: [gateway, gateway]\nexpect: ", 7, "designs", "is given 2 times"),
        ("expect: ", "limits: 5\nexpect: ", 7, "limits", "5 is not a mapping"),
        ("expect: ", "limits: {virtual: 1 ns}\nexpect: ", 7, "limits.virtual", "must be at least 1 ms"),
        ("expect: ", "limits: {cpu: 1}\nexpect: ", 7, "limits.cpu", "unknown key: known are memory, virtual, wall"),
        ("expect: ", "sampling: {interval: 1 ns}\nexpect: ", 7, "sampling.interval", "must be at least 1 us"),
        ("expect: ", "sampling: {}\nexpect: ", 7, "sampling.interval", "is missing"),
    ],
)  # fmt: skip
def test_wrong_values(small: str, refused: Refuse, old: str, new: str, line: int, key: str, words: str) -> None:
    """Each mistake gets one line with the file, the line it stands on, its dotted key and what to do."""
    assert old in small
    error = refused(small.replace(old, new, 1))
    assert words in str(error)
    assert (error.file, error.line, error.key) == ("f.yaml", line, key)


def test_several_problems_are_counted_and_listed(small: str, refused: Refuse, tmp_path: Path) -> None:
    """`load` shows the first in the order of the file and counts the rest; `check` lists all."""
    text = small.replace("hops: 3", "hops: x").replace("count: 20", "count: y").replace("size: 10 MB", "size: 5")
    error = refused(text)
    assert (error.line, str(error).endswith("(and 2 more)")) == (3, True)
    path = tmp_path / "f.yaml"
    path.write_text(text, encoding="utf-8")
    assert [problem.line for problem in check(path)] == [3, 5, 6]
    path.write_text(small, encoding="utf-8")
    assert check(path) == []
    assert load(path).name == "small"


def test_check_reports_an_unreadable_file(tmp_path: Path) -> None:
    """`check` never raises for a bad file."""
    assert [str(problem) for problem in check(tmp_path / "no.yaml")] == [
        f"{tmp_path / 'no.yaml'}: cannot be read: No such file or directory"
    ]
