"""The part of libbpf that is needed, by ctypes: loading objects, attaching XDP programs, pinning, and maps.

libbpf does what would be folly to do again: it relocates, creates maps with their types, and asks the kernel's
verifier, whose log is in the error if it refuses.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator.errors import GatewayError, MissingCapability

_LOG_BYTES = 1 << 20
_SHOWN_LINES = 12

XDP_FLAGS_UPDATE_IF_NOEXIST = 1 << 0
XDP_FLAGS_SKB_MODE = 1 << 1
XDP_FLAGS_DRV_MODE = 1 << 2
XDP_FLAGS_REPLACE = 1 << 4
_BPF_XDP = 37

_PRINTER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_WARNING = 0


class VerifierError(GatewayError):
    """The kernel refuses a program.

    Args:
        program: Its name.
        reason: What the system call said.
        log: What the verifier said; the end of it is shown.
    """

    def __init__(self, program: str, reason: str, log: str) -> None:
        super().__init__(program, reason, log)
        self.program = program
        self.reason = reason
        self.log = log

    def __str__(self) -> str:
        lines = [line for line in self.log.splitlines() if line.strip()]
        shown = "".join(f"\n    {line}" for line in lines[-_SHOWN_LINES:])
        return f"the kernel refuses the program {self.program}: {self.reason}{shown}"


class _OneOption(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("value", ctypes.c_int))


class _BatchOptions(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("element_flags", ctypes.c_uint64), ("flags", ctypes.c_uint64))


class _Library:
    """libbpf, opened when it is first needed; its messages are kept instead of printed."""

    def __init__(self) -> None:
        try:
            self.handle = ctypes.CDLL("libbpf.so.1", use_errno=True)
        except OSError:
            raise MissingCapability("libbpf 1", "run 'make setup', which installs it") from None
        self.messages: list[str] = []
        self._libc = ctypes.CDLL(None)
        self._printer = _PRINTER(self._keep)
        self.handle.libbpf_set_print(self._printer)
        for name in (
            "bpf_object__open_file",
            "bpf_object__find_map_by_name",
            "bpf_object__find_program_by_name",
            "bpf_map__initial_value",
        ):
            getattr(self.handle, name).restype = ctypes.c_void_p

    def _keep(self, level: int, template: bytes, arguments: int) -> int:
        if level == _WARNING:
            text = ctypes.create_string_buffer(1024)
            # On x86_64 a va_list is handed over as a pointer.
            self._libc.vsnprintf(text, len(text), template, ctypes.c_void_p(arguments))
            self.messages.append(text.value.decode(errors="replace").removeprefix("libbpf: ").strip())
        return 0


_library: _Library | None = None


def library() -> Any:
    """The opened library.

    Raises:
        MissingCapability: It is not installed.
    """
    return _opened().handle


def _opened() -> _Library:
    global _library
    if _library is None:
        _library = _Library()
    return _library


def checked(result: int, what: str) -> int:
    """The result of one of libbpf's functions, if it is not an error.

    Raises:
        GatewayError: It is one.
    """
    if result < 0:
        raise GatewayError(f"{what}: {os.strerror(-result)}")
    return result


class BpfObject:
    """A compiled object, loaded into the kernel; closing it leaves alone what is pinned or attached.

    Args:
        path: The object's file.
        programs: Names of its programs.
        entries: Sizes of maps by name, where they differ from the source.
        reuse: Descriptors of maps by name that exist already and are to be used instead of new ones.
        settings: The bytes of its read-only data, where they differ from the source.

    Raises:
        VerifierError: The kernel refuses a program.
        GatewayError: It cannot be loaded for another reason.
    """

    def __init__(
        self,
        path: Path,
        programs: tuple[str, ...],
        *,
        entries: Mapping[str, int] | None = None,
        reuse: Mapping[str, int] | None = None,
        settings: bytes = b"",
    ) -> None:
        opened = _opened()
        self._lib = opened.handle
        opened.messages.clear()
        self._object = ctypes.c_void_p(self._lib.bpf_object__open_file(os.fsencode(path), None))
        if not self._object:
            raise GatewayError(f"{path} is not a BPF object: {os.strerror(ctypes.get_errno())}")
        try:
            for name, fd in (reuse or {}).items():
                checked(self._lib.bpf_map__reuse_fd(self._map(name), fd), f"the map {name} of before is not usable")
            for name, count in (entries or {}).items():
                if name not in (reuse or {}):
                    checked(self._lib.bpf_map__set_max_entries(self._map(name), count), f"size of the map {name}")
            if settings:
                self._set(settings)
            self._load(programs)
        except BaseException:
            self.close()
            raise

    def _set(self, settings: bytes) -> None:
        size = ctypes.c_size_t()
        at = self._lib.bpf_map__initial_value(self._map(".rodata"), ctypes.byref(size))
        if not at or size.value < len(settings):
            raise GatewayError("the BPF object has no room for its settings")
        ctypes.memmove(at, settings, len(settings))

    def _load(self, programs: tuple[str, ...]) -> None:
        logs = {}
        for name in programs:
            logs[name] = log = ctypes.create_string_buffer(_LOG_BYTES)
            self._lib.bpf_program__set_log_buf(self._program(name), log, ctypes.c_size_t(_LOG_BYTES))
        result = self._lib.bpf_object__load(self._object)
        if result < 0:
            said = {name: log.value.decode(errors="replace") for name, log in logs.items()}
            refused = next((name for name, text in said.items() if text.strip()), None)
            if refused is not None:
                raise VerifierError(refused, os.strerror(-result), said[refused])
            if -result in (errno.EPERM, errno.EACCES):
                raise MissingCapability("the right to load BPF programs", "run as root")
            messages = "; ".join(_opened().messages[-3:])
            raise GatewayError(f"the BPF object cannot be loaded: {os.strerror(-result)}; {messages}")

    def _map(self, name: str) -> ctypes.c_void_p:
        found = self._lib.bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise GatewayError(f"the BPF object has no map {name}")
        return ctypes.c_void_p(found)

    def _program(self, name: str) -> ctypes.c_void_p:
        found = self._lib.bpf_object__find_program_by_name(self._object, name.encode())
        if not found:
            raise GatewayError(f"the BPF object has no program {name}")
        return ctypes.c_void_p(found)

    def map_fd(self, name: str) -> int:
        """Descriptor of a map, the object's own."""
        return checked(self._lib.bpf_map__fd(self._map(name)), f"the map {name}")

    def program_fd(self, name: str) -> int:
        """Descriptor of a program, the object's own."""
        return checked(self._lib.bpf_program__fd(self._program(name)), f"the program {name}")

    def close(self) -> None:
        """Close all descriptors."""
        if self._object:
            self._lib.bpf_object__close(self._object)
            self._object = ctypes.c_void_p()


