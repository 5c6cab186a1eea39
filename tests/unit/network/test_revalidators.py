"""Tests of which threads of a daemon run last."""

from __future__ import annotations

import ctypes
import os
import threading

from emulator.network.revalidators import go_last

_PR_SET_NAME = 15


def test_only_revalidators_go_last() -> None:
    """Of this process's threads the one that is called as Open vSwitch's are gets another policy, and no other.

    Verify: a process that has ended is no error.
    """
    libc, policies, named, end = ctypes.CDLL(None), {}, threading.Barrier(3), threading.Barrier(3)

    def run(name: str) -> None:
        libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
        named.wait()
        end.wait()
        policies[name] = os.sched_getscheduler(0)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("revalidator7", "handler3")]
    for thread in threads:
        thread.start()
    named.wait()
    go_last(os.getpid())
    end.wait()
    for thread in threads:
        thread.join()
    assert policies == {"revalidator7": os.SCHED_IDLE, "handler3": os.SCHED_OTHER}
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    go_last(2**22 + 1)
