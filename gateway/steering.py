"""Policies and flows over the control socket: what a `Pipeline` is told, and what it knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from emulator.messages import gateway as messages
from gateway.dataplane.classify import Service
from gateway.dataplane.decisions import OUTSIDE, Decisions
from gateway.dataplane.edits import Deltas, Edits, delta_of_sums
from gateway.dataplane.flow_key import FlowKey
from gateway.dataplane.flows import Flows
from gateway.dataplane.pipeline import Configuration, Pipeline
from gateway.dataplane.reasons import Reason
from gateway.policies import configuration_of, mac_of, policies_of

__all__ = ["Steering", "configuration_of", "key_of", "mac_of", "policies_of"]

_LOW64 = (1 << 64) - 1


class Steering:
    """What a daemon with a `Pipeline` offers as `Steered`.

    Args:
        pipeline: The data plane.
        told: What it was told, before it was fitted to the host.
        fit: Fits a configuration to the host.
        changed: Is called with the names of flows that were decided from outside; None: anything may be decided
            otherwise than before.

    Attributes:
        now_ns: The time, for flows that are installed; the daemon keeps it.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        told: Configuration | None = None,
        fit: Callable[[Configuration], Configuration] = lambda configuration: configuration,
        changed: Callable[[Sequence[FlowKey] | None], None] = lambda _keys: None,
    ) -> None:
        self._pipeline = pipeline
        self._told = told or pipeline.configuration
        self._fit = fit
        self._changed = changed
        self._policies = policies_of(self._told)
        self._revision = 0
        self._is_from_outside = False
        self.now_ns = 0

    @property
    def told(self) -> Configuration:
        """What the pipeline was told last, before it was fitted to the host."""
        return self._told

    def tell(self, told: Configuration) -> None:
        """Take a configuration over that does not come from the control socket.

        Raises:
            ValueError: It cannot be; nothing changed.
        """
        self._configure(told, policies_of(told))
        self._is_from_outside = False

    def _configure(self, told: Configuration, policies: messages.Policies) -> None:
        self._pipeline.configure(self._fit(told))
        self._told, self._policies = told, policies
        self._revision += 1
        self._changed(None)

    def policies(self, known: int | None = None) -> dict[str, Any]:
        """See `Steered`."""
        policies = None if known == self._revision else self._policies.model_dump(mode="json")
        return {"revision": self._revision, "policies": policies}

    def set_policies(self, policies: messages.Policies, if_revision: int | None = None) -> int:
        """See `Steered`."""
        if if_revision is not None and if_revision != self._revision:
            raise messages.Refused(
                messages.ErrorCode.CONFLICT, f"the policies have revision {self._revision}, not {if_revision}"
            )
        try:
            self._configure(configuration_of(policies, self._told), policies)
        except ValueError as error:
            raise messages.Refused(messages.ErrorCode.INVALID, messages.one_line(f"policies: {error}")) from None
        self._is_from_outside = True
        return self._revision

    def export(self) -> dict[str, Any]:
        """What was decided from outside, for `adopt` in a successor; None instead of policies: only the file was."""
        policies = self._policies.model_dump(mode="json") if self._is_from_outside else None
        flows = self._pipeline.flows
        outside = [
            _message_of(flows.key(number), flows, number) for number in flows.numbers() if flows.is_outside(number)
        ]
        return {"revision": self._revision, "policies": policies, "flows": [f.model_dump(mode="json") for f in outside]}

    def adopt(self, state: Mapping[str, Any]) -> None:
        """Go on with what a predecessor was told from outside.

        Raises:
            Refused: It does not fit this daemon; what is in force then is the file.
        """
        if state["policies"] is not None:
            self.set_policies(messages.parse_policies(state["policies"]))
        self._revision = state["revision"]
        if state["flows"]:
            self.install_flows([messages.Flow.model_validate(flow, strict=False) for flow in state["flows"]])

    def list_flows(self, after: int, limit: int, tenant: int | None) -> dict[str, Any]:
        """See `Steered`."""
        flows = self._pipeline.flows
        numbers = flows.numbers(after, tenant)
        page = [flows.describe(flows.key(number)) for number in numbers[:limit]]
        return {"flows": page, "next": numbers[limit - 1] if len(numbers) > limit else None}

    def install_flows(self, wanted: Sequence[messages.Flow]) -> int:
        """See `Steered`."""
        hops = len(self._pipeline.routes.next_hops)
        for position, flow in enumerate(wanted):
            if flow.next_hop is not None and flow.next_hop > hops:
                raise messages.Refused(
                    messages.ErrorCode.INVALID,
                    f"flows.{position}.next_hop: there are {hops} next hops, not {flow.next_hop}",
                )
        flows = self._pipeline.flows
        if len(wanted) > flows.capacity:
            raise messages.Refused(
                messages.ErrorCode.INVALID, f"flows: there is room for {flows.capacity}, not for {len(wanted)}"
            )
        for flow in wanted:
            flows.put(key_of(flow.key), _decided(flow), self.now_ns)
        self._changed([key_of(flow.key) for flow in wanted])
        return len(flows)

    def delete_flows(self, keys: Sequence[messages.FlowKey] | None) -> int:
        """See `Steered`."""
        flows = self._pipeline.flows
        if keys is None:
            count = len(flows)
            flows.clear()
            self._changed(None)
            return count
        names = [key_of(key) for key in keys]
        count = sum(flows.remove(name) for name in names)
        self._changed(names)
        return count


def key_of(key: messages.FlowKey) -> FlowKey:
    """A flow's name as the table has it."""
    return FlowKey(key.tenant, key.protocol, key.source, key.target, key.source_port, key.target_port)


def _message_of(key: FlowKey, flows: Flows, number: int) -> messages.Flow:
    after, allow = flows.after(number), int(flows.reason[number]) == Reason.FORWARDED
    return messages.Flow(
        key=messages.FlowKey(**vars(key)),
        allow=allow,
        next_hop=int(flows.edits.next_hop[number]) if allow else None,
        source=after.source if after.source != key.source else None,
        target=after.target if after.target != key.target else None,
        source_port=after.source_port if after.source_port != key.source_port else None,
        target_port=after.target_port if after.target_port != key.target_port else None,
    )


def _decided(flow: messages.Flow) -> Decisions:
    key = flow.key
    source, target = flow.source or key.source, flow.target or key.target
    source_port = key.source_port if flow.source_port is None else flow.source_port
    target_port = key.target_port if flow.target_port is None else flow.target_port
    old = (int(key.source), int(key.target)), (key.source_port, key.target_port)
    new = (int(source), int(target)), (source_port, target_port)
    edits = Edits.empty(1)
    edits.source[0], edits.source_high[0] = int(source) & _LOW64, int(source) >> 64
    edits.target[0], edits.target_high[0] = int(target) & _LOW64, int(target) >> 64
    edits.source_port[0], edits.target_port[0] = source_port, target_port
    edits.next_hop[0] = -1 if flow.next_hop is None else flow.next_hop
    deltas = Deltas.empty(1)
    deltas.header[0], deltas.transport[0] = delta_of_sums(old, new)
    deltas.changes[0] = old != new
    reason = np.array([Reason.FORWARDED if flow.allow else Reason.DENIED], np.uint8)
    return Decisions(reason, edits, deltas, np.array([OUTSIDE]), np.array([Service.OTHER]))
