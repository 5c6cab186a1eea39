"""Classic BPF: which frames come into a ring at all.

On a host where a proxy terminates TCP, the forwarder must not handle those frames a second time, nor pay for copying
them into its ring. The kernel drops them for this socket only; its own stack still gets them.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_PORTS = 64

_LDH_ABS, _LDB_ABS, _LDX_MSH, _LDH_IND = 0x28, 0x30, 0xB1, 0x48
_JEQ, _JSET, _RET = 0x15, 0x45, 0x06
_WHOLE = 0x0004_0000

_ETHERTYPE_AT, _FRAGMENT_AT, _PROTOCOL_AT, _HEADER_AT = 12, 20, 23, 14
_IPV4, _TCP, _FRAGMENT_OFFSET = 0x0800, 6, 0x1FFF
_SOURCE_PORT_AT, _DESTINATION_PORT_AT = 14, 16


class Instruction(NamedTuple):
    """One ``sock_filter``: code, jumps if true and false, operand."""

    code: int
    jt: int
    jf: int
    k: int


def without_tcp(ports: frozenset[int] | None) -> tuple[Instruction, ...]:
    """A program that lets everything pass but unfragmented (or first fragments of) IPv4 TCP from or to given ports.

    Both directions are named, because segments come from the client to the port, and from the server's port to the
    proxy's own connection.

    Args:
        ports: TCP ports; None: all TCP.

    Raises:
        ValueError: More than 64 ports (the jumps would not reach).
    """
    if ports is not None and len(ports) > MAX_PORTS:
        raise ValueError(f"{len(ports)} TCP ports are too many for one filter: at most {MAX_PORTS}")
    tests: list[tuple[int, int]] = []
    if ports is not None:
        tests = [(at, port) for at in (_SOURCE_PORT_AT, _DESTINATION_PORT_AT) for port in sorted(ports)]
    # Layout: prologue, tests, "accept", "refuse".
    body: list[Instruction] = []
    if ports is None:
        accept = 4
    else:
        loads = 2 if ports else 0
        accept = 4 + 3 + len(tests) + loads
    refuse = accept + 1

    def here() -> int:
        return len(body) + 1

    body.append(Instruction(_LDH_ABS, 0, 0, _ETHERTYPE_AT))
    body.append(Instruction(_JEQ, 0, accept - here(), _IPV4))
    body.append(Instruction(_LDB_ABS, 0, 0, _PROTOCOL_AT))
    body.append(Instruction(_JEQ, refuse - here() if ports is None else 0, accept - here(), _TCP))
    if ports is not None:
        body.append(Instruction(_LDH_ABS, 0, 0, _FRAGMENT_AT))
        body.append(Instruction(_JSET, accept - here(), 0, _FRAGMENT_OFFSET))
        body.append(Instruction(_LDX_MSH, 0, 0, _HEADER_AT))
        loaded = -1
        for at, port in tests:
            if at != loaded:
                body.append(Instruction(_LDH_IND, 0, 0, at))
                loaded = at
            body.append(Instruction(_JEQ, refuse - here(), 0, port))
    body.append(Instruction(_RET, 0, 0, _WHOLE))
    body.append(Instruction(_RET, 0, 0, 0))
    return tuple(body)
