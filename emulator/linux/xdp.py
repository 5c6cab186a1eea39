"""A drop-all XDP program on an interface: what arrives there vanishes before anything in this kernel sees it.

The generic mode is used, which every interface has: packet sockets, queueing disciplines' ingress and Open vSwitch come
after it. So does nothing on the sending side: there the packet has left and is counted as sent.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct

from emulator.errors import MissingCapability
from emulator.linux.netlink import attribute

_LIBC = ctypes.CDLL(None, use_errno=True)
_SYS_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
_PROG_LOAD, _PROG_TYPE_XDP = 5, 6
_XDP_DROP = 1
_INSTRUCTION = struct.Struct("=BBhi")
_MOVE_IMMEDIATE, _EXIT = 0xB7, 0x95

_IFINFO = struct.Struct("=BxHiII")
_IFLA_XDP, _NESTED = 43, 0x8000
_IFLA_XDP_FD, _IFLA_XDP_FLAGS = 1, 3
_SKB_MODE = 1 << 1


def load_drop_all() -> int:
    """Load the program and return its descriptor, which the caller closes; where it is attached it stays.

    Raises:
        MissingCapability: The kernel has no BPF system call, or this process may not use it.
    """
    number = _SYS_BPF.get(platform.machine())
    if number is None:
        raise MissingCapability("BPF", f"its system call number on {platform.machine()} is not known here")
    # r0 = XDP_DROP; exit
    code = ctypes.create_string_buffer(
        _INSTRUCTION.pack(_MOVE_IMMEDIATE, 0, 0, _XDP_DROP) + _INSTRUCTION.pack(_EXIT, 0, 0, 0)
    )
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    # union bpf_attr: type, instruction count, instructions, licence, and zeros up to what old kernels know.
    attributes = ctypes.create_string_buffer(
        struct.pack("=IIQQ", _PROG_TYPE_XDP, 2, ctypes.addressof(code), ctypes.addressof(licence)) + bytes(24)
    )
    descriptor: int = _LIBC.syscall(number, _PROG_LOAD, attributes, len(attributes) - 1)
    if descriptor < 0:
        error = ctypes.get_errno()
        remedy = "run as root" if error == errno.EPERM else "use a kernel with CONFIG_BPF_SYSCALL"
        raise MissingCapability("XDP programs", f"{remedy} ({os.strerror(error)})")
    return descriptor


def attach_body(interface_index: int, descriptor: int) -> bytes:
    """Body of RTM_SETLINK that attaches a program to an interface, in generic mode; descriptor -1 takes it off."""
    header = _IFINFO.pack(socket.AF_UNSPEC, 0, interface_index, 0, 0)
    nested = attribute(_IFLA_XDP_FD, struct.pack("=i", descriptor))
    nested += attribute(_IFLA_XDP_FLAGS, struct.pack("=I", _SKB_MODE))
    return header + attribute(_IFLA_XDP | _NESTED, nested)
