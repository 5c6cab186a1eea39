"""Polling a queue from the process that receives from it (preferred busy polling), while much arrives.

By itself the kernel polls a queue in a soft interrupt or a thread, as packets come. Where that shares a processor with
the process that forwards them, both interrupt each other all the time, and more is received than can be forwarded. So
while batches are large, receiving polls the queue itself, as far as there is room, and the kernel is kept from doing
so: the queue's interrupt stays off, and a timer, which runs out only if this process is stuck, would bring it back.
When little arrives any more, everything is as it was before.

Sockets poll a queue whose number they know, but an AF_XDP socket on veth does not learn it (since Linux 6.13). An
io_uring takes it from whoever knows it, and polls while it waits for completions, of which there never are any here.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct

from emulator.errors import MissingCapability
from gateway.rings.napi import NapiControl, NapiSettings

MANY, LITTLE = 128, 32
"""Some batches of so many frames in a row begin it, and one of fewer than that ends it."""
IN_A_ROW = 8
SPELL_NS = 50_000
"""How long one call polls."""
FEW = 50
"""A spell that brings fewer frames has found the queue empty: a batch is not waited for."""

KEPT_OFF = NapiSettings(1, 5_000_007)
"""While it lasts. No other has quite this time, so what a killed process left is recognized."""
_YIELDS = 40
_AT_FIRST = NapiSettings(0, 0)
_IO_URING_SETUP, _IO_URING_ENTER, _IO_URING_REGISTER = 425, 426, 427
_GETEVENTS, _EXT_ARG = 1, 8
_REGISTER_NAPI, _BY_NUMBER, _ADD = 27, 1, 1
_PARAMETERS_BYTES = 120
_NAPI = struct.Struct("=IBBHIQ")
_TIME = struct.Struct("=qq")
_ARGUMENT = struct.Struct("=QIIQ")
_LONGEST_US = 10_000
_libc = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    result: int = _libc.syscall(ctypes.c_long(number), *arguments)
    return result


class BusyPoll:
    """Whether, and how, the queue of an interface is polled by who receives from it.

    Args:
        interface_index: The interface, in the network namespace of the calling thread.
        queue: Which of its queues.

    Attributes:
        active: It is now.
        begun: How often it began.
        yields: How often the kernel's thread may still be let run, for it to let go of the queue.

    Raises:
        MissingCapability: The kernel cannot do this.
    """

    def __init__(self, interface_index: int, queue: int) -> None:
        self._index, self._queue = interface_index, queue
        self._before = _AT_FIRST
        self._napi = 0
        self._refused = False
        self.active = False
        self.begun = self.yields = self._in_a_row = 0
        self._ring = _call(_IO_URING_SETUP, ctypes.c_uint(1), ctypes.create_string_buffer(_PARAMETERS_BYTES))
        if self._ring < 0:
            reason = os.strerror(ctypes.get_errno())
            raise MissingCapability("busy polling", f"the kernel has no io_uring for this process ({reason})")
        try:
            self._control = NapiControl()
        except OSError as error:
            os.close(self._ring)
            raise MissingCapability("busy polling", f"it needs Linux 6.13 ({error.strerror})") from None
        self._spell, self._moment = (_Wait(time_ns) for time_ns in (SPELL_NS, 0))

    def received(self, frames: int) -> None:
        """Begin or end, by how many frames the last batch had."""
        if self.active:
            if frames < LITTLE:
                self._in_a_row = 0
                self.end()
        elif frames:
            # Between two batches nothing waits if it is a thread on the same processor that brings them.
            self._in_a_row = self._in_a_row + 1 if frames >= MANY else 0
            if self._in_a_row >= IN_A_ROW:
                self.begin()

    def begin(self) -> None:
        """Poll from now on, unless the kernel does not let us: then never."""
        if self._refused:
            return
        try:
            # The program that brings packets here may have made the queue's poll loop anew since last time.
            self._napi = self._control.of_queue(self._index, self._queue)
            before = self._control.read(self._napi)
            self._before = _AT_FIRST if before == KEPT_OFF else before
            self._register(prefer=1)
            self._control.write(self._napi, KEPT_OFF)
            self.active = True
            self.begun += 1
            self.yields = _YIELDS
        except OSError:
            self._refused = True
            self.end()

    def poll(self) -> None:
        """For a spell, or shorter if something else has to run."""
        self._spell.wait(self._ring)

    def end(self) -> None:
        """Leave it to the kernel again."""
        if not self.active:
            return
        self.active = False
        with contextlib.suppress(OSError):
            self._control.write(self._napi, self._before)
            # One more poll, not preferred to interrupts: it switches them on.
            self._register(prefer=0)
            self._moment.wait(self._ring)

    def _register(self, prefer: int) -> None:
        for request in (
            _NAPI.pack(_LONGEST_US, prefer, 0, 0, _BY_NUMBER, 0),
            _NAPI.pack(0, 0, _ADD, 0, self._napi, 0),
        ):
            buffer = ctypes.create_string_buffer(request, len(request))
            if _call(_IO_URING_REGISTER, self._ring, ctypes.c_uint(_REGISTER_NAPI), buffer, ctypes.c_uint(1)) < 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))

    def as_json(self) -> dict[str, int]:
        """How it is, as plain data."""
        return {"active": self.active, "refused": self._refused, "begun": self.begun}

    def close(self) -> None:
        """Leave it to the kernel for ever."""
        self.end()
        self._control.close()
        os.close(self._ring)


def is_possible() -> bool:
    """Whether the kernel lets this process poll queues."""
    try:
        BusyPoll(0, 0).close()
    except MissingCapability:
        return False
    return True


class _Wait:
    """The argument of a call that waits for completions no longer than a time."""

    def __init__(self, time_ns: int) -> None:
        time = _TIME.pack(*divmod(time_ns, 10**9))
        self._time = ctypes.create_string_buffer(time, len(time))
        argument = _ARGUMENT.pack(0, 0, 0, ctypes.addressof(self._time))
        self._argument = ctypes.create_string_buffer(argument, len(argument))
        self._rest = (
            *map(ctypes.c_uint, (0, 1, _GETEVENTS | _EXT_ARG)),
            self._argument,
            ctypes.c_size_t(_ARGUMENT.size),
        )

    def wait(self, ring: int) -> None:
        """The call, which polls meanwhile. It always ends by its time, or by a signal, which Python handles later."""
        if _call(_IO_URING_ENTER, ring, *self._rest) < 0 and ctypes.get_errno() not in (errno.ETIME, errno.EINTR):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
