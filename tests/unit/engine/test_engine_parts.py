"""The engine's small parts: progress, errors, checks, the account, the kernel's place, memory, host probes."""

from __future__ import annotations

import itertools
import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.engine import hostcheck
from emulator.engine.account import invoking_account
from emulator.engine.checks import check_jobs, hand_over
from emulator.engine.failure import rebuild, reported_error
from emulator.engine.follow import ProgressTail, Step
from emulator.engine.job import Job, Limits
from emulator.engine.kernelimage import find_kernel
from emulator.engine.memory import available_bytes, memory_folder
from emulator.engine.native import NativeEngine
from emulator.engine.virtual import console
from emulator.engine.virtual.status import PAGE_BYTES, State, StatusPage
from emulator.errors import EmulatorError, EngineError, HostError, MissingCapability


class TestProgress:
    @given(cuts=st.lists(st.integers(0, 200), max_size=6), count=st.integers(1, 6))
    def test_however_it_is_cut(self, cuts: list[int], count: int, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Whatever pieces the file grows by, the last step that was seen is the last line."""
        folder = tmp_path_factory.mktemp("progress")
        lines = [json.dumps({"stage": f"s{n} ü", "done": n, "total": count}) + "\n" for n in range(count)]
        data = "".join(lines).encode()
        tail, seen = ProgressTail(folder), None
        edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
        for start, end in itertools.pairwise(edges):
            with (folder / "progress.jsonl").open("ab") as file:
                file.write(data[start:end])
            seen = tail.latest() or seen
        assert seen == Step(f"s{count - 1} ü", count - 1, count)
        assert tail.latest() is None

    def test_rubbish_is_one_warning(self, out: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Lines that are no progress are skipped, and said once."""
        (out / "progress.jsonl").write_bytes(b'\xff\xfe\n[]\n{"stage": 1}\n{"stage": "x", "done": 1, "total": 2}\n7\n')
        assert ProgressTail(out).latest() == Step("x", 1, 2)
        assert len(caplog.records) == 1

    def test_no_file_yet(self, out: Path) -> None:
        """A job that has not reported yet is not an error."""
        assert ProgressTail(out).latest() is None


class TestFailure:
    def test_no_report(self, out: Path) -> None:
        """A job without error.json reported nothing."""
        assert reported_error(out) is None

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"kind": "X"}', '{"kind": 1, "message": 2, "exit_code": "a"}'])
    def test_a_broken_report_is_a_warning(self, out: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
        """A report cut short, by a full disk say, is said and does not hide the job's exit code."""
        (out / "error.json").write_text(text)
        assert reported_error(out) is None
        assert len(caplog.records) == 1

    @given(
        kind=st.sampled_from(["InternalError", "LinkError", "os", "Exception", "EmulatorError", ""]), message=st.text()
    )
    def test_any_report_is_an_error_of_ours_with_its_text(self, kind: str, message: str) -> None:
        """Whatever class name a report holds, an EmulatorError with the job's own words comes out."""
        error = rebuild(kind, message, 4)
        assert isinstance(error, EmulatorError)
        assert str(error) == message


class TestChecks:
    def job(self, folder: Path, **changes: object) -> Job:
        return replace(Job("a", ("x",), folder), **changes)

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"argv": ()}, "has no command"),
            ({"out": Path("/no/such")}, "results folder /no/such does not exist"),
            ({"seed": -1}, "seed -1 is negative"),
            ({"limits": Limits(virtual_ns=0)}, "limits on time"),
            ({"limits": Limits(wall_s=-1)}, "limits on time"),
            ({"limits": Limits(memory_bytes=1)}, "1 bytes of memory"),
        ],
    )
    def test_impossible_jobs(self, out: Path, changes: dict, said: str) -> None:
        """Each is refused before anything starts, by name."""
        with pytest.raises(EngineError, match=said):
            check_jobs([self.job(out, **changes)])

    def test_two_jobs_may_not_share(self, out: Path) -> None:
        """Neither a name nor a folder, however the folder is written."""
        with pytest.raises(EngineError, match="2 jobs have the same name: a"):
            check_jobs([self.job(out), self.job(out.parent)])
        with pytest.raises(EngineError, match="2 jobs have the same folder"):
            check_jobs([self.job(out), self.job(out / ".." / "out", name="b")])

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_one_cannot_write_to(self, out: Path) -> None:
        """It is said before anything starts."""
        out.chmod(0o500)
        with pytest.raises(HostError, match="cannot write to its results folder"):
            hand_over(self.job(out), None)


