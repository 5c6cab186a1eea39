"""BPF maps, read and written in batches as numpy arrays."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.errors import GatewayError
from gateway.offload.libbpf import batch_options, checked, library, map_sizes

_CHUNK = 4096

Array = npt.NDArray[Any]


def _at(array: Array, offset: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + offset)


class BpfMap:
    """A map of the kernel.

    Args:
        fd: Its descriptor; the map does not close it.
        key: Type of a key.
        value: Type of a value; of one processor's for maps that have one each.
        cpus: Processors that have a value each for every key; None: there is one value for all.
    """

    def __init__(self, fd: int, key: npt.DTypeLike, value: npt.DTypeLike, cpus: int | None = None) -> None:
        self.fd = fd
        self.key = np.dtype(key)
        self.value = np.dtype(value)
        self.cpus = cpus
        self._lib = library()
        sizes = map_sizes(fd)
        if sizes != (self.key.itemsize, self.value.itemsize):
            raise GatewayError(f"a BPF map has keys and values of {sizes} bytes, not {self.key} and {self.value}")

    def _values(self, count: int) -> Array:
        return np.zeros(count if self.cpus is None else (count, self.cpus), dtype=self.value)

    def get(self, key: Any) -> Any:
        """One value, or None."""
        keys, values = np.array([key], dtype=self.key), self._values(1)
        result = self._lib.bpf_map_lookup_elem(self.fd, _at(keys), _at(values))
        if result == -errno.ENOENT:
            return None
        checked(result, "cannot read a BPF map")
        return values[0]

    def put(self, key: Any, value: Any) -> bool:
        """Write one value; False if the map has no room for it.

        Raises:
            GatewayError: The kernel refuses for another reason.
        """
        keys, values = np.array([key], dtype=self.key), np.array([value], dtype=self.value)
        result = self._lib.bpf_map_update_elem(self.fd, _at(keys), _at(values), ctypes.c_uint64(0))
        if result in (-errno.E2BIG, -errno.EEXIST, -errno.ENOENT, -errno.ENOMEM):
            return False
        checked(result, "cannot write a BPF map")
        return True

    def put_all(self, keys: Array, values: Array) -> int:
        """Write many; how many of them, from the first, before the kernel refused one."""
        keys, values = np.ascontiguousarray(keys), np.ascontiguousarray(values)
        count = ctypes.c_uint32(len(keys))
        if not len(keys):
            return 0
        options = batch_options()
        result = self._lib.bpf_map_update_batch(self.fd, _at(keys), _at(values), ctypes.byref(count), options)
        if result == 0:
            return len(keys)
        if result not in (-errno.E2BIG, -errno.EEXIST, -errno.ENOENT, -errno.ENOMEM):
            raise GatewayError(f"cannot write a BPF map: {os.strerror(-result)}")
        return count.value

    def delete(self, key: Any) -> bool:
        """Remove one entry; whether it was there."""
        keys = np.array([key], dtype=self.key)
        result = self._lib.bpf_map_delete_elem(self.fd, _at(keys))
        if result == -errno.ENOENT:
            return False
        checked(result, "cannot remove from a BPF map")
        return True

    def delete_all(self, keys: Array) -> None:
        """Remove many; those that are not there are passed over."""
        keys = np.ascontiguousarray(keys)
        done = 0
        while done < len(keys):
            count = ctypes.c_uint32(len(keys) - done)
            at = _at(keys, done * self.key.itemsize)
            result = self._lib.bpf_map_delete_batch(self.fd, at, ctypes.byref(count), batch_options())
            if result == 0:
                return
            if result != -errno.ENOENT:
                checked(result, "cannot remove from a BPF map")
            done += count.value + 1

    def all(self) -> tuple[Array, Array]:
        """All keys and values, a few thousand with each system call.

        What is added or removed meanwhile may be missed or seen.
        """
        keys: list[Array] = []
        values: list[Array] = []
        # The kernel's own mark of how far it got: a bucket's number, or a key.
        mark = np.zeros(max(8, self.key.itemsize), dtype=np.uint8)
        first = True
        chunk = _CHUNK
        while True:
            some_keys, some_values = np.zeros(chunk, dtype=self.key), self._values(chunk)
            count = ctypes.c_uint32(chunk)
            result = self._lib.bpf_map_lookup_batch(
                self.fd,
                None if first else _at(mark),
                _at(mark),
                _at(some_keys),
                _at(some_values),
                ctypes.byref(count),
                batch_options(),
            )
            if result == -errno.ENOSPC:
                chunk *= 2  # a bucket of the hash is longer than that
                continue
            if result not in (0, -errno.ENOENT):
                checked(result, "cannot read a BPF map")
            keys.append(some_keys[: count.value])
            values.append(some_values[: count.value])
            first = False
            if result == -errno.ENOENT:
                # Joining makes numbers of other machines' byte order native ones; the types are to be as they were.
                return (
                    np.concatenate(keys).astype(self.key, copy=False),
                    np.concatenate(values).astype(self.value, copy=False),
                )
