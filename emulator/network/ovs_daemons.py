"""Open vSwitch's programs as processes: daemons that run in a folder of their own, and tools that talk to them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from emulator.errors import CommandError, MissingCapability, NodeError

_STOP_S = 10


class Daemons:
    """The daemons of one folder, and the tools that find them there.

    Args:
        folder: An existing folder of its own, with a path short enough for sockets in it.
        die_with_parent: The daemons end when the calling thread ends, however it does.

    Attributes:
        running: The daemons' programs and processes, in the order in which they were started.
    """

    def __init__(self, folder: Path, *, die_with_parent: bool) -> None:
        self._folder = folder
        self._die_with_parent = die_with_parent
        self.running: list[tuple[str, subprocess.Popen[bytes]]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which ``ovs-vsctl``, ``ovs-ofctl`` and ``ovs-appctl`` find these daemons."""
        folder = str(self._folder)
        return {"OVS_RUNDIR": folder, "OVS_LOGDIR": folder, "OVS_DBDIR": folder, "OVS_SYSCONFDIR": folder}

    def start(self, program: str, *arguments: str) -> None:
        """Start a daemon.

        Raises:
            MissingCapability: Open vSwitch is not installed.
        """
        log = self._folder / f"{program}.log"
        argv = [
            program,
            *arguments,
            f"--pidfile={self._folder}/{program}.pid",
        ]
        argv += [f"--log-file={log}", "-vconsole:off", "-vsyslog:off", "--no-chdir"]
        if self._die_with_parent:
            argv = ["setpriv", "--pdeathsig", "TERM", *argv]
        try:
            process = subprocess.Popen(
                argv,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise _missing(program) from None
        self.running.append((program, process))

    def run(self, *argv: str, stdin: str | None = None) -> str:
        """Run a tool and return what it prints.

        Raises:
            MissingCapability: Open vSwitch is not installed.
            NodeError: It failed, for a daemon has ended.
            CommandError: It failed.
        """
        try:
            result = subprocess.run(
                argv,
                env={**os.environ, **self.environment},
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError:
            raise _missing(argv[0]) from None
        if result.returncode:
            self.check()
            raise CommandError(_shortened(argv), result.returncode, result.stderr)
        return result.stdout

    def check(self) -> None:
        """See that all daemons run. Raises: NodeError: One has ended."""
        for name, daemon in self.running:
            status = daemon.poll()
            if status is not None:
                raise NodeError(f"{name} ended with status {status}: {_last_line(self._folder / f'{name}.log')}")

    def end(self) -> None:
        """End the daemons, the last one first; may be called twice.

        Raises:
            NodeError: A daemon does not end.
        """
        while self.running:
            name, daemon = self.running.pop()
            daemon.terminate()
            try:
                daemon.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                try:
                    daemon.wait(_STOP_S)
                except subprocess.TimeoutExpired:
                    raise NodeError(f"{name} (process {daemon.pid}) does not end") from None


def _missing(program: str) -> MissingCapability:
    return MissingCapability(program, "install Open vSwitch (Debian: openvswitch-switch)")


def _shortened(argv: Iterable[str]) -> list[str]:
    words = list(argv)
    return words if len(words) <= 8 else [*words[:8], "…"]


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "it wrote no log"
    return lines[-1] if lines else "its log is empty"
