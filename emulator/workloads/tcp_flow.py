"""iperf3 flows while they run: their programs, what the kernels know of their connections, holding and releasing them.

All connections are made before anything is sent: a client is stopped (SIGSTOP) as soon as its data connection stands,
and continued when it is its turn. Otherwise the SYN of a late flow could be lost in the queue that the early ones fill,
and be sent again only after a second.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import psutil

from emulator.engine.host import HostHandle
from emulator.errors import WorkloadError
from emulator.linux.foreign_socket import set_receive_low_water
from emulator.linux.tcp_info import Connection, TcpReader
from emulator.linux.timer import Timer
from emulator.units import NS_PER_S
from emulator.workloads.programs import Program
from emulator.workloads.tcp_samples import CONTROL_BYTES, FlowSamples

BLOCK_BYTES = 1 << 18
"""What iperf3 writes and reads at a time."""

_FIRST_LOOK_NS, _LONGEST_LOOK_NS = 20_000, 50_000_000
_PATIENCE_NS = 30 * NS_PER_S


@dataclass
class Flow:
    """One flow.

    Attributes:
        index: Its number, from 0.
        source: Where the client runs and the data comes from.
        target: Where the server runs.
        server_port: On which the server listens; its own for each flow.
        client_port: From which the data connection comes.
        server: The server program.
        client: The client program, once started.
        held: The client is stopped.
        retransmits: Segments sent again so far.
        samples: What was delivered by when.
    """

    index: int
    source: HostHandle
    target: HostHandle
    server_port: int
    client_port: int
    server: Program
    client: Program | None = None
    held: bool = False
    retransmits: int = 0
    samples: FlowSamples = field(default_factory=FlowSamples)
    _reads_blocks: bool = False

    def connections(self, at_target: Sequence[Connection]) -> list[Connection]:
        """Those of the target's connections that belong to this flow: control and data."""
        return [one for one in at_target if one.local_port == self.server_port]

    def sample(self, now_ns: int, at_target: Sequence[Connection]) -> None:
        """Note what the data connection has delivered."""
        data = [one for one in self.connections(at_target) if self._carries_data(one)]
        if not data:
            return
        busiest = max(data, key=lambda one: one.bytes_received)
        self.samples.add(now_ns, busiest.bytes_received)
        if not self._reads_blocks and busiest.bytes_received > CONTROL_BYTES:
            # Not before: a server that still waits for iperf3's cookie would never read it.
            self._reads_blocks = True
            self._read_in_blocks(busiest.inode)

    def _carries_data(self, one: Connection) -> bool:
        # Behind a proxy the port is another one.
        return one.remote_port == self.client_port or one.bytes_received > CONTROL_BYTES

    def _read_in_blocks(self, inode: int) -> None:
        """Wake the server once a block instead of once a packet: a wake-up costs more real time than all else."""
        try:
            process = psutil.Process(self.server.process.pid)
            for one in (process, *process.children(recursive=True)):
                if set_receive_low_water(one.pid, inode, BLOCK_BYTES):
                    return
        except psutil.Error:
            # Only a saving: the server has just ended, or may not be looked at.
            return

    def hold(self) -> None:
        """Stop the client."""
        if self.client is not None and self.client.running:
            self.client.process.send_signal(signal.SIGSTOP)
            self.held = True

    def release(self) -> None:
        """Let the client go on."""
        if self.held and self.client is not None:
            self.client.process.send_signal(signal.SIGCONT)
            self.held = False

    def still_runs(self) -> bool:
        """Whether the client has not ended yet.

        Raises:
            WorkloadError: It failed.
        """
        if self.client is None or self.client.running:
            return True
        error = iperf_error(self.client.output())
        if error is not None or self.client.process.returncode:
            # With JSON output iperf3 ends with status 0 whatever happens.
            raise self.client.failure(error)
        return False


def iperf_error(text: str) -> str | None:
    """The error in iperf3's JSON output, if there is one."""
    try:
        error = json.loads(text).get("error")
    except (ValueError, AttributeError):
        return None
    return None if error is None else str(error)


def _by_host(flows: Sequence[Flow], end: Callable[[Flow], HostHandle]) -> list[tuple[HostHandle, list[Flow]]]:
    found: dict[str, tuple[HostHandle, list[Flow]]] = {}
    for flow in flows:
        found.setdefault(end(flow).name, (end(flow), []))[1].append(flow)
    return list(found.values())


class Observer:
    """Reads the connections of all flows, one netlink socket a host.

    Args:
        flows: The flows.
        undo: Closes the sockets.
    """

    def __init__(self, flows: Sequence[Flow], undo: ExitStack) -> None:
        self._flows = flows
        self._undo = undo
        self._readers: dict[str, TcpReader] = {}

    def _reader(self, host: HostHandle) -> TcpReader:
        if host.name not in self._readers:
            with host.namespace():
                reader = TcpReader()
            self._undo.callback(reader.close)
            self._readers[host.name] = reader
        return self._readers[host.name]

    def sample(self) -> None:
        """Note what every flow has delivered by now."""
        for host, flows in _by_host(self._flows, lambda flow: flow.target):
            connections = self._reader(host).connections()
            now_ns = time.monotonic_ns()
            for flow in flows:
                flow.sample(now_ns, connections)

    def note_retransmits(self) -> None:
        """Keep the senders' count of segments sent again; it is gone when the connection is."""
        for host, flows in _by_host(self._flows, lambda flow: flow.source):
            counts = {(one.local_port, one.remote_port): one.retransmits for one in self._reader(host).connections()}
            for flow in flows:
                flow.retransmits = counts.get((flow.client_port, flow.server_port), flow.retransmits)

    def wait_listening(self, timer: Timer) -> None:
        """Wait until every server listens.

        Raises:
            WorkloadError: One ended, or does not listen in time.
        """

        def missing() -> list[Flow]:
            waiting = []
            for host, flows in _by_host(self._flows, lambda flow: flow.target):
                ports = self._reader(host).listening_ports()
                waiting += [flow for flow in flows if flow.server_port not in ports]
            for flow in waiting:
                if not flow.server.running:
                    raise flow.server.failure()
            return waiting

        if left := _wait_until_none(missing, timer):
            raise left[0].server.failure(f"does not listen on port {left[0].server_port}")

    def hold_when_connected(self, timer: Timer) -> None:
        """Hold every client as soon as its control and data connections stand; returns when all are held.

        Raises:
            WorkloadError: A client failed or cannot connect.
        """

        def missing() -> list[Flow]:
            waiting = []
            for host, flows in _by_host(self._flows, lambda flow: flow.target):
                connections = self._reader(host).connections()
                for flow in flows:
                    if not flow.held and flow.still_runs():
                        if len(flow.connections(connections)) > 1:
                            flow.hold()
                        else:
                            waiting.append(flow)
            return waiting

        if left := _wait_until_none(missing, timer):
            raise WorkloadError(
                f"workload {left[0].server.what}: iperf3 on {left[0].source.name} cannot connect to "
                f"{left[0].target.name} ({left[0].target.ip}:{left[0].server_port})"
            )


def _wait_until_none(missing: Callable[[], list[Flow]], timer: Timer) -> list[Flow]:
    """Ask until nothing is missing, ever less often; returns what is missing when patience is over."""
    end_ns = time.monotonic_ns() + _PATIENCE_NS
    look_ns = _FIRST_LOOK_NS
    while left := missing():
        if time.monotonic_ns() > end_ns:
            return left
        timer.wait(look_ns)
        look_ns = min(_LONGEST_LOOK_NS, look_ns + look_ns // 50)
    return []
