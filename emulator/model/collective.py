"""Workloads that do collectives, as plain data; see `emulator.model.workload`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.model.workload_base import Workload

Card = tuple[tuple[str, ...], int, int, int]
"""Hosts, the rate at which they add up in bit/s, the time before each chunk in ns, and the size of a chunk in bytes."""


@dataclass(frozen=True)
class Collectives(Workload):
    """Base of workloads that do collectives among ranks on hosts, over TCP.

    Attributes:
        collective: What is computed: ``all_reduce``, ``reduce_scatter``, ``all_gather``, ``alltoall``, ``broadcast``
            or ``reduce``.
        algorithm: Name of the schedule; ``auto``: the one that should be quickest.
        ranks: Hosts, in the order of their ranks; words that stand for several are replaced before it runs. None are
            given: all cards, or else all hosts.
        shape: Ranks in each dimension of a grid, such as ``8x8x4``; empty: as the hosts' names tell. Replaced before it
            runs.
        datatype: Type of the numbers, as nccl-tests call it.
        operation: How they are reduced: ``sum``, ``min`` or ``max``.
        congestion: Linux congestion control.
        buffer_bytes: Buffer of each socket, for sending and for receiving.
        reduce_bps: Rate at which a card adds up what arrives, in bit/s; 0: it takes no time.
        message_ns: Time that a card takes before each message.
        chunk_bytes: A card handles a message in chunks of this size, each of which takes it that time; 0: whole.
        cards: Cards of other kinds, with the last three of these.
    """

    collective: str = "all_reduce"
    algorithm: str = "auto"
    ranks: tuple[str, ...] = ()
    shape: str = ""
    datatype: str = "float"
    operation: str = "sum"
    congestion: str = "reno"
    buffer_bytes: int = 4 << 20
    reduce_bps: int = 5_437_000_000_000
    message_ns: int = 0
    chunk_bytes: int = 0
    cards: tuple[Card, ...] = ()

    @property
    def grid(self) -> tuple[int, ...]:
        """Ranks in each dimension."""
        return tuple(map(int, self.shape.split("x"))) if self.shape else (len(self.ranks),)

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """All sizes that are done, ascending."""
        return ()

    @property
    def rounds_in_a_row(self) -> int:
        """How often each size is done without a common start in between."""
        return 1


@dataclass(frozen=True)
class CollectiveRun(Collectives):
    """A collective at one or more sizes, as nccl-tests do it.

    Attributes:
        begin_bytes, end_bytes: Smallest and largest size.
        factor: From one size to the next.
        foretell_bytes: Up to here sizes are predicted only, each twice the one before; 0: none.
        iterations: How often each size is done, one right after the other; what counts is the mean.
        warm_up: How often before that without counting.
    """

    kind: ClassVar[str] = "collective"
    begin_bytes: int = 1 << 20
    end_bytes: int = 1 << 20
    factor: int = 2
    foretell_bytes: int = 0
    iterations: int = 5
    warm_up: int = 1

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """All sizes that are done, ascending."""
        sizes = [self.begin_bytes]
        while self.factor > 1 and sizes[-1] * self.factor <= self.end_bytes:
            sizes.append(sizes[-1] * self.factor)
        return tuple(sizes)

    @property
    def rounds_in_a_row(self) -> int:
        """How often each size is done without a common start in between."""
        return self.iterations

    @property
    def foretold_bytes(self) -> tuple[int, ...]:
        """Sizes that are predicted only, ascending."""
        sizes = []
        size = 2 * self.sizes_bytes[-1]
        while size <= self.foretell_bytes:
            sizes.append(size)
            size *= 2
        return tuple(sizes)


Change = tuple[int, tuple[str, ...], tuple[str, ...]]
"""After how many rounds, who joins, who leaves."""


@dataclass(frozen=True)
class CollectiveJob(Collectives):
    """A job that does a collective round after round, while links and cards fail, cards join and leave.

    Attributes:
        size_bytes: Of the buffer.
        rounds: How often it is done.
        detect_ns: Nothing having arrived anywhere for so long, ranks believe that something is broken.
        react_ns: Time that the fabric's manager and the job take from then until the job goes on.
        changes: Who joins and leaves when, in order. Who joins is not there from the beginning.
    """

    kind: ClassVar[str] = "collective_job"
    size_bytes: int = 1 << 20
    rounds: int = 20
    detect_ns: int = 1_000_000
    react_ns: int = 1_000_000
    changes: tuple[Change, ...] = ()

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """The one size."""
        return (self.size_bytes,)

    @property
    def rounds_in_a_row(self) -> int:
        """How often each size is done without a common start in between."""
        return self.rounds
