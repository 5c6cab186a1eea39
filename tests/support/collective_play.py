"""Carries out schedules without sockets, in an order of events that is somebody else's choice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from emulator.collectives import Schedule
from emulator.collectives.cost import schedule_edges
from emulator.collectives.messages import Messages, messages_of, stages_of
from emulator.collectives.payload import DATA_TYPES, payload
from emulator.workloads.collective.buffers import Buffers


def play(
    schedule: Schedule,
    size_bytes: int,
    choose: Callable[[int], int],
    datatype: str = "float",
    operation: str = "sum",
    damage: Callable[[int, np.ndarray[Any, Any]], None] = lambda _message, _numbers: None,
) -> tuple[int, int, Messages]:
    """Do a collective once.

    Args:
        schedule: What is done.
        size_bytes: Of the buffer.
        choose: Picks one of so many things that can be done next.
        datatype, operation: Of the numbers.
        damage: Is given each message on its way.

    Returns:
        Numbers that are wrong in the end, messages that were never taken in, and all messages.
    """
    kind = DATA_TYPES[datatype]
    edges = schedule_edges(schedule, size_bytes, kind.dtype.itemsize)
    messages = messages_of(schedule, edges)
    stages = stages_of(messages)
    numbers = payload(schedule, edges, datatype, operation, seed=7)
    buffers = Buffers(schedule, messages, edges // kind.dtype.itemsize, numbers)
    for rank in range(schedule.ranks):
        buffers.begin(rank)
    missing = np.diff(stages.messages)
    open_stages = set(stages.opening.tolist())
    orders: dict[int, deque[int]] = {}
    for message, connection in enumerate(messages.connection.tolist()):
        orders.setdefault(connection, deque()).append(message)
    arriving: dict[int, deque[tuple[int, Any]]] = {connection: deque() for connection in orders}
    taken = 0

    def done(stage: int) -> None:
        missing[stage] -= 1
        if not missing[stage]:
            open_stages.remove(stage)
            if stages.following[stage] >= 0:
                open_stages.add(int(stages.following[stage]))

    while True:
        sends = [c for c, order in orders.items() if order and int(stages.sends_in[order[0]]) in open_stages]
        takes = [c for c, way in arriving.items() if way and int(stages.arrives_in[way[0][0]]) in open_stages]
        if not sends and not takes:
            break
        chosen = choose(len(sends) + len(takes))
        if chosen < len(sends):
            message = orders[sends[chosen]].popleft()
            rank = int(messages.source[message])
            sent = np.concatenate([part.copy() for part in buffers.outgoing(rank, message)])
            damage(message, sent)
            arriving[sends[chosen]].append((message, sent))
            if messages.last_use[message]:
                buffers.forget(rank, message)
            done(int(stages.sends_in[message]))
        else:
            message, came = arriving[takes[chosen - len(sends)]].popleft()
            take = buffers.add if messages.reduce[message] else buffers.replace
            take(int(messages.target[message]), message, came)
            taken += 1
            done(int(stages.arrives_in[message]))
    wrong = sum(buffers.wrong(rank) for rank in range(schedule.ranks))
    return wrong, len(messages) - taken, messages
