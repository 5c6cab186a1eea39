"""Transparent interception: nft rules that send other hosts' TCP to a local proxy, and where it wanted to go.

The rules sit in a table of their own in this network namespace and act in ``prerouting`` only: connections that this
host opens itself, the proxy's own upstream ones above all, never pass there. TCP to the host's own addresses is left
alone.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import subprocess
from collections.abc import Iterator

from emulator.errors import CommandError, GatewayError, MissingCapability

SO_ORIGINAL_DST = 80
_INTERFACE = re.compile(r"[A-Za-z0-9_.@:-]{1,15}")
_SOCKADDR_IN = struct.Struct("!2xH4s8x")


def table_name(port: int) -> str:
    """Name of the nft table of the proxy that listens on *port*."""
    return f"icgw_proxy_{port}"


def _rule(port: int, ports: frozenset[int], interface: str | None) -> str:
    where = f'iifname "{interface}" ' if interface else ""
    wanted = ", ".join(str(number) for number in sorted(ports))
    return f"{where}fib daddr type != local tcp dport {{ {wanted} }} redirect to :{port}"


def ruleset(port: int, ports: frozenset[int], interface: str | None = None) -> str:
    """The nft commands that intercept, replacing what an earlier proxy on the same port left behind.

    Args:
        port: Where the proxy listens.
        ports: Destination ports that are intercepted.
        interface: Only packets that come in here; None: any.

    Raises:
        GatewayError: The interface's name could not be one.
    """
    if interface is not None and not _INTERFACE.fullmatch(interface):
        raise GatewayError(f"{interface!r} is not the name of an interface")
    name = table_name(port)
    return (
        f"add table ip {name}\n"
        f"delete table ip {name}\n"
        f"table ip {name} {{\n"
        f"  chain intercept {{\n"
        f"    type nat hook prerouting priority dstnat; policy accept;\n"
        f"    {_rule(port, ports, interface)}\n"
        f"  }}\n"
        f"}}\n"
    )


def _nft(*arguments: str, commands: str | None = None) -> None:
    argv = ["nft", *arguments]
    try:
        done = subprocess.run(argv, input=commands, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MissingCapability("nft", "install nftables") from None
    if done.returncode != 0:
        raise CommandError(argv, done.returncode, done.stderr)


@contextlib.contextmanager
def interception(port: int, ports: frozenset[int], interface: str | None = None) -> Iterator[None]:
    """Intercept while the context is entered; see `ruleset`.

    Raises:
        CommandError: nft refuses the rules.
        MissingCapability: There is no nft.
    """
    _nft("-f", "-", commands=ruleset(port, ports, interface))
    try:
        yield
    finally:
        _nft("delete", "table", "ip", table_name(port))


def stop_intercepting(port: int) -> None:
    """Let new connections pass by; those that were intercepted go on.

    The chain stays, and in it a rule that needs connection tracking: without the one the kernel stops translating
    addresses, without the other it stops tracking, and the packets of open connections would leave as the proxy's own.

    Raises:
        CommandError: nft refuses.
    """
    chain = f"ip {table_name(port)} intercept"
    _nft("-f", "-", commands=f"flush chain {chain}\nadd rule {chain} ct state established accept\n")


def original_destination(sock: socket.socket) -> tuple[str, int]:
    """Where an intercepted connection wanted to go.

    Raises:
        OSError: It was not intercepted.
    """
    port, address = _SOCKADDR_IN.unpack(sock.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, _SOCKADDR_IN.size))
    return socket.inet_ntoa(address), port
