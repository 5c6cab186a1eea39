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
from gateway.dataplane.memory import Ints
from gateway.dataplane.pipeline import Pipeline
from gateway.dataplane.reasons import Reason
from gateway.dataplane.route import LOCAL
from gateway.offload.offloading import Offload
from gateway.offload.records import FLOW, KEY, Conversation, Forwarding, flow_record, key_record

_TCP, _UDP, _ACK = 6, 17, 0x10
_TRANSPORTS = frozenset({_TCP, _UDP})
_PROBE_BYTES, _PROBE_STRIDE = 60, 128
_ETHERNET_BYTES = 14
_UNCOMPARED = ("slot", "cookie")
_OFFERED = 1024
"""Flows that are offered again in one step at most: each takes some tens of microseconds."""


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
        capacity = offload.flows.capacity
        # By slot: the pipeline's number of the flow and since when it is that; what was counted so far.
        self._number = np.full(capacity, MISSING, dtype=np.int64)
        self._since_ns, self._counted_since_ns = np.zeros(capacity, np.int64), np.full(capacity, -1, np.int64)
        self._packets, self._bytes = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
        self._last_step_ns = 0
        self.not_offloadable = 0
        self._begin()

    def _begin(self) -> None:
        """Know of none of the pipeline's flows where it came in."""
        self._pipeline.flows.take_begun()
        self._number.fill(MISSING)
        self._ingress = np.full(self._pipeline.flows.capacity, -1, dtype=np.int64)

    def flows_began(self, ingress: int, now_ns: int) -> None:
        """Offload the flows that the last batch began, as far as can be.

        Args:
            ingress: Number of the port where it came in.
            now_ns: The time.
        """
        numbers = self._pipeline.flows.take_begun()
        self._ingress[numbers] = ingress
        refused = len(numbers) - self._install(numbers, now_ns)
        self.not_offloadable += refused

    def _install(self, numbers: Ints, now_ns: int) -> int:
        """Offload flows of the pipeline, as far as can be; how many can."""
        flows = self._pipeline.flows
        chosen, keys, records = [], [], []
        for number in numbers.tolist():
            ingress = int(self._ingress[number])
            if ingress < 0:
                continue
            one = self._as_offloaded(flows.key(number), ingress, int(flows.reason[number]), flows.edits, number)
            if one is not None:
                chosen.append(number)
                keys.append(key_record(one[0]))
                records.append(flow_record(*one))
        if chosen:
            slots = self._offload.flows.install_records(np.array(keys, KEY), np.array(records, FLOW), now_ns)
            done = slots >= 0
            self._number[slots[done]] = np.array(chosen, dtype=np.int64)[done]
            self._since_ns[slots[done]] = now_ns
        return len(chosen)

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
        number = int(edits.next_hop[row])
        if number <= LOCAL:
            return None
        hop = told.next_hops[number - 1]
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
        """Read the program's counts back into the pipeline's flows, and offload no longer those that are idle.

        Args:
            now_ns: The time, CLOCK_MONOTONIC.
            idle_ns: Flows without a packet for so long are not offloaded any more.
        """
        table, flows = self._offload.flows, self._pipeline.flows
        slots, counts = table.slots(), table.counts()
        fresh = self._counted_since_ns != table.installed_ns()
        self._packets[fresh] = self._bytes[fresh] = 0
        self._counted_since_ns[fresh] = table.installed_ns()[fresh]
        packets, sizes = counts["packets"].astype(np.int64), counts["bytes"].astype(np.int64)
        numbers = self._number[slots]
        news = (numbers != MISSING) & (packets[slots] != self._packets[slots])
        slots, numbers = slots[news], numbers[news]
        same = flows.are_still(numbers, self._since_ns[slots])
        slots, numbers = slots[same], numbers[same]
        flows.credit(
            numbers,
            packets[slots] - self._packets[slots],
            sizes[slots] - self._bytes[slots],
            counts["last_seen_ns"].astype(np.int64)[slots],
        )
        self._packets, self._bytes = packets, sizes
        self._offer_again(now_ns)
        table.expire(now_ns - idle_ns, counts)
        self._last_step_ns = now_ns

    def _offer_again(self, now_ns: int) -> None:
        """Offload flows that still come to the daemon: they had to make room for others, or were refused."""
        table, flows = self._offload.flows, self._pipeline.flows
        active = flows.active_since(self._last_step_ns)
        slots = table.slots()
        numbers = self._number[slots]
        offloaded = numbers[(numbers != MISSING) & flows.are_still(numbers, self._since_ns[slots])]
        active = active[(self._ingress[active] >= 0) & ~np.isin(active, offloaded)]
        if active.size:
            self._install(active[:_OFFERED], now_ns)

    def forget(self, keys: list[FlowKey] | None) -> None:
        """Let the daemon have flows' packets again, because somebody else decided about them.

        Args:
            keys: Their names; None: all flows.
        """
        # Where such flows come in is not known, so they are not offloaded before a packet begins them anew.
        self._ingress[self._pipeline.flows.take_begun()] = -1
        if keys is None:
            self._offload.flows.clear()
            return
        tenants = self._pipeline.configuration.tenants.by_port
        self._offload.flows.remove(
            Conversation(self._indices[number], key.source, key.target, key.source_port, key.target_port, key.protocol)
            for key in keys
            for number, tenant in tenants.items()
            if tenant == key.tenant
            and key.protocol in _TRANSPORTS
            and isinstance(key.source, IPv4Address)
            and isinstance(key.target, IPv4Address)
        )

    def revalidate(self, *, forgotten: bool = True) -> int:
        """Decide again about all offloaded flows, and remove those that would be decided otherwise.

        For flows that another daemon left, and after the configuration changed.

        Args:
            forgotten: The pipeline knows nothing any more of the flows that it had.

        Returns:
            How many were removed.
        """
        if forgotten:
            self._begin()
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
        return {**self._offload.as_json(), "not_offloadable": self.not_offloadable}


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
