"""When a schedule is over, message by message: what ranks, links and cards do is followed in the order of time.

Ranks do what `stages_of` says, as soon as they can. A link carries messages whole, in the order in which their first
frames come to it, as a queue does; a message begins on the next link a frame after it began on this one. A card adds up
messages in the order in which they came, one after the other. Things at the same moment happen in the order in which
they became possible.

A message that is larger than a connection's window leaves piece by piece, and so shares links with others.

So parts of a buffer that go their own ways get out of step: a card has something else to add when a message comes, a
link another part's message to carry, everybody behind waits, and each rank waits in another order. A model that goes
from step to step (`clocks`) cannot see that.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emulator.collectives.courses import Course
from emulator.collectives.messages import Messages, Stages, connection_orders
from emulator.collectives.schedule import Integers
from emulator.collectives.tables import Tables
from emulator.collectives.ways import Numbers

_PREPARED, _AT_LINK, _ARRIVED, _ACKNOWLEDGED, _ADDED = range(5)
_UNDER_WAY = 2
"""Pieces of a message that are under way at the same time."""
_MOST_PIECES = 8


@dataclass(frozen=True)
class Costs:
    """What messages cost.

    Attributes:
        courses: The way of each connection.
        rates: Bytes per ns of each link and direction.
        frame: Bytes of each message's first frame on the line.
        carried: Bytes of each message on the line, headers included.
        prepare_ns: From when each can be sent until it is.
        compute_ns: How long its target adds it up; 0: it takes no time.
        pieces: In how many pieces each leaves, see `pieces_of`.
    """

    courses: Sequence[Course]
    rates: Numbers
    frame: Numbers
    carried: Numbers
    prepare_ns: Numbers
    compute_ns: Numbers
    pieces: Integers


def pieces_of(sizes: Integers, window_bytes: int) -> Integers:
    """In how many pieces messages leave: two of them fill the window, unless they would be too many.

    Args:
        sizes: Of the messages, in bytes.
        window_bytes: What a connection may have under way; 0: there is no limit.
    """
    if not window_bytes:
        return np.ones_like(sizes)
    pieces = np.minimum(_MOST_PIECES, -(-_UNDER_WAY * sizes // window_bytes))
    return np.where(sizes > window_bytes, pieces, 1)


def follow(messages: Messages, stages: Stages, costs: Costs, rounds: int = 1) -> list[float]:
    """When the last rank has everything, in ns, round after round.

    Args:
        messages: What is sent.
        stages: In which order.
        costs: What it costs.
        rounds: How often; a rank begins the next one as soon as it is through with one.
    """
    return _Pursuit(messages, stages, costs, rounds).run()


class _Pursuit(Tables):
    def __init__(self, messages: Messages, stages: Stages, costs: Costs, rounds: int) -> None:
        super().__init__(messages, stages)
        self._rounds = rounds
        self._missing = self._sizes.copy()
        self._open = bytearray(len(self._sizes))
        self._rank: list[int] = np.repeat(np.arange(messages.ranks), np.diff(stages.of_rank)).tolist()
        self._courses = [course.hops for course in costs.courses]
        self._rates: list[float] = costs.rates.tolist()
        self._frame: list[float] = costs.frame.tolist()
        #: Of each piece.
        self._carried: list[float] = (costs.carried / costs.pieces).tolist()
        self._pieces: list[int] = costs.pieces.tolist()
        self._to_hand_over: dict[int, int] = {}
        self._to_come: dict[int, int] = {}
        self._prepare_ns: list[float] = costs.prepare_ns.tolist()
        self._compute_ns: list[float] = costs.compute_ns.tolist()
        #: Messages of each connection in their order, whose turn it is, and whether it can leave.
        self._orders = connection_orders(messages)
        self._turn = [0] * len(self._orders)
        self._ready = bytearray(len(messages))
        #: When each link has carried, and each card has added up, all that came so far.
        self._free = [0.0] * len(self._rates)
        self._busy = [0.0] * messages.ranks
        #: The round of each rank, stages that it has left in it, and how often each message came.
        self._round = [-1] * messages.ranks
        self._left = [0] * messages.ranks
        self._came = [0] * len(messages)
        self._early: set[tuple[int, int]] = set()
        self._through = [0] * rounds
        self._ends: list[float] = []
        self._todo: deque[int] = deque()
        self._now = 0.0
        #: What will happen: when, in which order at one moment, what, message, place on its way, end of it.
        self._events: list[tuple[float, int, int, int, int, float]] = []
        self._order = 0

    def run(self) -> list[float]:
        for rank in range(len(self._round)):
            self._begin_round(rank)
        self._go_on()
        while self._events:
            self._now, _, what, message, hop, end = heapq.heappop(self._events)
            if what == _ARRIVED:
                self._arrive(message)
            elif what == _ACKNOWLEDGED:
                self._hand_over(message)
            elif what == _ADDED:
                self._done(self._arrives_in[message])
            elif what == _AT_LINK:
                self._cross(message, hop, end)
            else:
                self._make_ready(message)
            self._go_on()
        return self._ends

    def _begin_round(self, rank: int) -> None:
        """Begin a rank's next round, or none if that was the last."""
        first, end = self._of_rank[rank], self._of_rank[rank + 1]
        while True:
            if self._round[rank] >= 0:
                self._end_round(self._round[rank])
            self._round[rank] += 1
            if self._round[rank] == self._rounds:
                return
            if first < end:
                break
        self._missing[first:end] = self._sizes[first:end]
        self._open[first:end] = bytes(end - first)
        self._left[rank] = end - first
        self._todo += self._opening[rank]

    def _end_round(self, number: int) -> None:
        self._through[number] += 1
        if self._through[number] == len(self._round):
            self._ends.append(self._now)

    def _happens(self, when: float, what: int, message: int, hop: int = 0, end: float = 0.0) -> None:
        self._order += 1
        heapq.heappush(self._events, (when, self._order, what, message, hop, end))

    def _go_on(self) -> None:
        """Begin all stages that can begin."""
        todo = self._todo
        while todo:
            stage = todo.popleft()
            messages = self._message[self._begins[stage] : self._begins[stage + 1]]
            if self._receives[stage]:
                self._open[stage] = 1
                its_round = self._round[self._rank[stage]]
                for message in messages:
                    if (message, its_round) in self._early:
                        self._early.remove((message, its_round))
                        self._take(message)
            else:
                for message in messages:
                    if self._prepare_ns[message]:
                        self._happens(self._now + self._prepare_ns[message], _PREPARED, message)
                    else:
                        self._make_ready(message)

    def _make_ready(self, message: int) -> None:
        """Let a message leave, and those behind it in its connection, if it is its turn."""
        self._ready[message] = 1
        connection = self._connection[message]
        self._leave(connection)

    def _leave(self, connection: int) -> None:
        order = self._orders[connection]
        while self._ready[order[self._turn[connection]]]:
            message = order[self._turn[connection]]
            self._ready[message] = 0
            pieces = self._pieces[message]
            for _ in range(min(pieces, _UNDER_WAY)):
                self._cross(message, 0, self._now)
            if pieces > 1:
                self._to_come[message] = pieces
            if pieces > _UNDER_WAY:
                self._to_hand_over[message] = pieces - _UNDER_WAY
                return
            self._left_behind(connection, message)

    def _left_behind(self, connection: int, message: int) -> None:
        """Note that a message is under way, so that it is the next one's turn."""
        self._turn[connection] = (self._turn[connection] + 1) % len(self._orders[connection])
        self._done(self._sends_in[message])

    def _hand_over(self, message: int) -> None:
        """Let the next piece of a message leave, if there is one."""
        left = self._to_hand_over.get(message, 0)
        if not left:
            return
        self._cross(message, 0, self._now)
        self._to_hand_over[message] = left - 1
        if left == 1:
            connection = self._connection[message]
            self._left_behind(connection, message)
            self._leave(connection)

    def _arrive(self, message: int) -> None:
        if self._pieces[message] > 1:
            back_ns = sum(delay_ns for _, delay_ns in self._courses[self._connection[message]])
            self._happens(self._now + back_ns, _ACKNOWLEDGED, message)
            self._to_come[message] -= 1
            if self._to_come[message]:
                return
        its_round, stage = self._came[message], self._arrives_in[message]
        self._came[message] += 1
        if its_round == self._round[self._target[message]] and self._open[stage]:
            self._take(message)
        else:
            self._early.add((message, its_round))

    def _cross(self, message: int, hop: int, end: float) -> None:
        """Let a message, whose first frame is at a link now and whose last one comes then, have its turn there."""
        hops = self._courses[self._connection[message]]
        links, delay_ns = hops[hop]
        now, free, rates = self._now, self._free, self._rates
        frame, carried = self._frame[message], self._carried[message]
        first = last = 0.0
        for link, share in links:
            frame_ns = frame / rates[link]
            begin = max(now, free[link])
            free[link] = over = begin + share * carried / rates[link]
            if hop:
                if end - now > over - begin:
                    # Frames come more slowly than the link could carry them: others' go in between, none has to wait.
                    begin = now
                over = max(over, end + frame_ns)
            first, last = max(first, begin + frame_ns), max(last, over)
        if hop + 1 == len(hops):
            self._happens(last + delay_ns, _ARRIVED, message)
        else:
            self._happens(first + delay_ns, _AT_LINK, message, hop + 1, last + delay_ns)

    def _take(self, message: int) -> None:
        if not self._compute_ns[message]:
            self._done(self._arrives_in[message])
            return
        rank = self._target[message]
        self._busy[rank] = max(self._busy[rank], self._now) + self._compute_ns[message]
        self._happens(self._busy[rank], _ADDED, message)

    def _done(self, stage: int) -> None:
        """Note that a message of a stage is through."""
        self._missing[stage] -= 1
        if self._missing[stage]:
            return
        if self._following[stage] >= 0:
            self._todo.append(self._following[stage])
        rank = self._rank[stage]
        self._left[rank] -= 1
        if not self._left[rank]:
            self._begin_round(rank)
