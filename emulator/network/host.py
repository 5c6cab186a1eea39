"""A host: a network namespace without a process, in which programs can be started."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from emulator.errors import CommandError, NodeError
from emulator.network.namespace import Namespace, processes_in, write_sysctl

_NOT_FOUND = 127
"""Exit status that shells give a command that does not exist."""

_GRACE_S = 2.0
"""How long a program may take to end by itself when the network stops."""


class EmulatedHost:
    """Implements `emulator.engine.host.HostHandle` on a `Namespace`.

    Programs inherit the namespace of the thread that starts them, so nothing stands between them and their parent, and
    ``/sys`` stays as it is, ``/sys/kernel/config`` included.

    Attributes:
        name: Its name in the fabric.
        ip: Its address without prefix length.
        interfaces: Names of its interfaces, in port order.
    """

    def __init__(self, name: str, ip: str, interfaces: tuple[str, ...], namespace: Namespace) -> None:
        self.name = name
        self.ip = ip
        self.interfaces = interfaces
        self.network_namespace = namespace
        self._started: list[subprocess.Popen[Any]] = []

    def namespace(self) -> AbstractContextManager[None]:
        """Put the calling thread into the host's network namespace, for opening sockets there."""
        return self.network_namespace.entered()

    def run(self, argv: Sequence[str], *, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command to its end in the host; text output is captured.

        Args:
            argv: Command and arguments.
            check: Whether a non-zero status is an error.
            options: Of `subprocess.run`.

        Raises:
            CommandError: There is no such program, or it ended with a non-zero status and *check* is true.
        """
        options = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, **options}
        if "stdout" in options or "stderr" in options:
            del options["capture_output"]
        if "input" in options:
            del options["stdin"]
        with self.namespace():
            try:
                result = subprocess.run(list(argv), check=False, **options)
            except OSError as error:
                raise self._cannot_start(argv, error) from None
        if check and result.returncode:
            raise CommandError(argv, result.returncode, result.stderr or "", self.name)
        return result

    def popen(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command in the host; it is ended at the latest when the network stops.

        Args:
            argv: Command and arguments.
            env: Its environment; None: this process's.
            options: Of `subprocess.Popen`. By default it speaks text and leads its own session, so that Ctrl-C in a
                terminal reaches only the emulator, which then ends it in order.

        Raises:
            CommandError: There is no such program.
        """
        options = {"text": True, "start_new_session": True, **options}
        with self.namespace():
            try:
                process: subprocess.Popen[str] = subprocess.Popen(list(argv), env=env, **options)
            except OSError as error:
                raise self._cannot_start(argv, error) from None
        self._started = [one for one in self._started if one.poll() is None]
        self._started.append(process)
        return process

    def _cannot_start(self, argv: Sequence[str], error: OSError) -> CommandError:
        return CommandError(argv, _NOT_FOUND, f"cannot start: {error.strerror}", self.name)

    def sysctl(self, key: str, value: str) -> str:
        """Set a sysctl of the host's network and return the value it had.

        Args:
            key: Such as ``net.ipv4.tcp_congestion_control``.
            value: As the kernel takes it.

        Raises:
            NodeError: No such sysctl, or the kernel refuses the value.
        """
        with self.namespace():
            return write_sysctl(key, value, self.name)


def end_programs(hosts: Sequence[EmulatedHost]) -> None:
    """End whatever runs in the hosts: first politely, then surely. Children that left their parent are found too.

    Raises:
        NodeError: A program is still there afterwards.
    """
    inodes = {host.network_namespace.inode: host.name for host in hosts}
    for number in (signal.SIGTERM, signal.SIGKILL):
        found = processes_in(inodes)
        found.pop(os.getpid(), None)
        if not found:
            break
        _signal_and_wait(list(found), number)
    for host in hosts:
        for process in host._started:
            process.poll()  # so that no zombie stays
    left = processes_in(inodes)
    left.pop(os.getpid(), None)
    if left:
        pid, name = next(iter(left.items()))
        raise NodeError(f"{name}: process {pid} does not end")


def kill_programs(host: EmulatedHost) -> None:
    """End whatever runs in a host as a loss of power does."""
    found = processes_in({host.network_namespace.inode: host.name})
    found.pop(os.getpid(), None)
    _signal_and_wait(list(found), signal.SIGKILL)
    for process in host._started:
        process.poll()


def _signal_and_wait(pids: Sequence[int], number: signal.Signals) -> None:
    poller = select.poll()
    descriptors = []
    for pid in pids:
        with suppress(OSError):  # ended meanwhile
            descriptor = os.pidfd_open(pid)
            descriptors.append(descriptor)
            signal.pidfd_send_signal(descriptor, number)
            poller.register(descriptor, select.POLLIN)
    try:
        waiting = len(descriptors)
        while waiting:
            ended = poller.poll(_GRACE_S * 1000)
            if not ended:
                break
            for descriptor, _event in ended:
                poller.unregister(descriptor)
            waiting -= len(ended)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
