"""Moves large flows off links that are too full, at most as often as it helps.

What is moved is all traffic of one host to another: a rule for a pair of hosts outlives the single connections, can be
measured by its own counter, and keeps every connection's packets in order. Measuring is done on demand: only when a
link has been too full for some rounds are the pairs that cross it counted, and only then can they be moved.

Moves end by themselves. A move takes at least `BalanceSettings.small` off a link above `high`, and puts it only on
links that stay below `target`, which is lower. So while demands stay as they are no link ever becomes too full, and the
sum of what is on links that are too full falls with every move by at least that much. And no pair moves again before
`hold_ns` have passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.paths.paths import Paths
from controller.paths.ways import Pair, Pin, Ways
from emulator.errors import ControllerError

PortBytes = Mapping[tuple[str, int], int]
"""Bytes by switch and port."""


@dataclass(frozen=True)
class BalanceSettings:
    """When to move; shares are of a link's true rate.

    Attributes:
        high: A link above this is too full.
        target: No link that a flow is moved to may be above this afterwards. What is between the two is the least
            that a move gains for the pair.
        rounds: So many rounds in a row a link must be too full. At least 2: what is counted during a move is a mixture.
        small: Pairs with less than this share of the slowest link between switches are left alone.
        hold_ns: A pair stays at least so long before it moves again, in ns; and so long it must be small to be
            released.
        most_pairs: Most pairs that are measured, and most that are pinned, at a time.
    """

    high: float = 0.8
    target: float = 0.7
    rounds: int = 2
    small: float = 0.05
    hold_ns: int = 10_000_000_000
    most_pairs: int = 256

    def __post_init__(self) -> None:
        if not 0 < self.target < self.high <= 1:
            raise ControllerError(f"balance: target ({self.target}) must be above 0 and below high ({self.high} of 1)")
        if not 0 < self.small < 1:
            raise ControllerError(f"balance: small ({self.small}) must be above 0 and below 1")
        if self.rounds < 2 or self.hold_ns < 0 or self.most_pairs < 1:
            raise ControllerError("balance: it takes at least 2 rounds, 1 pair, and a hold that is not below 0")


@dataclass(frozen=True)
class Move:
    """One pair that changes its path.

    Attributes:
        pair: Whose traffic.
        pin: Where to; None: back to the path that it has without a pin.
        reason: One clause for people.
    """

    pair: Pair
    pin: Pin | None
    reason: str


@dataclass(frozen=True)
class Decision:
    """What one round led to.

    Attributes:
        measure: All pairs that are to be measured from now on, `BalanceSettings.most_pairs` at most.
        moves: What changes, in order.
        pins: All pins from now on, by pair.
    """

    measure: tuple[Pair, ...]
    moves: tuple[Move, ...]
    pins: tuple[Pin, ...]


@dataclass
class _Held:
    pin: Pin
    small_ns: int | None = None
    """Since when it has been small."""


class Balancer:
    """Watches the loads of one fabric; no clock of its own.

    Args:
        paths: Where packets go.
        settings: When to move.
    """

    def __init__(self, paths: Paths, settings: BalanceSettings | None = None) -> None:
        self.settings = settings or BalanceSettings()
        self._now_ns: int | None = None
        self._full: dict[int, int] = {}
        self._held: dict[Pair, _Held] = {}
        self._moved_ns: dict[Pair, int] = {}
        self._set(paths)

    def _set(self, paths: Paths) -> None:
        self._paths, self._ways = paths, Ways(paths)
        self._rates: list[int] = paths.layout.graph.rate_bps.tolist()
        self._small_bps = self.settings.small * min(self._rates, default=0)

    @property
    def pins(self) -> tuple[Pin, ...]:
        """All pins, by pair."""
        return tuple(self._held[pair].pin for pair in sorted(self._held))

    def change_paths(self, paths: Paths) -> tuple[Move, ...]:
        """Take over other paths of the same fabric; releases the pins whose path broke or is no longer among the best.

        Loads have to be seen for some rounds again before anything moves.
        """
        self._set(paths)
        self._full.clear()
        broken = [pair for pair, held in sorted(self._held.items()) if not self._ways.holds(held.pin)]
        for pair in broken:
            del self._held[pair]
        return tuple(Move(pair, None, "its path broke") for pair in broken)

    def round(
        self, now_ns: int, sent: PortBytes, rates_bps: Mapping[Pair, float], received: PortBytes | None = None
    ) -> Decision:
        """Look at what happened since the last round.

        Args:
            now_ns: The time, of any clock. If it went back, or did not move, this round only sets the time.
            sent: Bytes that switches sent by each port since the last round; ports that are missing sent none.
            rates_bps: Rates of the measured pairs since then, in bit/s; what is missing is not known yet.
            received: Bytes that came in by each port since the last round. Helps to find the large pairs: nobody sends
                more than his port let in.
        """
        passed_ns = now_ns - self._now_ns if self._now_ns is not None else 0
        self._now_ns = now_ns
        if passed_ns <= 0:
            self._shift(passed_ns)
            return Decision((), (), self.pins)
        load = self._loads(sent, passed_ns)
        for edge, bps in enumerate(load):
            full = bps > self.settings.high * self._rates[edge]
            self._full[edge] = self._full.get(edge, 0) + 1 if full else 0
        moves = list(self._release(now_ns, rates_bps))
        full_edges = sorted(
            (edge for edge, rounds in self._full.items() if rounds >= self.settings.rounds),
            key=lambda edge: (-load[edge] / self._rates[edge], edge),
        )
        shifted = [move for edge in full_edges if (move := self._relieve(edge, load, rates_bps, now_ns))]
        if shifted:
            # What the next round counts is part old, part new: it may begin a row, but not end one.
            self._full.clear()
        measure = self._measure(full_edges, sent, received, passed_ns)
        return Decision(measure, (*moves, *shifted), self.pins)

    def _shift(self, passed_ns: int) -> None:
        """Move all times along with a clock that went back."""
        self._moved_ns = {pair: at_ns + passed_ns for pair, at_ns in self._moved_ns.items()}
        for held in self._held.values():
            if held.small_ns is not None:
                held.small_ns += passed_ns

    def _loads(self, sent: PortBytes, passed_ns: int) -> list[float]:
        load = [0.0] * len(self._rates)
        for (switch, port), count in sent.items():
            edge = self._ways.edge(switch, port)
            if edge is not None:
                load[edge] = count * 8e9 / passed_ns
        return load

    def _release(self, now_ns: int, rates_bps: Mapping[Pair, float]) -> Iterator[Move]:
        """Let pairs go that have been small for long, or that have moved long ago."""
        for pair, held in sorted(self._held.items()):
            rate = rates_bps.get(pair)
            if rate is not None:
                small = rate < self._small_bps
                held.small_ns = (now_ns if held.small_ns is None else held.small_ns) if small else None
            if held.small_ns is not None and now_ns - held.small_ns >= self.settings.hold_ns:
                del self._held[pair]
                yield Move(pair, None, "it has become small")
        hold_ns = self.settings.hold_ns
        self._moved_ns = {pair: at_ns for pair, at_ns in self._moved_ns.items() if now_ns - at_ns < hold_ns}

    def _relieve(self, edge: int, load: list[float], rates_bps: Mapping[Pair, float], now_ns: int) -> Move | None:
        """Move the largest pair that fits elsewhere off a link; changes the loads accordingly."""
        if load[edge] <= self.settings.high * self._rates[edge]:
            return None  # an earlier move of this round has helped already
        crossing = [
            (-rate * share, pair)
            for pair, rate in rates_bps.items()
            if rate >= self._small_bps and pair not in self._moved_ns and (share := self._shares(pair).get(edge, 0.0))
        ]
        for _, pair in sorted(crossing):
            rate, shares = rates_bps[pair], self._shares(pair)
            way = self._best(pair, edge, rate, shares, load)
            if way is None or (pair not in self._held and len(self._held) >= self.settings.most_pairs):
                continue
            graph = self._paths.layout.graph
            reason = (
                f"{load[edge] / self._rates[edge]:.0%} of the link from {graph.switches[graph.source[edge]]} "
                f"port {graph.port[edge]} is used, {rate / self._rates[edge]:.0%} by this pair"
            )
            for old, share in shares.items():
                load[old] = max(0.0, load[old] - rate * share)
            for new in way:
                load[new] += rate
            self._moved_ns[pair] = now_ns
            if dict.fromkeys(way, 1.0) == self._ways.shares(*pair):
                self._held.pop(pair, None)
                return Move(pair, None, reason)
            self._held[pair] = _Held(self._ways.pin(pair, way))
            return Move(pair, self._held[pair].pin, reason)
        return None

    def _best(
        self, pair: Pair, edge: int, rate: float, shares: Mapping[int, float], load: list[float]
    ) -> tuple[int, ...] | None:
        """The way with the emptiest fullest link, if it is good enough."""
        found: list[tuple[float, tuple[int, ...]]] = []
        for way in self._ways.candidates(*pair):
            # Links that carry all of it already stay as they are; of others that carry a part it is not known which.
            if edge in way:
                continue
            after = max((load[new] + rate) / self._rates[new] for new in way if shares.get(new, 0.0) < 1.0)
            if after <= self.settings.target:
                found.append((after, way))
        return min(found)[1] if found else None

    def _shares(self, pair: Pair) -> Mapping[int, float]:
        held = self._held.get(pair)
        return dict.fromkeys(self._ways.pinned(held.pin), 1.0) if held else self._ways.shares(*pair)

    def _measure(
        self, full_edges: list[int], sent: PortBytes, received: PortBytes | None, passed_ns: int
    ) -> tuple[Pair, ...]:
        """Pinned pairs, and those that cross the links; the larger they can be, the earlier."""
        chosen: dict[Pair, None] = dict.fromkeys(sorted(self._held))
        full = set(full_edges)
        if not full:
            return tuple(chosen)
        # A pair is at most as large as what its source's port let in, and what its target's port sent.
        least = self._small_bps * passed_ns / 8e9
        bounds: list[tuple[float, str, bool]] = []
        for host, at in self._paths.attachments.items():
            came_in = float("inf") if received is None else received.get((at.switch, at.port), 0)
            bounds += [(-came_in, host, True), (-sent.get((at.switch, at.port), 0), host, False)]
        sources: list[str] = []
        targets: list[str] = []
        for bound, host, sends in sorted(bounds):
            if -bound < least:
                break
            pairs = [(host, other) for other in targets] if sends else [(other, host) for other in sources]
            (sources if sends else targets).append(host)
            for pair in pairs:
                if len(chosen) >= self.settings.most_pairs:
                    return tuple(chosen)
                if pair[0] != pair[1] and not full.isdisjoint(self._shares(pair)):
                    chosen[pair] = None
        return tuple(chosen)
