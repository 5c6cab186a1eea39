"""Carries out a schedule: one loop that waits for sockets and timers, and does for all ranks what has become possible.

Ranks know nothing of each other but what arrives. Each begins the next round as soon as its own part of one is over,
as programs do that call a collective again and again.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from contextlib import suppress

from emulator.collectives.messages import Messages, Stages
from emulator.collectives.tables import Tables
from emulator.errors import WorkloadError
from emulator.linux.epoll import Poller
from emulator.workloads.collective.buffers import Buffers, Numbers
from emulator.workloads.collective.ends import Receiver, Sender, ends_of
from emulator.workloads.collective.links import Links
from emulator.workloads.collective.outcome import PATIENCE_NS, Outcome, broken, stalled
from emulator.workloads.collective.work import Work

_USUAL_BYTES = 1 << 62
"""Let a reader be woken as usual."""


class Execution(Tables):
    """A schedule that can be carried out again and again over the same connections.

    Args:
        messages: What is sent.
        stages: In which order.
        buffers: The numbers.
        links: The connections.
        work: What cards compute.
        buffer_bytes: Of each socket.
        names: Of each rank, for messages.
        what: Workload, for messages.
    """

    def __init__(
        self,
        messages: Messages,
        stages: Stages,
        buffers: Buffers,
        links: Links,
        work: Work,
        buffer_bytes: int,
        names: Sequence[str],
        what: str,
    ) -> None:
        super().__init__(messages, stages)
        self._buffers, self._work, self._names, self._what = buffers, work, names, what
        self._missing = self._sizes.copy()
        self._open = bytearray(len(self._sizes))
        self._ready = bytearray(len(messages))
        #: When the last rank was through with each round so far, and numbers that were wrong, in the last run.
        self.round_ends_ns: list[int] = []
        self._round = [0] * self._ranks
        self._left = [0] * self._ranks
        self._early: dict[tuple[int, int], Numbers] = {}
        self._todo: list[int] = []
        sizes = [items * buffers.item_bytes for items in buffers.items]
        self._senders, receivers = ends_of(messages, sizes, links, buffer_bytes)
        ends: list[Sender | Receiver] = [*self._senders, *receivers]
        self._by_descriptor = {one.socket.fileno(): one for one in ends}
        self._receivers_of: list[list[Receiver]] = [[] for _ in range(self._ranks)]
        for one in receivers:
            self._receivers_of[one.rank].append(one)

    def run(self, rounds: int, patience_ns: int = PATIENCE_NS) -> Outcome:
        """Do the collective some times, each rank beginning the next one when it is through with one.

        Args:
            rounds: How often.
            patience_ns: For how long nothing may happen. What is over by then stands in `round_ends_ns`.

        Raises:
            WorkloadError: A connection broke, or nothing happens any more.
        """
        self._rounds = rounds
        self.wrong = 0
        self._ends_ns = [0] * self._ranks
        self._running = self._ranks
        self._patience_ns = patience_ns
        self._through = [0] * rounds
        self.round_ends_ns = []
        self._work.clear()
        self._now_ns = start_ns = time.monotonic_ns()
        self._looked = True
        with Poller() as poll:
            self._poll = poll
            for receivers in self._receivers_of:
                for one in receivers:
                    one.round, one.paused = 0, False
                    poll.register(one.socket.fileno(), select.EPOLLIN)
            for rank in range(self._ranks):
                self._round[rank] = -1
                self._begin_round(rank)
            self._go_on()
            while self._running:
                self._wait()
        return Outcome(start_ns, tuple(self._ends_ns), self.wrong)

    def _wait(self) -> None:
        """Wait until something happens, and do what has become possible."""
        due_ns = self._work.next_ns
        if due_ns is None:
            descriptors = self._poll.wait(self._patience_ns)
            if not descriptors:
                raise self._stalled()
        else:
            descriptors = self._poll.wait(due_ns - time.monotonic_ns())
        self._looked = False
        for descriptor in descriptors:
            end = self._by_descriptor[descriptor]
            if isinstance(end, Receiver):
                self._read(end)
            else:
                end.blocked = False
                self._send(end)
        if due_ns is not None:
            self._end_work()
        self._go_on()

    def _now(self) -> int:
        """The time since the loop last waited; looking at the clock is dear, and no time passes meanwhile."""
        if not self._looked:
            self._looked = True
            self._now_ns = time.monotonic_ns()
        return self._now_ns

    def _begin_round(self, rank: int) -> None:
        """Begin a rank's next round, or none if that was the last."""
        while True:
            if self._round[rank] >= 0:
                self._end_round(self._round[rank])
            self._round[rank] += 1
            if self._round[rank] == self._rounds:
                self._ends_ns[rank] = self._now()
                self._running -= 1
                return
            first, end = self._of_rank[rank], self._of_rank[rank + 1]
            self._buffers.begin(rank)
            for one in self._receivers_of[rank]:
                if one.paused:
                    one.paused = False
                    self._poll.modify(one.socket.fileno(), select.EPOLLIN)
            if first < end:
                self._missing[first:end] = self._sizes[first:end]
                self._open[first:end] = bytes(end - first)
                self._left[rank] = end - first
                self._todo += self._opening[rank]
                return
            self.wrong += self._buffers.wrong(rank)

    def _end_round(self, number: int) -> None:
        """Note that a rank is through with a round."""
        self._through[number] += 1
        if self._through[number] == self._ranks:
            self.round_ends_ns.append(self._now())

    def _go_on(self) -> None:
        """Begin all stages that can begin, and those that can begin because of them."""
        todo = self._todo
        while todo:
            stage = todo.pop()
            messages = self._message[self._begins[stage] : self._begins[stage + 1]]
            if self._receives[stage]:
                self._open[stage] = 1
                rank_round = self._round[self._target[messages[0]]]
                for message in messages:
                    early = self._early.pop((message, rank_round), None)
                    if early is not None:
                        self._take(message, early)
            else:
                for message in messages:
                    if not self._work.computes or not self._prepare(message):
                        self._make_ready(message)

    def _prepare(self, message: int) -> bool:
        size = self._buffers.items[message] * self._buffers.item_bytes
        return self._work.prepare(self._source[message], message, size, self._now())

    def _make_ready(self, message: int) -> None:
        self._ready[message] = 1
        sender = self._senders[self._connection[message]]
        if not sender.blocked:
            self._send(sender)

    def _send(self, sender: Sender) -> None:
        """Hand to the kernel what it takes of the messages whose turn it is."""
        order = sender.order
        while not sender.blocked:
            message = order[sender.following]
            if not sender.left:
                if not self._ready[message]:
                    return
                parts = self._buffers.outgoing(self._source[message], message)
                sender.left = [memoryview(part.data).cast("B") for part in parts]
            try:
                all_taken = sender.push()
            except OSError as error:
                raise self._broken(message, error) from error
            if not all_taken:
                self._wait_for_room(sender)
                return
            self._ready[message] = 0
            sender.following = (sender.following + 1) % len(order)
            if self._last_use[message]:
                self._buffers.forget(self._source[message], message)
            self._done(self._sends_in[message])

    def _wait_for_room(self, sender: Sender) -> None:
        sender.blocked = True
        with suppress(FileExistsError):  # it is waited for from the first time on, whenever there is room again
            self._poll.register(sender.socket.fileno(), select.EPOLLOUT | select.EPOLLET)

    def _read(self, end: Receiver) -> None:
        """Take what is there of the next message."""
        message = end.order[end.following]
        if end.numbers is None:
            end.numbers = self._buffers.room(message)
            end.view = memoryview(end.numbers.data).cast("B")
        try:
            got = end.socket.recv_into(end.view)
        except BlockingIOError:
            return
        except OSError as error:
            raise self._broken(message, error) from error
        if not got:
            raise self._broken(message, None)
        if got < len(end.view):
            end.view = end.view[got:]
            end.wake_at(len(end.view))
            return
        arrived, end.numbers = end.numbers, None
        end.wake_at(_USUAL_BYTES)
        its_round = end.round
        end.following += 1
        if end.following == len(end.order):
            end.following = 0
            end.round += 1
        if its_round == self._round[end.rank] and self._open[self._arrives_in[message]]:
            self._take(message, arrived)
        else:
            self._early[message, its_round] = arrived
        if end.round > self._round[end.rank] + 1:
            # Who sends without waiting for anybody must not fill the memory of those who cannot follow.
            end.paused = True
            self._poll.modify(end.socket.fileno(), 0)

    def _take(self, message: int, arrived: Numbers) -> None:
        """Add what arrived to what a rank has, or replace that by it."""
        rank = self._target[message]
        if not self._reduce[message]:
            self._buffers.replace(rank, message, arrived)
        else:
            self._buffers.add(rank, message, arrived)
            if self._work.computes and self._work.reduce(rank, message, arrived.nbytes, self._now()):
                return
        self._done(self._arrives_in[message])

    def _end_work(self) -> None:
        for message, received in self._work.ended(self._now()):
            if received:
                self._done(self._arrives_in[message])
            else:
                self._make_ready(message)

    def _done(self, stage: int) -> None:
        """Note that a message of a stage is through."""
        self._missing[stage] -= 1
        if self._missing[stage]:
            return
        if self._following[stage] >= 0:
            self._todo.append(self._following[stage])
        message = self._message[self._begins[stage]]
        rank = self._target[message] if self._receives[stage] else self._source[message]
        self._left[rank] -= 1
        if not self._left[rank]:
            self.wrong += self._buffers.wrong(rank)
            self._begin_round(rank)

    def _broken(self, message: int, error: OSError | None) -> WorkloadError:
        source, target = self._names[self._source[message]], self._names[self._target[message]]
        return broken(self._what, source, target, error)

    def _stalled(self) -> WorkloadError:
        """Whom the rank waits for that is furthest behind."""
        waiting = [
            (one.round, one.order[one.following], one.rank)
            for receivers in self._receivers_of
            for one in receivers
            if self._round[one.rank] < self._rounds and one.round <= self._round[one.rank]
        ]
        _, message, rank = min(waiting, default=(0, -1, -1))
        who = "" if rank < 0 else f"{self._names[rank]} waits for {self._names[self._source[message]]}"
        return stalled(self._what, who, len(waiting), self._patience_ns)
