"""Keeps the offloaded flows in step with what the pipeline decided.

The pipeline decides on a flow's first packet; if the XDP program can do what was decided, the flow is offloaded, and
its counts and the time of its last packet come back from there. What the program cannot do stays in user space: IPv6,
tags, tunnels, protocols other than TCP and UDP, and tenants that are not told by the port.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from struct import pack
from typing import Any

import numpy as np

from gateway.dataplane.edits import Edits
from gateway.dataplane.flow_key import FlowKey
from gateway.dataplane.lookup import MISSING
from gateway.dataplane.pipeline import Pipeline
from gateway.dataplane.reasons import Reason
from gateway.offload.offloading import Offload
from gateway.offload.records import Conversation, Forwarding, flow_record

_TCP, _UDP, _ACK = 6, 17, 0x10
_TRANSPORTS = frozenset({_TCP, _UDP})
_PROBE_BYTES, _PROBE_STRIDE = 60, 128
_ETHERNET_BYTES = 14
_UNCOMPARED = ("slot", "cookie")


class Offloader:
    """See the module.

    Args:
        offload: The offload.
        pipeline: What decides.
        interfaces: Names of the ports, by their numbers.
    """

    def __init__(self, offload: Offload, pipeline: Pipeline, interfaces: list[str]) -> None:
        self._offload = offload
        self._pipeline = pipeline
        self._indices = [offload.index(name) for name in interfaces]
        self._numbers = {index: number for number, index in enumerate(self._indices)}
        self._counted: dict[Conversation, tuple[int, int]] = {}
        # Where the packet came in that began each of the pipeline's flows.
        self._ingress = np.full(pipeline.flows.capacity, -1, dtype=np.int64)
        self._last_step_ns = 0
        self.not_offloadable = 0
        self.forgotten = 0
        pipeline.flows.take_begun()

    def flows_began(self, ingress: int, now_ns: int) -> None:
        """Offload the flows that the last batch began, as far as can be.

        Args:
            ingress: Number of the port where it came in.
            now_ns: The time.
        """
        flows = self._pipeline.flows
        wanted = []
        numbers = flows.take_begun()
        self._ingress[numbers] = ingress
        for number in numbers.tolist():
            one = self._as_offloaded(flows.key(number), ingress, int(flows.reason[number]), flows.edits, number)
            if one is None:
                self.not_offloadable += 1
            else:
                wanted.append(one)
        if wanted:
            self._offload.flows.install(wanted, now_ns)

    def _as_offloaded(
        self, key: FlowKey, ingress: int, reason: int, edits: Edits, row: int
    ) -> tuple[Conversation, Forwarding] | None:
        """What the program is to do with a flow; None: it cannot do that."""
        told = self._pipeline.configuration
        if (
            reason != Reason.FORWARDED
            or not isinstance(key.source, IPv4Address)
            or not isinstance(key.target, IPv4Address)
            or key.protocol not in _TRANSPORTS
            or told.tenants.by_port.get(ingress) != key.tenant
        ):
            return None
        hop = told.next_hops[int(edits.next_hop[row]) - 1]
        if hop.vlan or hop.tunnel is not None:
            return None
        flow = Conversation(
            self._indices[ingress], key.source, key.target, key.source_port, key.target_port, key.protocol
        )
        forwarding = Forwarding(
            self._indices[hop.port],
            told.macs[ingress],
            hop.target_mac,
            hop.source_mac,
            min(hop.max_bytes - _ETHERNET_BYTES, 0xFFFF),
            IPv4Address(int(edits.source[row])),
            IPv4Address(int(edits.target[row])),
            int(edits.source_port[row]),
            int(edits.target_port[row]),
        )
        return flow, forwarding

    def step(self, now_ns: int, idle_ns: int) -> None:
        """Read the program's counts back into the pipeline's flows, and forget flows that are idle.

        Args:
            now_ns: The time, CLOCK_MONOTONIC.
            idle_ns: Flows without a packet for so long are forgotten.
        """
        table, flows = self._offload.flows, self._pipeline.flows
        news = []
        counted: dict[Conversation, tuple[int, int]] = {}
        for flow, packets, size, last_ns in table.read():
            before = self._counted.get(flow, (0, 0))
            counted[flow] = packets, size
            number = self._number(flow)
            if number != MISSING and packets != before[0]:
                news.append((number, packets - before[0], size - before[1], last_ns))
        self._counted = counted
        if news:
            flows.credit(*np.array(news, dtype=np.int64).T)
        self._offer_again(now_ns)
        for flow in table.expire(now_ns - idle_ns):
            self._counted.pop(flow, None)
        self.forgotten += len(flows.expire(now_ns - idle_ns))
        self._last_step_ns = now_ns

    def _offer_again(self, now_ns: int) -> None:
        """Offload flows that still come to the daemon: they had to make room for others, or were refused."""
        flows, table = self._pipeline.flows, self._offload.flows
        wanted = []
        for number in flows.active_since(self._last_step_ns).tolist():
            ingress = int(self._ingress[number])
            if ingress < 0:
                continue
            one = self._as_offloaded(flows.key(number), ingress, int(flows.reason[number]), flows.edits, number)
            if one is not None and one[0] not in table:
                wanted.append(one)
        if wanted:
            table.install(wanted[: table.capacity], now_ns)

    def _number(self, flow: Conversation) -> int:
        """The pipeline's number of a flow."""
        ingress = self._numbers.get(flow.ingress)
        tenant = None if ingress is None else self._pipeline.configuration.tenants.by_port.get(ingress)
        if tenant is None:
            return MISSING
        return self._pipeline.flows.number_of(_key(tenant, flow))

    def revalidate(self) -> int:
        """Decide again about all offloaded flows, and remove those that would be decided otherwise.

        For flows that another daemon left, and after the configuration changed.

        Returns:
            How many were removed.
        """
        flows = self._offload.flows.conversations()
        wrong = [flow for flow in flows if flow.ingress not in self._numbers]
        for ingress, index in enumerate(self._indices):
            some = [flow for flow in flows if flow.ingress == index]
            if some:
                wrong += self._wrong(some, ingress)
        return self._offload.flows.remove(wrong)

    def _wrong(self, some: list[Conversation], ingress: int) -> list[Conversation]:
        """Of flows that come in on one port, those that would be decided otherwise today."""
        told = self._pipeline.configuration
        tenant = told.tenants.by_port.get(ingress)
        if tenant is None:
            return some
        # A pipeline of its own decides, so that nothing is counted that never came.
        judge = Pipeline(replace(told, flow_capacity=len(some)))
        count = len(some)
        memory = np.zeros(_PROBE_STRIDE * (count + 1), dtype=np.uint8)
        offsets = np.arange(count, dtype=np.int64) * _PROBE_STRIDE + _PROBE_STRIDE // 2
        for offset, flow in zip(offsets.tolist(), some, strict=True):
            memory[offset : offset + _PROBE_BYTES] = np.frombuffer(_probe(flow, told.macs[ingress]), dtype=np.uint8)
        room = np.full(count, _PROBE_STRIDE // 2, dtype=np.int64)
        judge.process(memory, offsets, np.full(count, _PROBE_BYTES, dtype=np.int64), room, ingress, 0)
        wrong = []
        for flow in some:
            key, flows = _key(tenant, flow), judge.flows
            number = flows.number_of(key)
            now = None
            if number != MISSING:
                now = self._as_offloaded(key, ingress, int(flows.reason[number]), flows.edits, number)
            if now is None or not self._same(flow, now[1]):
                wrong.append(flow)
        return wrong

    def _same(self, flow: Conversation, forwarding: Forwarding) -> bool:
        record, wanted = self._offload.flows.flow(flow), flow_record(flow, forwarding)
        if record is None:
            return False
        for name in _UNCOMPARED:
            wanted[name] = record[name]
        return bool(wanted.tobytes() == record.tobytes())

    def as_json(self) -> dict[str, Any]:
        """All figures as plain data."""
        return {**self._offload.as_json(), "not_offloadable": self.not_offloadable, "forgotten": self.forgotten}


def _key(tenant: int, flow: Conversation) -> FlowKey:
    """The name that the pipeline has for a flow."""
    ports = flow.source_port, flow.destination_port
    return FlowKey(tenant, flow.protocol, flow.source, flow.destination, *ports)


def _probe(flow: Conversation, mac: bytes) -> bytes:
    """A frame such as the flow's are, with as much in it as is needed to decide about it."""
    length = _PROBE_BYTES - _ETHERNET_BYTES
    ip = pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, flow.protocol, 0)
    ip += flow.source.packed + flow.destination.packed
    checksum = 0xFFFF - int.from_bytes(ip, "big") % 0xFFFF
    ports = pack("!HH", flow.source_port, flow.destination_port)
    rest = pack("!IIBBHHH", 0, 0, 5 << 4, _ACK, 0, 0, 0) if flow.protocol == _TCP else pack("!HH", length - 20, 0)
    frame = mac + bytes(6) + b"\x08\0" + ip[:10] + checksum.to_bytes(2, "big") + ip[12:] + ports + rest
    return frame.ljust(_PROBE_BYTES, b"\0")