class TestAccount:
    def test_not_under_sudo(self) -> None:
        """Without sudo a run is for the user who runs it."""
        assert invoking_account({}) is None

    @pytest.mark.skipif(os.geteuid() != 0, reason="sudo makes root of its caller")
    def test_under_sudo(self) -> None:
        """Under sudo it is for the caller; calling sudo as root changes nothing; a made-up caller is refused."""
        found = invoking_account({"SUDO_UID": "65534", "SUDO_GID": "65534"})
        assert (found.uid, found.gid) == (65534, 65534)
        assert invoking_account({"SUDO_UID": "4000000", "SUDO_GID": "7"}).groups == (7,)
        assert invoking_account({"SUDO_UID": "0", "SUDO_GID": "0"}) is None
        for bad in ({"SUDO_UID": "me", "SUDO_GID": "0"}, {"SUDO_UID": "-5", "SUDO_GID": "1"}, {"SUDO_UID": "5"}):
            with pytest.raises(HostError, match="SUDO_UID and SUDO_GID are not a user"):
                invoking_account(bad)


class TestKernelImage:
    def build(self, tmp_path: Path, body: str) -> Path:
        (tmp_path / "kernel").mkdir()
        (tmp_path / "kernel" / "build.py").write_text(body)
        return tmp_path

    def test_the_cache_is_asked(self, tmp_path: Path) -> None:
        """The last line of what the build script prints is the kernel."""
        image = tmp_path / "linux"
        image.touch(mode=0o755)
        root = self.build(
            tmp_path, f"import sys\nassert sys.argv[1:] == ['--print-path']\nprint('note')\nprint({str(image)!r})"
        )
        assert find_kernel({}, root) == image

    @pytest.mark.parametrize("body", ["raise SystemExit(3)", "", "print('/no/such')", "1/0"])
    def test_not_built(self, tmp_path: Path, body: str) -> None:
        """However the cache says no, the user reads what to run."""
        with pytest.raises(MissingCapability, match=r"missing virtual-time kernel: .*make kernel"):
            find_kernel({}, self.build(tmp_path, body))

    def test_named_by_the_environment(self, tmp_path: Path) -> None:
        """ICGW_KERNEL comes first, and a wrong one is named."""
        image = tmp_path / "mine"
        image.touch(mode=0o755)
        assert find_kernel({"ICGW_KERNEL": str(image)}, tmp_path) == image
        for bad in (tmp_path / "none", tmp_path):
            with pytest.raises(MissingCapability, match=f"ICGW_KERNEL names {bad}"):
                find_kernel({"ICGW_KERNEL": str(bad)}, tmp_path)

    def test_outside_a_clone(self, tmp_path: Path) -> None:
        """Without a build script the way out is the variable."""
        with pytest.raises(MissingCapability, match="set ICGW_KERNEL"):
            find_kernel({}, tmp_path)


