"""Policies and flows over the control socket: from messages to a `Pipeline`'s configuration and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from emulator.messages import gateway as messages
from gateway.dataplane.classify import Service, Tenants
from gateway.dataplane.edits import Deltas, Edits, delta_of_sums
from gateway.dataplane.flow_key import FlowKey
from gateway.dataplane.flows import OUTSIDE, Decisions, Flows
from gateway.dataplane.headers import TCP
from gateway.dataplane.pipeline import Configuration, Pipeline
from gateway.dataplane.policy import Rule
from gateway.dataplane.reasons import Reason
from gateway.dataplane.route import NextHop, Route, Tunnel
from gateway.dataplane.translate import Endpoint

_LOW64 = (1 << 64) - 1
_SERVICE_NAMES: Mapping[Service, messages.ServiceName] = {
    Service.OTHER: "other",
    Service.BLOCK: "block",
    Service.FILE: "file",
    Service.OBJECT: "object",
    Service.COMPUTE: "compute",
}


def configuration_of(policies: messages.Policies, base: Configuration) -> Configuration:
    """What a pipeline is told.

    Args:
        policies: What the message says.
        base: What is not in messages: the ports' Ethernet addresses and the sizes.
    """
    tenants = policies.tenants
    return Configuration(
        macs=base.macs,
        tenants=Tenants(
            by_vlan=_unique("VLAN", [(vlan, tenant.number) for tenant in tenants for vlan in tenant.vlans]),
            by_port=_unique("port", [(port, tenant.number) for tenant in tenants for port in tenant.ports]),
            by_vni=_unique("VNI", [(vni, tenant.number) for tenant in tenants for vni in tenant.vnis]),
            addresses={tenant.number: tenant.addresses for tenant in tenants if tenant.addresses is not None},
        ),
        rules=[
            Rule(
                rule.allow,
                rule.tenant,
                None if rule.service is None else Service[rule.service.upper()],
                rule.protocol,
                rule.source,
                rule.target,
                rule.source_ports,
                rule.target_ports,
            )
            for rule in policies.rules
        ],
        routes=[Route(route.tenant, route.network, route.next_hop) for route in policies.routes],
        next_hops=[
            NextHop(
                hop.port,
                mac_of(hop.target_mac),
                mac_of(hop.source_mac),
                hop.vlan,
                None if hop.tunnel is None else _tunnel(hop.tunnel),
                hop.max_bytes,
            )
            for hop in policies.next_hops
        ],
        endpoints=[
            Endpoint(one.protocol, one.address, one.port, one.backend, one.backend_port, one.tenant)
            for one in policies.endpoints
        ],
        tunnel_ends=policies.tunnel_ends,
        services=base.services,
        max_bytes=base.max_bytes,
        flow_capacity=base.flow_capacity,
    )


def policies_of(configuration: Configuration) -> messages.Policies:
    """The inverse of `configuration_of`: what a message would have to say."""
    tenants = configuration.tenants
    numbers = {*tenants.by_vlan.values(), *tenants.by_port.values(), *tenants.by_vni.values(), *tenants.addresses}
    return messages.Policies(
        tenants=tuple(
            messages.Tenant(
                number=number,
                vlans=_names_of(tenants.by_vlan, number),
                ports=_names_of(tenants.by_port, number),
                vnis=_names_of(tenants.by_vni, number),
                addresses=tuple(tenants.addresses[number]) if number in tenants.addresses else None,
            )
            for number in sorted(numbers)
        ),
        rules=tuple(
            messages.Rule(
                allow=rule.allow,
                tenant=rule.tenant,
                service=None if rule.service is None else _SERVICE_NAMES[rule.service],
                protocol=rule.protocol,
                source=rule.source,
                target=rule.target,
                source_ports=rule.source_ports,
                target_ports=rule.target_ports,
            )
            for rule in configuration.rules
        ),
        endpoints=tuple(
            messages.Endpoint(
                protocol=6 if one.protocol == TCP else 17,
                address=one.address,
                port=one.port,
                backend=one.backend,
                backend_port=one.backend_port,
                tenant=one.tenant,
            )
            for one in configuration.endpoints
        ),
        next_hops=tuple(
            messages.NextHop(
                port=hop.port,
                target_mac=hop.target_mac.hex(":"),
                source_mac=hop.source_mac.hex(":"),
                vlan=hop.vlan,
                tunnel=None if hop.tunnel is None else _tunnel_message(hop.tunnel),
                max_bytes=hop.max_bytes,
            )
            for hop in configuration.next_hops
        ),
        routes=tuple(
            messages.Route(tenant=one.tenant, network=one.network, next_hop=one.next_hop)
            for one in configuration.routes
        ),
        tunnel_ends=tuple(configuration.tunnel_ends),
    )


def _names_of(mapping: Mapping[int, int], tenant: int) -> tuple[int, ...]:
    return tuple(sorted(name for name, owner in mapping.items() if owner == tenant))


def _tunnel_message(tunnel: Tunnel) -> messages.Tunnel:
    return messages.Tunnel(
        vni=tunnel.vni,
        local=tunnel.local,
        remote=tunnel.remote,
        target_mac=tunnel.target_mac.hex(":"),
        source_mac=tunnel.source_mac.hex(":"),
        port=tunnel.port,
    )


def mac_of(text: str) -> bytes:
    """The 6 bytes of an Ethernet address."""
    return bytes.fromhex(text.replace(":", ""))


def _tunnel(tunnel: messages.Tunnel) -> Tunnel:
    macs = mac_of(tunnel.target_mac), mac_of(tunnel.source_mac)
    return Tunnel(tunnel.vni, tunnel.local, tunnel.remote, *macs, tunnel.port)


def _unique(what: str, pairs: Sequence[tuple[int, int]]) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for name, tenant in pairs:
        if found.setdefault(name, tenant) != tenant:
            raise ValueError(f"{what} {name} belongs to tenants {found[name]} and {tenant}")
    return found


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
