"""Address translation: services have addresses of their own, behind which backends do the work.

A frame to a service's address and port goes to its backend, and a frame from the backend comes from the service. The
mapping is one to one and needs no state, so any gateway can translate any frame of a connection, and a gateway that
restarts goes on. (The price: a backend's port is reached by its service's address only.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import numpy as np

from gateway.dataplane.classify import MAX_TENANTS, Classes
from gateway.dataplane.edits import Edits
from gateway.dataplane.headers import TCP, UDP, Headers
from gateway.dataplane.lookup import MISSING, ExactTable
from gateway.dataplane.memory import Ints, Words, word

Address = IPv4Address | IPv6Address

_16, _24, _32 = word(16), word(24), word(32)
_ANY_TENANT = MAX_TENANTS
_MASK64 = (1 << 64) - 1


@dataclass(frozen=True)
class Endpoint:
    """Where a service is reached, and who does its work.

    Attributes:
        protocol: TCP (6) or UDP (17).
        address, port: Where it is reached.
        backend, backend_port: Who does the work; of the same address family.
        tenant: For whose frames; None: for everybody's that has no endpoint of his own there.
    """

    protocol: int
    address: Address
    port: int
    backend: Address
    backend_port: int
    tenant: int | None = None


class _Side:
    """Where one side of a connection leads: by tenant, protocol, address and port."""

    def __init__(self, capacity: int) -> None:
        self._table = ExactTable(3, capacity)
        self._has_common = False

    def put(self, endpoint: Endpoint, address: Address, port: int, value: int) -> None:
        key = _key(endpoint, address, port)
        if self._table.get(key) != MISSING:
            owner = "every tenant" if endpoint.tenant is None else f"tenant {endpoint.tenant}"
            raise ValueError(f"{address} port {port} of {owner} is translated twice")
        self._table.put(key, value)
        self._has_common |= endpoint.tenant is None

    def find(self, headers: Headers, tenant: Ints, high: Words, low: Words, port: Ints) -> Ints:
        last = port.view(np.uint64) | (headers.protocol.view(np.uint64) << _16)
        last |= headers.family.view(np.uint64) << _24
        found = self._table.find((high, low, last | (tenant.view(np.uint64) << _32)))
        if self._has_common:
            common = self._table.find((high, low, last | word(_ANY_TENANT << 32)))
            np.copyto(found, common, where=found == MISSING)
        return found


def _key(endpoint: Endpoint, address: Address, port: int) -> tuple[int, int, int]:
    tenant = _ANY_TENANT if endpoint.tenant is None else endpoint.tenant
    number = int(address)
    return (
        number >> 64,
        number & _MASK64,
        port | endpoint.protocol << 16 | address.version << 24 | tenant << 32,
    )


class Translations:
    """Endpoints that were made ready for `translate`.

    Raises:
        ValueError: An endpoint cannot be, or two of them want the same address and port.
    """

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self.endpoints = tuple(endpoints)
        self._forward, self._back = _Side(max(1, len(endpoints))), _Side(max(1, len(endpoints)))
        for number, endpoint in enumerate(endpoints):
            _check(endpoint)
            self._forward.put(endpoint, endpoint.address, endpoint.port, number)
            self._back.put(endpoint, endpoint.backend, endpoint.backend_port, number)
        services = [(endpoint.address, endpoint.port) for endpoint in endpoints]
        backends = [(endpoint.backend, endpoint.backend_port) for endpoint in endpoints]
        self._services, self._backends = _columns(services), _columns(backends)

    def forward(self, headers: Headers, tenant: Ints) -> Ints:
        """The endpoint that each frame goes to, or `MISSING`."""
        return self._forward.find(headers, tenant, headers.target_high, headers.target, headers.target_port)

    def back(self, headers: Headers, tenant: Ints) -> Ints:
        """The endpoint whose backend each frame comes from, or `MISSING`."""
        return self._back.find(headers, tenant, headers.source_high, headers.source, headers.source_port)

    def rewrite(self, edits: Edits, forward: Ints, back: Ints) -> None:
        """Enter where frames go to and come from."""
        rows = np.flatnonzero(forward != MISSING)
        high, low, port = (column[forward[rows]] for column in self._backends)
        edits.target_high[rows], edits.target[rows], edits.target_port[rows] = high, low, port
        rows = np.flatnonzero(back != MISSING)
        high, low, port = (column[back[rows]] for column in self._services)
        edits.source_high[rows], edits.source[rows], edits.source_port[rows] = high, low, port


def _columns(places: Sequence[tuple[Address, int]]) -> tuple[Words, Words, Ints]:
    return (
        np.array([int(address) >> 64 for address, _ in places], np.uint64),
        np.array([int(address) & _MASK64 for address, _ in places], np.uint64),
        np.array([port for _, port in places], np.int64),
    )


def _check(endpoint: Endpoint) -> None:
    if endpoint.protocol not in (TCP, UDP):
        raise ValueError(f"protocol {endpoint.protocol} cannot be translated: only TCP (6) and UDP (17)")
    if endpoint.address.version != endpoint.backend.version:
        raise ValueError(f"{endpoint.address} and {endpoint.backend} are of different families")
    for port in (endpoint.port, endpoint.backend_port):
        if not 0 < port < 65536:
            raise ValueError(f"a port is a number from 1 to 65535, not {port}")
    if endpoint.tenant is not None and not 0 <= endpoint.tenant < MAX_TENANTS:
        raise ValueError(f"a tenant is a number from 0 to {MAX_TENANTS - 1}, not {endpoint.tenant}")


def translate(headers: Headers, classes: Classes, translations: Translations) -> Edits:
    """Say which addresses and ports frames leave with; those without an endpoint keep theirs."""
    edits = Edits.none(headers)
    if translations.endpoints:
        tenant = np.maximum(classes.tenant, 0)
        translations.rewrite(edits, translations.forward(headers, tenant), translations.back(headers, tenant))
    return edits
