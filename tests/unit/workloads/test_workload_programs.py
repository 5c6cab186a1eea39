"""Programs that fail in every way there is: one clear line each, and nothing keeps running."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import InternalError, MissingCapability, WorkloadError
from emulator.model.fabric import LinkSpec
from emulator.model.profile import profile
from emulator.model.workload import Checkpoint, NvmeIo, Ping, Poisson, SmallPackets, TcpBulk, Workload
from emulator.results.records import Kind
from emulator.workloads import Context, run
from emulator.workloads.context import Findings
from emulator.workloads.fio import FioJob, job_file, parse_result, read_latency_log, run_fio
from emulator.workloads.nvme import io_options
from emulator.workloads.programs import Program, check_programs, last_words, require, run_program
from emulator.workloads.storage import Storage
from tests.support.local_host import LocalHost, program

HOST = LocalHost()


def context(folder: Path, *, rate_bps: int = 10**11, mtu: int = 9000) -> Context:
    spec = LinkSpec(rate_bps, 5_000, mtu_bytes=mtu)
    hosts = {"here": HOST, "there": HOST}
    return Context("s", "v", hosts, lambda _a, _b: [spec], profile("documents"), 1, folder)


def test_missing_programs_are_noticed_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of all workloads are looked for at once; the line names workload, program and package.

    Steps: hide iperf3, then every program.
    """
    workloads = [Ping("rtt", "here", "there"), TcpBulk("bulk", ("here",), ("there",), size_bytes=1)]
    monkeypatch.setattr("shutil.which", lambda name, path=None: None if name == "iperf3" else f"/bin/{name}")
    line = "^missing iperf3: workload bulk needs it, install the package iperf3$"
    with pytest.raises(MissingCapability, match=line):
        check_programs(workloads)
    check_programs(workloads[:1])
    monkeypatch.setattr("shutil.which", lambda _name, path=None: None)
    with pytest.raises(MissingCapability, match=r"^missing ping: workload rtt needs it, .* package iputils-ping$"):
        check_programs(workloads)
    check_programs([])