class TestMemory:
    def test_meminfo(self, tmp_path: Path) -> None:
        """The kernel's own estimate counts, in bytes."""
        (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   2048 kB\n")
        assert available_bytes(tmp_path / "meminfo") == 2 << 20

    def test_where_memory_lies(self, tmp_path: Path) -> None:
        """A folder that is no memory file system, is too small or does not exist is passed over."""
        assert memory_folder(1, tmp_path, [Path("/no/such"), Path("/proc")]) == tmp_path
        assert memory_folder(1 << 62, tmp_path) == tmp_path


class TestStatusPage:
    def write(self, path: Path, **fields: object) -> None:
        values = {"magic": b"UMLTIME\0", "version": 1, "state": 1, "time": 5, "sequence": 4, "tgid": 7, "comm": b"x"}
        values.update(fields)
        raw = struct.pack("<8sIIQ", values["magic"], values["version"], values["state"], values["time"])
        raw += struct.pack("<6Q", 1, 2, 3, 4, 5, 6)
        raw += struct.pack("<III16s", values["sequence"], 9, values["tgid"], values["comm"])
        with path.open("r+b") as file:
            file.write(raw)

    def test_a_kernel_without_one(self, tmp_path: Path) -> None:
        """As long as nobody keeps the page, or a later version does, it says nothing."""
        page = StatusPage(tmp_path / "status")
        assert (tmp_path / "status").stat().st_size == PAGE_BYTES
        assert page.read() is None
        self.write(tmp_path / "status", version=2)
        assert page.read() is None
        page.close()

    def test_what_it_says(self, tmp_path: Path) -> None:
        """Process (not thread) number, name without unprintable letters, counters and an unknown state."""
        page = StatusPage(tmp_path / "status")
        self.write(tmp_path / "status", state=77, comm=b"a\n\x1b[31m")
        found = page.read()
        assert (found.state, found.virtual_ns, found.pid, found.comm) == (State.RUNNING, 5, 7, "a??[31m")
        assert found.system_calls == 3
        page.close()

    def test_a_torn_task_is_not_named(self, tmp_path: Path) -> None:
        """While the kernel is writing the task's fields, none is reported rather than a mixture."""
        page = StatusPage(tmp_path / "status")
        self.write(tmp_path / "status", sequence=5)
        assert (page.read().pid, page.read().comm) == (0, "")
        page.close()


class TestConsole:
    @given(text=st.text(), status=st.integers(-64, 255))
    def test_any_output_becomes_one_line(self, text: str, status: int) -> None:
        """Whatever a kernel prints, the explanation is one non-empty line."""
        assert console.explain_end(text, "", status, 1 << 30)
        assert len(console.explain_end(text, "", status, 1 << 30).splitlines()) == 1

    def test_harmless_lines_are_left_out(self) -> None:
        """What every boot prints does not get into logs."""
        text = "[    0.1] Failed to initialize ubd device 0\nWarning: tempdir /x is not on tmpfs\n"
        assert console.lines_of(text + "[  0.2] [T1] odd\n") == ["odd"]


class TestHostCheck:
    def test_every_missing_thing_has_a_remedy(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """On a host without any tool everything is answered, and what is missing says what to do."""
        monkeypatch.setattr(hostcheck, "_SYSTEM_PATH", str(tmp_path))
        found = hostcheck.probe()
        assert len({one.name for one in found}) == len(found)
        missing = {one.name for one in found if not one.present}
        assert {"ip", "tc", "fio", "netem", "tshark"} <= missing
        assert all(one.remedy for one in found if not one.present)
        assert all(set(one.needed_for) <= {"virtual", "native", "report"} and one.needed_for for one in found)

    def test_memory(self) -> None:
        """The border is the usual machine's size."""
        assert hostcheck.probe_memory(lambda: 2 << 30).present
        assert not hostcheck.probe_memory(lambda: (2 << 30) - 1).present

    def test_kernel(self) -> None:
        """The build's remedy is passed on."""

        def none() -> Path:
            raise MissingCapability("virtual-time kernel", "build it")

        assert hostcheck.probe_kernel(none).remedy == "build it"

    def test_no_tun(self, tmp_path: Path) -> None:
        """A missing device and one that cannot be opened both count as missing."""
        assert not hostcheck.probe_tun(tmp_path / "none").present
        assert not hostcheck.probe_tun(tmp_path).present

    def test_an_unknown_netlink_family(self) -> None:
        """The question that finds Open vSwitch's datapath tells families that exist from those that do not."""
        assert hostcheck._has_generic_netlink("nlctrl")
        assert not hostcheck._has_generic_netlink("no_such_family")


class TestNative:
    def test_what_is_missing_is_named(self, out: Path, base: Path, recorder, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first capability that the host lacks ends it with its remedy, before anything is made."""
        monkeypatch.setattr(hostcheck, "_SYSTEM_PATH", "/no/such")
        with pytest.raises(MissingCapability, match="missing fio: install"):
            NativeEngine(needs=("fio",), base=base).run([Job("a", ("x",), out)], recorder)
        assert not base.exists()
        assert recorder.events == []
