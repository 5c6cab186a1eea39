"""The whole way of a batch: from bytes to rewritten frames, their egress ports, and a reason for each that has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gateway.dataplane.classify import Classes, Classifier, classify, mark_spoofed
from gateway.dataplane.configuration import Configuration
from gateway.dataplane.counters import Counters
from gateway.dataplane.decisions import Decisions
from gateway.dataplane.edits import Edits, deltas_of
from gateway.dataplane.encapsulate import WRAP_BYTES, Wraps, retag, unwrap, wrap
from gateway.dataplane.flows import Flows
from gateway.dataplane.headers import TAG_BYTES, W_TARGET_PORTS, Headers
from gateway.dataplane.lookup import MISSING
from gateway.dataplane.memory import Bytes, Flags, Ints, Words, constant, integer, word
from gateway.dataplane.parse import MAX_BATCH, parse
from gateway.dataplane.policy import Policy, judge
from gateway.dataplane.reasons import Reason
from gateway.dataplane.rewrite import write_macs, write_other, write_plain
from gateway.dataplane.route import NextHop, Routes, expire, route
from gateway.dataplane.translate import Translations, translate

__all__ = ["Configuration", "Pipeline", "Verdicts"]

_GROUP_BIT = word(1 << 40)
_ZERO = integer(0)
_NO_PORT = constant(MISSING, size=MAX_BATCH)


@dataclass(slots=True)
class Verdicts:
    """What became of a batch.

    Attributes:
        reason: `Reason` of each frame; only those that are `FORWARDED` were changed in memory.
        port: Egress port of each forwarded frame, else -1.
        offsets, lengths: Where the frames lie now, and their lengths.
    """

    reason: Bytes
    port: Ints
    offsets: Ints
    lengths: Ints


class Pipeline:
    """A gateway's data plane: its tables, flows and counters.

    Attributes:
        configuration: What it was told last.
        counters: What became of all frames.
        flows: What was decided about flows.
        classifier, policy, translations, routes: The configuration, made ready for the stages.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.counters = Counters()
        self.flows = Flows(configuration.flow_capacity, self.counters)
        self.configure(configuration)

    def configure(self, configuration: Configuration) -> None:
        """Take over a new configuration, all of it or (on errors) nothing, and forget what was decided by the old one.

        Raises:
            ValueError: Something in it cannot be.
        """
        if configuration.flow_capacity < 1:
            raise ValueError(f"a gateway has to remember at least one flow, not {configuration.flow_capacity}")
        classifier = Classifier(configuration.tenants, configuration.services)
        policy = Policy(configuration.rules)
        translations = Translations(configuration.endpoints)
        routes = Routes(configuration.routes, configuration.next_hops)
        wraps = Wraps([None, *(hop.tunnel for hop in configuration.next_hops)])
        macs = {number: _mac(number, mac) for number, mac in configuration.macs.items()}
        self.classifier, self.policy, self.translations = classifier, policy, translations
        self.routes, self._wraps, self._macs = routes, wraps, macs
        self._tunnels = np.array([False, *(hop.tunnel is not None for hop in configuration.next_hops)])
        # A tunnel counts as a tag that no frame has: nothing that goes into one keeps its shape.
        self._hop_tags = np.array(
            [0, *(-1 if hop.tunnel else int(hop.vlan != 0) for hop in configuration.next_hops)], np.int64
        )
        self._shapes = any(hop.vlan or hop.tunnel for hop in configuration.next_hops)
        self._least_max_bytes = _least_max_bytes(self.routes)
        self._tunnel_ends = np.array(sorted(int(address) for address in configuration.tunnel_ends), np.int64)
        self.flows.clear()
        if configuration.flow_capacity != self.flows.capacity:
            self.flows = Flows(configuration.flow_capacity, self.counters)
        self.configuration = configuration

    def change_limits(self, next_hops: Sequence[NextHop]) -> None:
        """Take over next hops that differ in the longest frames that they take only; what was decided stays."""
        self.routes = Routes(self.routes.routes, next_hops)
        self._least_max_bytes = _least_max_bytes(self.routes)
        self.configuration = replace(self.configuration, next_hops=next_hops)

    def process(
        self,
        memory: Bytes,
        offsets: Ints,
        lengths: Ints,
        headroom: Ints,
        ingress: int,
        now_ns: int,
        heads: Ints | None = None,
    ) -> Verdicts:
        """Decide about a batch and rewrite what is forwarded.

        Args:
            memory: Where the frames lie.
            offsets: Position of each.
            lengths: Length of each.
            headroom: Bytes before each that it may grow into.
            ingress: Number of the port where they came in.
            now_ns: The time.
            heads: The lengths of the first pieces of frames that lie in several; None: all are in one.
        """
        if offsets.size > self.flows.capacity:
            return self._process_in_parts(memory, offsets, lengths, headroom, ingress, now_ns, heads)
        headers = parse(memory, offsets, lengths, self.configuration.max_bytes, heads)
        own = headers.target_mac == self._macs[ingress]
        if np.count_nonzero(own) != own.size:
            _not_ours(headers, own)
        if self._tunnel_ends.size and headers.vxlan is not None:
            headers = unwrap(headers, self._tunnel_ends)
            headroom = headroom + (headers.offsets - offsets)
        tenant = self.classifier.tenants_of(headers, ingress)
        if headers.vxlan is not None:
            # Which frames a tunnel carries is no matter of its flow: each is looked at.
            mark_spoofed(headers, headers.vxlan, tenant, self.classifier)
        if np.count_nonzero(tenant < _ZERO):
            missing = (tenant < 0) & (headers.reason == 0)
            headers.reason[missing] = np.where(headers.vni[missing] < 0, Reason.NO_TENANT, Reason.UNKNOWN_TUNNEL)
        numbers = self.flows.find(headers, tenant)
        unknown = numbers < _ZERO
        if np.count_nonzero(unknown):
            new = (unknown & (headers.reason == 0)).nonzero()[0]
            if new.size:
                self._decide(headers, new, ingress, now_ns, numbers[~unknown])
                numbers = self.flows.find(headers, tenant)
        return self._finish(memory, headers, numbers, lengths, headroom, now_ns)

    def _process_in_parts(
        self,
        memory: Bytes,
        offsets: Ints,
        lengths: Ints,
        headroom: Ints,
        ingress: int,
        now_ns: int,
        heads: Ints | None,
    ) -> Verdicts:
        """The same for more frames than there is room for flows."""
        parts = [
            self.process(
                memory,
                offsets[part],
                lengths[part],
                headroom[part],
                ingress,
                now_ns,
                None if heads is None else heads[part],
            )
            for part in np.array_split(np.arange(offsets.size), -(-offsets.size // self.flows.capacity))
        ]
        return Verdicts(
            np.concatenate([part.reason for part in parts]),
            np.concatenate([part.port for part in parts]),
            np.concatenate([part.offsets for part in parts]),
            np.concatenate([part.lengths for part in parts]),
        )

    def _decide(self, headers: Headers, rows: Ints, ingress: int, now_ns: int, keep: Ints) -> None:
        """The long way, for the first frames of flows."""
        some = headers.take(rows)
        if headers.vxlan is not None:
            some.vxlan = headers.vxlan.among(rows)
        classes, edits, rule = self.decide(some, ingress)
        decisions = Decisions(some.reason, edits, deltas_of(some, edits), rule, classes.service)
        self.flows.enter(some, classes.tenant, decisions, now_ns, keep)

    def decide(self, headers: Headers, ingress: int) -> tuple[Classes, Edits, Ints]:
        """All stages from classification to routing, without flows: marks reasons, and says what frames leave with."""
        classes = classify(headers, ingress, self.classifier)
        rule = judge(headers, classes, self.policy)
        edits = translate(headers, classes, self.translations)
        route(headers, classes, edits, self.routes)
        return classes, edits, rule

    def _finish(
        self, memory: Bytes, headers: Headers, numbers: Ints, lengths_in: Ints, headroom: Ints, now_ns: int
    ) -> Verdicts:
        reason, flows, size = headers.reason, self.flows, headers.size
        if np.count_nonzero(numbers < _ZERO):
            rows = np.flatnonzero(numbers >= _ZERO)
            reason[rows] |= flows.reason[numbers[rows]]
            flows.record(numbers[rows], lengths_in[rows], now_ns)
        else:
            reason |= flows.reason[numbers]
            flows.record(numbers, lengths_in, now_ns)
        expire(headers)
        next_hop = flows.edits.next_hop[numbers]
        changes_shape = self._check_exit(headers, next_hop, headroom)
        if not np.count_nonzero(reason):
            port, offsets, lengths = self._send(memory, headers, numbers, next_hop, changes_shape)
        else:
            port, offsets, lengths = _NO_PORT[:size].copy(), headers.offsets.copy(), headers.lengths.copy()
            rows = np.flatnonzero(reason == 0)
            if rows.size:
                some = headers.take(rows)
                sent = self._send(memory, some, numbers[rows], next_hop[rows], changes_shape)
                port[rows], offsets[rows], lengths[rows] = sent
        self.counters.count(reason, lengths_in)
        return Verdicts(reason, port, offsets, lengths)

    def _check_exit(self, headers: Headers, next_hop: Ints, headroom: Ints) -> bool:
        """Mark frames that cannot leave in the shape that their next hops want; False: all keep theirs."""
        changes_shape = self._shapes or int(np.count_nonzero(headers.tags)) != 0
        if changes_shape:
            same = headers.vlan == self.routes.vlans[next_hop]
            same &= headers.tags == self._hop_tags[next_hop]
            changes_shape = int(np.count_nonzero(same)) != same.size
        if not changes_shape and not np.count_nonzero(headers.lengths > self._least_max_bytes):
            return False
        growth = ((self.routes.vlans[next_hop] != 0) - headers.tags) * TAG_BYTES
        growth += self._tunnels[next_hop] * WRAP_BYTES
        reason = headers.reason
        good = reason == 0
        reason[good & (growth > headroom)] = Reason.NO_HEADROOM
        reason[good & (headers.lengths + growth > self.routes.max_bytes[next_hop])] = Reason.TOO_LONG
        return changes_shape

    def _send(
        self, memory: Bytes, headers: Headers, numbers: Ints, next_hop: Ints, changes_shape: bool
    ) -> tuple[Ints, Ints, Ints]:
        """Rewrite frames of which all are forwarded; returns ports, offsets and lengths."""
        flows = self.flows
        plain = headers.plain
        if np.count_nonzero(plain) == plain.size:
            write_plain(memory, headers, flows, numbers)
        else:
            which = np.flatnonzero(plain)
            if which.size:
                write_plain(memory, headers.take(which), flows, numbers[which])
            which = np.flatnonzero(~plain)
            flow = numbers[which]
            write_other(memory, headers.take(which), flows.edits.take(flow), flows.deltas.take(flow))
        write_macs(memory, headers.offsets, next_hop, self.routes)
        offsets, lengths = headers.offsets, headers.lengths
        if changes_shape:
            offsets, lengths = retag(memory, offsets, lengths, headers.tags, self.routes.vlans[next_hop])
            wrapped = np.flatnonzero(self._tunnels[next_hop])
            if wrapped.size:
                entropy = (headers.words[W_TARGET_PORTS] ^ headers.source)[wrapped]
                out = wrap(memory, offsets[wrapped], lengths[wrapped], self._wraps, next_hop[wrapped], entropy)
                offsets[wrapped], lengths[wrapped] = out
        return self.routes.ports[next_hop], offsets, lengths

    def as_json(self) -> dict[str, Any]:
        """All figures as plain data."""
        self.flows.settle()
        flows = self.flows
        counted = {"flows": len(flows), "evicted_flows": flows.evicted, "expired_flows": flows.expired}
        return {**self.counters.as_json(), **counted}


def _not_ours(headers: Headers, own: Flags) -> None:
    """Mark whole frames whose Ethernet destination is not the gateway's."""
    foreign = ~own & (headers.reason != Reason.RUNT)
    group = (headers.target_mac & _GROUP_BIT) != 0
    headers.reason[foreign] = np.where(group[foreign], Reason.GROUP, Reason.NOT_FOR_US)


def _least_max_bytes(routes: Routes) -> Ints:
    return integer(min((hop.max_bytes for hop in routes.next_hops), default=0))


def _mac(number: int, mac: bytes) -> Words:
    if len(mac) != 6:
        raise ValueError(f"port {number}: {mac.hex()} is not an Ethernet address of 6 bytes")
    return word(int.from_bytes(mac, "big"))
