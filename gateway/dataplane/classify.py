"""Whose frame it is, and what service it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from gateway.dataplane.headers import NVME_PORT, ROCE_PORT, TCP, UDP, Headers, Vxlan
from gateway.dataplane.lookup import MISSING, ExactTable, Network, Prefix, PrefixTable
from gateway.dataplane.memory import Flags, Ints, integer
from gateway.dataplane.reasons import Reason

MAX_PORTS, MAX_TENANTS, MAX_VLAN, MAX_VNI = 256, 1 << 16, 4094, (1 << 24) - 1


class Service(IntEnum):
    """What a frame's ports say it is for."""

    OTHER = 0
    BLOCK = 1
    FILE = 2
    OBJECT = 3
    COMPUTE = 4


SERVICE_PORTS: Mapping[tuple[int, int], Service] = {
    (TCP, NVME_PORT): Service.BLOCK,
    (TCP, 3260): Service.BLOCK,
    (TCP, 2049): Service.FILE,
    (UDP, 2049): Service.FILE,
    (TCP, 445): Service.FILE,
    (TCP, 80): Service.OBJECT,
    (TCP, 443): Service.OBJECT,
    (TCP, 9000): Service.OBJECT,
    (UDP, ROCE_PORT): Service.COMPUTE,
}
"""Services by protocol and port: NVMe/TCP and iSCSI, NFS and SMB, HTTP(S) and MinIO, RoCEv2."""

_FIRST_VNI = integer(0)
_UDP, _UDP_PART, _OTHER = integer(UDP), integer(16), np.array(Service.OTHER, np.uint8)


@dataclass(frozen=True)
class Tenants:
    """Who is who; tenants are numbers from 0.

    Attributes:
        by_vlan: Tenants by VLAN identifier, on every port.
        by_port: Tenants of what comes in untagged, by the number of the port.
        by_vni: Tenants by VXLAN network identifier.
        addresses: Which addresses a tenant's frames may come from. A tenant that is not named here may use any.
    """

    by_vlan: Mapping[int, int] = field(default_factory=dict)
    by_port: Mapping[int, int] = field(default_factory=dict)
    by_vni: Mapping[int, int] = field(default_factory=dict)
    addresses: Mapping[int, Iterable[Network]] = field(default_factory=dict)


@dataclass(slots=True)
class Classes:
    """Tenant (`MISSING`: none) and `Service` of each frame."""

    tenant: Ints
    service: Ints


class Classifier:
    """The tables of `classify`, made from what is known of tenants and services.

    Raises:
        ValueError: A number is not in its range.
    """

    def __init__(self, tenants: Tenants, services: Mapping[tuple[int, int], Service] = SERVICE_PORTS) -> None:
        self._by_tag = np.full((MAX_PORTS, 4096), MISSING, np.int64)
        for vlan, tenant in tenants.by_vlan.items():
            self._by_tag[:, _within("a VLAN", vlan, 1, MAX_VLAN)] = _tenant(tenant)
        for port, tenant in tenants.by_port.items():
            self._by_tag[_within("a port", port, 0, MAX_PORTS - 1), 0] = _tenant(tenant)
        self._by_vni = ExactTable(1, max(1, len(tenants.by_vni)))
        for vni, tenant in tenants.by_vni.items():
            self._by_vni.put((_within("a VNI", vni, 0, MAX_VNI),), _tenant(tenant))
        self._services = np.zeros(2 << 16, np.uint8)
        for (protocol, number), service in services.items():
            self._services[(protocol == UDP) << 16 | _within("a port", number, 1, 65535)] = service
        self._is_checked = np.zeros(MAX_TENANTS, np.bool_)
        self._is_checked[list(tenants.addresses)] = True
        self._checks = bool(tenants.addresses)
        self._addresses = PrefixTable(
            Prefix(_tenant(tenant), network, 0)
            for tenant, networks in tenants.addresses.items()
            for network in networks
        )

    def tenant_of(self, ingress: int, vlan: Ints, vni: Ints) -> Ints:
        """The tenant of each frame, by its network identifier if it has one, else by its tag and port."""
        tenant: Ints = self._by_tag[ingress][vlan]
        tunnelled = vni >= _FIRST_VNI
        if np.count_nonzero(tunnelled):
            tenant[tunnelled] = self._by_vni.find((vni[tunnelled].view(np.uint64),))
        return tenant

    def tenants_of(self, headers: Headers, ingress: int) -> Ints:
        """The tenant of each frame of a batch; one with VXLAN that passes by belongs to the tenant of its network."""
        tenant = self.tenant_of(ingress, headers.vlan, headers.vni)
        vxlan = headers.vxlan
        if vxlan is not None:
            tenant[vxlan.rows] = self.tenant_of(ingress, vxlan.inner.vlan, vxlan.vni)
        return tenant

    def service_of(self, headers: Headers) -> Ints:
        """The service of each frame: that of the port it goes to, or else of the port it comes from."""
        part = (headers.protocol == _UDP).astype(np.int64) << _UDP_PART
        service = self._services[headers.target_port | part]
        np.copyto(service, self._services[headers.source_port | part], where=service == _OTHER)
        # Ports of other protocols are 0, which is no service's.
        services: Ints = service.astype(np.int64)
        return services

    def is_spoofed(self, headers: Headers, tenant: Ints) -> Flags | None:
        """Whether each frame's source is not one of its tenant's; None: no frame's is."""
        if not self._checks:
            return None
        owner = self._addresses.find(tenant, headers.family, headers.source_high, headers.source)
        foreign: Flags = owner == MISSING
        foreign &= self._is_checked[tenant]
        return foreign if np.count_nonzero(foreign) else None


def _within(what: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError(f"{what} is a number from {least} to {most}, not {value}")
    return value


def _tenant(value: int) -> int:
    return _within("a tenant", value, 0, MAX_TENANTS - 1)


def classify(headers: Headers, ingress: int, classifier: Classifier) -> Classes:
    """Find tenant and service of each frame, and mark frames that have no tenant or a source that is not theirs.

    A frame with VXLAN that passes by belongs to the tenant of its network, and is judged by the frame inside.

    Args:
        headers: The batch; `Headers.reason` is changed where it is `FORWARDED`.
        ingress: Number of the port where it came in.
        classifier: The tables.
    """
    tenant = classifier.tenants_of(headers, ingress)
    service = classifier.service_of(headers)
    spoofed = classifier.is_spoofed(headers, tenant)
    reason = headers.reason
    vxlan = headers.vxlan
    if vxlan is not None and vxlan.rows.size:
        service[vxlan.rows] = classifier.service_of(vxlan.inner)
        if spoofed is not None:
            spoofed[vxlan.rows] = False
        mark_spoofed(headers, vxlan, tenant, classifier)
    if spoofed is not None:
        reason[spoofed & (reason == 0) & (headers.family != 0)] = Reason.SPOOFED
    missing = tenant == integer(MISSING)
    if np.count_nonzero(missing):
        reason[missing & (reason == 0)] = Reason.NO_TENANT
    return Classes(tenant, service)


def mark_spoofed(headers: Headers, vxlan: Vxlan, tenant: Ints, classifier: Classifier) -> None:
    """Mark frames with VXLAN inside of which a source is not one of their tenant's."""
    foreign = classifier.is_spoofed(vxlan.inner, tenant[vxlan.rows])
    if foreign is not None:
        foreign &= (vxlan.inner.family != 0) & (headers.reason[vxlan.rows] == 0) & (tenant[vxlan.rows] >= 0)
        headers.reason[vxlan.rows[foreign]] = Reason.SPOOFED