def test_a_missing_program_names_its_package() -> None:
    """The message says what to install."""
    with pytest.raises(WorkloadError, match="workload w: the program 'no-such-tool' is missing: install the package"):
        require("no-such-tool", "w")


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("echo one >&2; echo two >&2; exit 3", "workload w: tool on here ended with status 3: two"),
        ("exit 1", "workload w: tool on here ended with status 1: it said nothing"),
        ("kill -9 $$", "workload w: tool on here was killed by SIGKILL: it said nothing"),
        ("echo words; exit 2", "workload w: tool on here ended with status 2: words"),
    ],
)
def test_how_programs_end(script: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status or signal, and the last words, from whichever stream has some."""
    program(tmp_path, "tool", script)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with Program(HOST, ["tool"], "w") as started, pytest.raises(WorkloadError) as caught:
        started.wait(30)
    assert str(caught.value) == line


def test_run_program_tells_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is run to its end returns its output, or fails with one line."""
    program(tmp_path, "tool", 'echo "out $1"; echo bad >&2; exit "$1"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert run_program(HOST, ["tool", "0"], "w") == "out 0\n"
    with pytest.raises(WorkloadError, match="workload w: tool on here ended with status 4: bad"):
        run_program(HOST, ["tool", "4"], "w")


def test_a_program_is_ended_on_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that ignores being asked; its output is still there to read before."""
    program(tmp_path, "tool", "echo started; exec sleep 1000")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with Program(HOST, ["tool"], "w") as started:
        assert started.running
        with pytest.raises(WorkloadError, match=r"workload w: tool on here is still running: not done after 0\.01 s"):
            started.wait(0.01)
    assert not started.running


def test_last_words_are_one_short_line() -> None:
    """Blank lines are passed over and nothing floods the terminal."""
    assert last_words("a\n  b  \n\n \n") == "b"
    assert len(last_words("x" * 10_000)) == 300
    assert last_words("") == "it said nothing"


def fio_answer(**changes: Any) -> str:
    job = {"jobname": "j", "error": 0, "read": {"total_ios": 2, "io_bytes": 8192}, "write": {"total_ios": 0}}
    return json.dumps({"jobs": [{**job, **changes}]})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "printed no result: it said nothing"),
        ("fio: out of memory", "printed no result: fio: out of memory"),
        ("{", "printed no result: {"),
        ("[]", "printed no result"),
        ('{"jobs": 3}', "printed no result"),
        ('{"jobs": [{"jobname": "j"}]}', "printed no result"),
        (fio_answer(error=5), "job j failed with error 5"),
        (fio_answer(error="many"), "printed no result"),
    ],
)
def test_nonsense_from_fio(text: str, line: str) -> None:
    """Whatever fio prints, the error is ours, in one line."""
    with pytest.raises(WorkloadError) as caught:
        parse_result(text, "w", "here")
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_warnings_before_fios_result() -> None:
    """fio prints notes before its JSON object; they do not hide it."""
    assert parse_result("note: something\n" + fio_answer(), "w", "here")[0]["jobname"] == "j"


@pytest.mark.parametrize("text", ["", "1, x, 0, 0\n", "nonsense\n", "1\n"])
def test_latency_logs_that_say_nothing(text: str, tmp_path: Path) -> None:
    """An empty or garbled log is an error, never a latency."""
    path = tmp_path / "log_lat.log"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=r"log_lat\.log has no readable latencies"):
        read_latency_log(path, "w")
    with pytest.raises(WorkloadError, match=r"missing\.log has no readable latencies"):
        read_latency_log(tmp_path / "missing.log", "w")


FAKE_FIO = """
for argument; do case $argument in --output=*) out=${argument#--output=};; esac; done
cat > "$out" <<'END'
%s
END
touch j.ready && flock --shared go --command true && echo 1000 > j.prerun.txt; echo 5000 > j.postrun.txt
printf '0, 700, 0, 4096, 0\\n0, 900, 0, 4096, 0\\n' > log-j_%s.log
"""


@pytest.mark.parametrize("pauses", [False, True])
def test_what_fio_did(pauses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times come from the notes of the job, latencies from the log of the right kind, counts from the result."""
    tools = tmp_path / "tools"
    tools.mkdir()
    program(tools, "fio", FAKE_FIO % (fio_answer(), "clat" if pauses else "lat"))
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    begun = []

    def begin() -> None:
        assert (tmp_path / "j.ready").exists()
        assert not (tmp_path / "j.prerun.txt").exists(), "it waits for the word"
        begun.append(True)

    jobs = [FioJob("j", {}, after_all_before=True, pauses=pauses), FioJob("later", {}, after_all_before=True)]
    with pytest.raises(WorkloadError, match="says nothing of job later"):
        run_fio(HOST, jobs, tmp_path, "w", begin)
    (tmp_path / "j.prerun.txt").unlink()
    found = run_fio(HOST, jobs[:1], tmp_path, "w", begin)["j"]
    assert begun == [True, True], "jobs that come later are not waited for"
    assert (found.start_ns, found.end_ns, found.ios, found.size_bytes) == (1000, 5000, 2, 8192)
    assert (found.latency.values, found.latency.counts) == ((700, 900), (1, 1))


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (fio_answer(read={"total_ios": 0}), "job j did no I/O"),
        (fio_answer(jobname="other"), "fio left no time in other.prerun.txt"),
        ('{"jobs": []}', "says nothing of job j"),
    ],
)
def test_fio_that_does_less_than_asked(answer: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No I/O, another job, or none at all is an error."""
    tools = tmp_path / "tools"
    tools.mkdir()
    program(tools, "fio", FAKE_FIO % (answer, "lat"))
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    with pytest.raises(WorkloadError) as caught:
        run_fio(HOST, [FioJob("j", {})], tmp_path, "w", lambda: None)
    assert line in str(caught.value)


def test_fio_that_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If fio ends before a job is ready, nobody is told to begin, and its words come out."""
    tools = tmp_path / "tools"
    tools.mkdir()
    program(tools, "fio", "echo no such engine >&2; exit 1")
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    with pytest.raises(WorkloadError, match="no such engine"):
        run_fio(HOST, [FioJob("j", {})], tmp_path, "w", lambda: pytest.fail("nothing is ready"))


def test_the_job_file_never_polls() -> None:
    """Groups wait for those before them; the clock is the system's; nothing polls and nothing is made up."""
    text = job_file([FioJob("a", {"rw": "read"}), FioJob("b", {"rw": "write"}, after_all_before=True)], "/x/log")
    head, first, second = text.split("\n\n")
    assert "clocksource=clock_gettime" in head
    assert "allow_file_create=0" in head
    assert "hipri" not in text
    assert "stonewall" not in first
    assert second.strip().splitlines() == [
        "[b]", "rw=write", "write_lat_log=/x/log-b", "per_job_logs=0",
        "exec_prerun=touch b.ready && flock --shared go --command true && date +%s%N", "stonewall",
    ]  # fmt: skip


def test_a_block_larger_than_the_volume() -> None:
    """It cannot be written at all."""
    with pytest.raises(
        WorkloadError, match="workload w: a block of 1073741824 bytes is larger than the 67108864 bytes"
    ):
        io_options(Path("/dev/null"), "write", 1 << 30, 1, {}, 1, "w")


@pytest.mark.parametrize(
    ("workload", "line"),
    [
        (Ping("w", "here", "nowhere"), "there is no host 'nowhere'"),
        (Ping("w", "nowhere", "here"), "there is no host 'nowhere'"),
        (TcpBulk("w", (), ("here",), size_bytes=1), "at least one flow, one source and one target"),
        (TcpBulk("w", ("here",), ("here",), flows=0, size_bytes=1), "at least one flow"),
        (TcpBulk("w", ("here",), ("there",)), "either a size or a duration"),
        (TcpBulk("w", ("here",), ("there",), size_bytes=1, duration_ns=1), "either a size or a duration"),
        (Poisson("w", "here", "there", 0.5, frame_bytes=49), "a frame of 49 bytes is impossible here: 50 to 9014"),
        (Poisson("w", "here", "there", 0.5, packets=999), "999 packets say nothing"),
        (SmallPackets("w", "here", "there", message_bytes=8973), "8973 bytes does not fit into one packet"),
        (SmallPackets("w", "here", "there", message_bytes=0), "0 bytes does not fit"),
        (SmallPackets("w", "here", "there", duration_ns=40), "messages in 40 ns are too few"),
        (NvmeIo("w", ("here",), "there", queue_depths=()), "a queue depth of 0 is impossible: 1 to 127"),
        (NvmeIo("w", ("here",), "there", queue_depths=(1, 128)), "a queue depth of 128 is impossible"),
        (NvmeIo("w", ("here",), "there", ios=0), "neither a number of I/Os nor a size"),
        (
            Checkpoint("w", ("here", "there"), "there", size_bytes=(2 << 20) - 1),
            "less than a block of 1048576 bytes each",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(workload: Workload, line: str, tmp_path: Path) -> None:
    """Before anything is started: one line that names the workload."""
    with pytest.raises(WorkloadError) as caught:
        run(workload, context(tmp_path))
    assert str(caught.value).startswith("workload w: ")
    assert line in str(caught.value)


def test_an_unknown_kind_is_our_own_defect(tmp_path: Path) -> None:
    """A workload class without code to run it."""

    class Strange(Workload):
        kind = "strange"

    with pytest.raises(InternalError, match="'strange'"):
        run(Strange("w"), context(tmp_path))


def test_a_kernel_without_nvme_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the missing part and the way out."""
    monkeypatch.setattr("emulator.workloads.storage._NULLB", tmp_path / "nullb")
    with (
        Storage(profile("documents").media) as storage,
        pytest.raises(WorkloadError, match=r"this kernel offers no null_blk media: .*use the virtual engine"),
    ):
        storage.volume(HOST, HOST)


def test_findings_know_where_they_come_from(tmp_path: Path) -> None:
    """Records carry scenario, variant, workload and kind; distributions go to a file that the report reads."""
    from emulator.model.distribution import Distribution
    from emulator.results.side import workload_distributions_from_json

    cell = context(tmp_path)
    findings = Findings(cell, Ping("w", "here", "there"))
    findings.measured("a", 1.23456, "ns", "m")
    findings.modelled("b", 2, "ns", "p")
    findings.theory("c", 1 / 3, "1", "t")
    assert [(one.metric, one.value, one.kind) for one in findings.records] == [
        ("a", 1.235, Kind.MEASURED), ("b", 2, Kind.MODELLED), ("c", 0.333333333, Kind.THEORY),
    ]  # fmt: skip
    assert {(one.scenario, one.variant, one.workload) for one in findings.records} == {("s", "v", "w")}
    findings.save()
    assert list(tmp_path.iterdir()) == []
    findings.distribution("latency", "ns", Distribution.of([5, 5, 9]))
    findings.save()
    path = tmp_path / "distributions-w.json"
    read = workload_distributions_from_json(json.loads(path.read_text()), str(path))
    assert read["w"]["latency"].sample == Distribution((5, 9), (2, 1))


def test_a_cell_hands_out_each_port_once(tmp_path: Path) -> None:
    """Ports of ended flows stay blocked for a minute, so none is used again."""
    cell = context(tmp_path)
    assert len({cell.fresh_port() for _ in range(100)}) == 100
    assert replace(cell).fresh_port() == 41_001, "another cell starts anew"