def pin(fd: int, path: Path) -> None:
    """Give a map or program a name in a BPF file system; as long as it is there it lives."""
    checked(library().bpf_obj_pin(fd, os.fsencode(path)), f"cannot pin {path}")


def get_pinned(path: Path) -> int:
    """A new descriptor of what was pinned.

    Raises:
        GatewayError: There is nothing, or not in a BPF file system.
    """
    return checked(library().bpf_obj_get(os.fsencode(path)), f"{path} is not a pinned BPF object")


def attach_xdp(interface_index: int, fd: int, flags: int, replaces: int | None = None) -> int:
    """Attach a program to an interface (fd -1: take it off); 0, or a negative error number.

    Args:
        interface_index: The interface, in this network namespace.
        fd: The program.
        flags: The mode.
        replaces: Descriptor of the program that is there now; the kernel refuses if another is. None: none is.
    """
    options = _OneOption(ctypes.sizeof(_OneOption), -1 if replaces is None else replaces)
    if replaces is None:
        return int(library().bpf_xdp_attach(interface_index, fd, flags | XDP_FLAGS_UPDATE_IF_NOEXIST, None))
    flags |= XDP_FLAGS_REPLACE
    return int(library().bpf_xdp_attach(interface_index, fd, flags, ctypes.byref(options)))


def link_xdp(interface_index: int, fd: int, flags: int) -> int:
    """Attach a program to an interface that has none for as long as a descriptor is open: that, or a negative error.

    Args:
        interface_index: The interface, in this network namespace.
        fd: The program.
        flags: The mode.
    """
    options = _OneOption(ctypes.sizeof(_OneOption), flags)
    return int(library().bpf_link_create(fd, interface_index, _BPF_XDP, ctypes.byref(options)))


def attached_xdp(interface_index: int, flags: int = 0) -> int:
    """Number of the program that is attached to an interface; 0: none."""
    number = ctypes.c_uint32()
    checked(library().bpf_xdp_query_id(interface_index, flags, ctypes.byref(number)), "cannot ask for XDP programs")
    return number.value


class _MapInfo(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("kind", "number", "key_size", "value_size", "entries"))


class _ProgramInfo(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_uint32), ("number", ctypes.c_uint32))


def _info(fd: int, structure: Any) -> Any:
    size = ctypes.c_uint32(ctypes.sizeof(structure))
    checked(library().bpf_obj_get_info_by_fd(fd, ctypes.byref(structure), ctypes.byref(size)), "no BPF object")
    return structure


def map_sizes(fd: int) -> tuple[int, int]:
    """Bytes of a map's key and of one value."""
    info = _info(fd, _MapInfo())
    return int(info.key_size), int(info.value_size)


def map_entries(fd: int) -> int:
    """Most entries that a map has."""
    return int(_info(fd, _MapInfo()).entries)


def program_number(fd: int) -> int:
    """The kernel's number of a program."""
    return int(_info(fd, _ProgramInfo()).number)


def possible_cpus() -> int:
    """Processors that the kernel keeps values for in maps that have one each."""
    return checked(library().libbpf_num_possible_cpus(), "number of processors")


def batch_options() -> Any:
    """Options of the batch functions: none."""
    return ctypes.byref(_BatchOptions(ctypes.sizeof(_BatchOptions), 0, 0))
