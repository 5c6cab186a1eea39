"""Workloads that start together: a common start, and nobody left waiting; faults by the clock on a made-up network."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import LinkError, WorkloadError
from emulator.experiment import together
from emulator.experiment.faults import FaultDriver
from emulator.experiment.together import Start, run_together
from emulator.model.fault import Action, Fault
from emulator.model.profile import profile
from emulator.model.workload import Ping, Workload
from emulator.workloads import Context


class Net:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.mended = 0
        self.told_all = threading.Event()

    def __getattr__(self, name: str) -> Any:
        def tell(target: str) -> None:
            if target == "bad":
                raise LinkError("there is no link 'bad'")
            self.told.append((name, target))
            if target == "last":
                self.told_all.set()

        return tell

    def mend(self) -> None:
        self.mended += 1


FAULTS = [
    Fault(0, Action.CUT, "a-b", "w"),
    Fault(1_000_000, Action.SILENCE, "c-d", "w"),
    Fault(2_000_000, Action.RESTORE, "b-a", "w"),
    Fault(2_000_000, Action.STOP, "s", "w"),
    Fault(3_000_000, Action.START, "last", "w"),
]


def test_faults_come_in_order_and_not_before_their_time() -> None:
    """Each action reaches the network, in order, at or after its moment; in the end the network is mended."""
    net = Net()
    with FaultDriver(net, FAULTS) as driver:  # type: ignore[arg-type]
        assert not net.told
        start_ns = time.monotonic_ns()
        driver.begin(start_ns)
        assert net.told_all.wait(20)
    told = [("cut", "a-b"), ("silence", "c-d"), ("restore", "b-a"), ("stop_switch", "s"), ("start_switch", "last")]
    assert net.told == told
    assert [one.fault for one in driver.happened()] == FAULTS
    assert all(start_ns + one.fault.at_ns <= one.at_ns <= one.done_ns for one in driver.happened())
    assert net.mended == 1


def test_the_manager_looks_a_stated_time_after_each_fault() -> None:
    """Each fault is followed by a look of its own; in the end, when all is mended, once more."""
    net = Net()
    looks: list[tuple[int, int, int]] = []
    looked_twice = threading.Event()

    def repair() -> None:
        looks.append((time.monotonic_ns() - start_ns, len(net.told), net.mended))
        if len(looks) == 2:
            looked_twice.set()

    faults = [
        Fault(0, Action.CUT, "a-b", "w"),
        Fault(1_000_000, Action.STOP, "c", "w"),
    ]
    with FaultDriver(net, faults, repair, 300_000_000) as driver:  # type: ignore[arg-type]
        start_ns = time.monotonic_ns()
        driver.begin(start_ns)
        assert looked_twice.wait(20)
    struck = [one.at_ns - start_ns for one in driver.happened()]
    assert [look >= at + 300_000_000 for (look, _, _), at in zip(looks, struck, strict=False)] == [True, True]
    assert [(told, mended) for _, told, mended in looks] == [(2, 0), (2, 0), (2, 1)]


def test_without_a_delay_nobody_looks_until_the_end() -> None:
    """Who repairs is left alone while workloads run; if nothing was broken, afterwards too."""
    for faults, times in ((FAULTS, 1), ([], 0)):
        net = Net()
        looks: list[int] = []
        with FaultDriver(net, faults, partial(looks.append, 1)) as driver:  # type: ignore[arg-type]
            driver.begin(time.monotonic_ns())
            assert not faults or net.told_all.wait(20)
        assert len(looks) == times


def test_what_comes_too_late_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """A workload that is done before its faults: they are left out, which is said, and the network is mended."""
    net = Net()
    late = [Fault(3600 * 10**9, Action.CUT, "a-b", "w"), Fault(3601 * 10**9, Action.RESTORE, "a-b", "w")]
    with caplog.at_level(logging.WARNING), FaultDriver(net, late) as driver:  # type: ignore[arg-type]
        driver.begin(time.monotonic_ns())
    assert (net.told, net.mended, driver.happened()) == ([], 1, ())
    assert "2 faults were not carried out, from 'cut a-b' at 3600000000000 ns on: w had ended" in caplog.text


def strike(net: Net, error: Exception | None) -> None:
    """Carry out an impossible fault; end with an error of the workload's own, if one is given."""
    with FaultDriver(net, [Fault(0, Action.CUT, "bad", "w")]) as driver:  # type: ignore[arg-type]
        driver.begin(time.monotonic_ns())
        driver._thread.join(20)
        if error is not None:
            raise error


def test_an_impossible_fault_ends_the_run() -> None:
    """Its error comes out; beside, not instead of, another one; and the network is mended in both cases."""
    net = Net()
    with pytest.raises(LinkError, match="there is no link 'bad'"):
        strike(net, None)
    with pytest.raises(WorkloadError, match="first") as caught:
        strike(net, WorkloadError("first"))
    assert isinstance(caught.value.__context__, LinkError)
    assert net.mended == 2


def context(folder: Path) -> Context:
    return Context("s", "v", {}, lambda _a, _b: [], profile("documents"), 1, folder)


def run_with(monkeypatch: pytest.MonkeyPatch, folder: Path, runner: Any, *names: str) -> Any:
    monkeypatch.setattr(together, "run", runner)
    group = [Ping(name, "a", "b", alongside="" if name == names[0] else names[0]) for name in names]
    with FaultDriver(Net(), []) as driver:  # type: ignore[arg-type]
        return run_together(group, context(folder), driver)


def test_all_get_the_same_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The one who needs the longest notice decides; figures come in the order of the workloads."""
    leads = {"one": 0, "two": 5_000_000, "three": 1_000_000}
    starts: dict[str, int] = {}

    def runner(workload: Workload, cell: Context) -> list[Any]:
        assert cell.occasion.names == ("one", "two", "three")
        before_ns = time.monotonic_ns()
        starts[workload.name] = cell.start(workload.name, leads[workload.name])
        assert starts[workload.name] >= before_ns + leads[workload.name]
        return [workload.name]

    records, spans = run_with(monkeypatch, tmp_path, runner, *leads)
    assert records == ["one", "two", "three"]
    assert len(set(starts.values())) == 1
    assert [(span.name, span.start_ns) for span in spans] == [(name, starts["one"]) for name in leads]


@pytest.mark.parametrize("bad", ["one", "two"])
def test_one_that_fails_lets_the_others_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bad: str) -> None:
    """Whoever fails before the start, its own error comes out, and the others do not wait for ever."""

    def runner(workload: Workload, cell: Context) -> list[Any]:
        if workload.name == bad:
            raise WorkloadError(f"workload {bad}: no such program")
        cell.start(workload.name)
        return []

    with pytest.raises(WorkloadError, match=f"workload {bad}: no such program"):
        run_with(monkeypatch, tmp_path, runner, "one", "two")


def test_a_start_that_was_given_up_is_an_error() -> None:
    """Who comes to a start that another one has given up is told."""
    start = Start(2, FaultDriver(Net(), []))  # type: ignore[arg-type]
    start.give_up()
    with pytest.raises(WorkloadError, match="workload late: one that it was to start with failed"):
        start.begin("late", 0)
