"""When Open vSwitch looks at its cached flows again, in virtual time.

A thread of its daemon, the revalidator, carries what rules, groups and ports have become over to the flows that the
datapath caches; after each round it rests for 5 ms, whatever happens meanwhile. In a network of machines each switch
has a daemon of its own, so what a switch is told first acts at once. Here all switches share one daemon: the round for
the first port that went down would keep all other switches waiting that are told something at the same instant.

So the revalidator goes last: it runs when nothing else does, and that is before the clock moves on. One round then
carries over all that happened at an instant.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_NAME = "revalidator"


def go_last(daemon: int) -> None:
    """Let a daemon's revalidators run only when nothing else does; those that it starts later are not affected.

    Args:
        daemon: Process number of ``ovs-vswitchd``.
    """
    tasks = Path(f"/proc/{daemon}/task")
    with suppress(OSError):  # a daemon or thread that ends meanwhile needs nothing
        for task in tasks.iterdir():
            if (task / "comm").read_text(encoding="utf-8").startswith(_NAME):
                os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))
