"""Looks at the loads of links now and then, and has the balancer move large flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.core.rates import PairRates
from controller.core.repair import Repair
from controller.core.session import SwitchSession
from controller.core.state import State
from controller.core.watch import Note
from controller.events import Command, Count, Counted
from controller.flows import FlowRule, Match, Program, Purpose, Table, purpose_of
from controller.journal import Kind
from controller.paths.balance import Balancer, Move
from controller.paths.paths import Paths
from controller.paths.pins import pin_rules, watch_rules
from controller.paths.ways import Pair, Pin

_LIMIT_NS = 10**9


class Loads:
    """Rounds of counting.

    Args:
        paths: Of the whole fabric.
        interval_ns: Time between rounds; 0: nothing is counted nor moved.
        new_token: Numbers commands.
        note: Notes something in the journal.
    """

    def __init__(self, paths: Paths, interval_ns: int, new_token: Callable[[], int], note: Note) -> None:
        self.interval_ns = interval_ns
        self._balancer = Balancer(paths) if interval_ns else None
        self._paths = paths
        self._new_token = new_token
        self._note = note
        self._next_ns: int | None = None
        self._until_ns: int | None = None
        self._asked: dict[int, str] = {}
        self._counts: dict[str, Counted] = {}
        self._before: dict[str, Counted] = {}
        self._round_ns: int | None = None
        self._measured: tuple[Pair, ...] = ()
        self._rates = PairRates()
        self._released = False
        self._commands: list[Command] = []
        self._macs = {node.mac: node.name for node in paths.fabric.hosts if node.mac}

    def next_ns(self) -> int | None:
        """When `look` should be called next; None: never."""
        return self._until_ns if self._asked else self._next_ns

    @property
    def pins(self) -> tuple[Pin, ...]:
        """What is held on paths now, by pair."""
        return self._balancer.pins if self._balancer else ()

    def counted(self, switch: str, event: Counted) -> None:
        """A switch said what it has counted."""
        if self._asked.pop(event.token, None) is not None:
            self._counts[switch] = event

    def failed(self, token: int) -> None:
        """A switch did not say."""
        self._asked.pop(token, None)

    def commands(self) -> list[Command]:
        """What is to be asked."""
        commands, self._commands = self._commands, []
        return commands

    def look(self, sessions: Mapping[int, SwitchSession], repair: Repair, now_ns: int) -> Program | None:
        """Ask, or decide once all have answered.

        Returns:
            All rules that hold or count flows from now on, or None: those of before.
        """
        if self._balancer is None:
            return None
        if self._next_ns is None:
            self._next_ns = now_ns + self.interval_ns
        if repair.under_way or self._released:
            self._put_off(now_ns)
            if repair.under_way:
                return None
            # Groups are in place now; what holds the pairs that were kept on their paths may have become another one.
            self._released = False
            return self._program(self._balancer)
        program = None
        if self._round_ns is not None and (not self._asked or now_ns >= (self._until_ns or 0)):
            self._asked.clear()
            program = self._decide(self._balancer, self._round_ns, now_ns)
        if self._round_ns is None and now_ns >= self._next_ns:
            self._ask(sessions, now_ns)
        return program

    def _ask(self, sessions: Mapping[int, SwitchSession], now_ns: int) -> None:
        self._next_ns = now_ns + self.interval_ns
        self._round_ns, self._until_ns, self._counts = now_ns, now_ns + _LIMIT_NS, {}
        for session in sessions.values():
            if session.state in (State.READY, State.UPDATING):
                command = Count(session.dpid, self._new_token())
                self._asked[command.token] = session.name
                self._commands.append(command)

    def release(self, paths: Paths) -> Program:
        """Packets will take other paths: let go of all pairs whose path is then none of the best.

        Returns:
            All rules that hold or count flows. They fit the paths of before, and those to come as well, but those that
            are gone now fit only the ones of before: so this has to be done first.
        """
        if self._balancer is None:
            return Program()
        moves = self._balancer.change_paths(paths)
        self._tell(moves)
        if moves:
            self._measured = ()
        program = self._program(self._balancer)
        self._paths, self._released = paths, True
        self._rates.clear()
        return program

    def _put_off(self, now_ns: int) -> None:
        """Decide nothing while paths change; what was counted meanwhile is a mixture."""
        if self._round_ns is not None and (not self._asked or now_ns >= (self._until_ns or 0)):
            self._asked.clear()
            self._round_ns = self._until_ns = None
            self._before = {}
        if self._next_ns is not None and now_ns >= self._next_ns:
            self._next_ns = now_ns + self.interval_ns

    def _decide(self, balancer: Balancer, round_ns: int, now_ns: int) -> Program | None:
        before, self._before, self._round_ns = self._before, self._counts, None
        self._until_ns = None
        sent: dict[tuple[str, int], int] = {}
        received: dict[tuple[str, int], int] = {}
        rates: dict[Pair, float] = {}
        for switch, counts in self._counts.items():
            old = before.get(switch)
            if old is None:
                continue
            was = {item.port: item for item in old.ports}
            for item in counts.ports:
                if item.port in was:
                    # A counter that went back was reset.
                    sent[switch, item.port] = max(0, item.tx_bytes - was[item.port].tx_bytes)
                    received[switch, item.port] = max(0, item.rx_bytes - was[item.port].rx_bytes)
            rates.update(self._pair_rates(switch, counts, now_ns))
        decision = balancer.round(round_ns, sent, rates, received)
        self._tell(decision.moves)
        if not decision.moves and decision.measure == self._measured:
            return None
        self._measured = decision.measure
        if decision.moves:
            self._rates.clear()
        self._rates.keep(frozenset(self._measured))
        return self._program(balancer)

    def _pair_rates(self, switch: str, counts: Counted, now_ns: int) -> dict[Pair, float]:
        """Rates of the pairs that this switch counts where they enter."""
        rates: dict[Pair, float] = {}
        for rule, count in counts.rules:
            pair = self._pair(rule)
            if pair is not None and self._paths.attachments[pair[0]].switch == switch:
                rate = self._rates.seen(pair, count, now_ns)
                if rate is not None:
                    rates[pair] = rate
        return rates

    def _pair(self, rule: FlowRule) -> Pair | None:
        if purpose_of(rule.cookie) is not Purpose.PIN or rule.table is not Table.ROUTE:
            return None
        match: Match = rule.match
        source, target = self._macs.get(match.eth_src or ""), self._macs.get(match.eth_dst or "")
        return (source, target) if source and target else None

    def _program(self, balancer: Balancer) -> Program:
        rules: dict[object, FlowRule] = {}
        held = {pin.pair for pin in balancer.pins}
        for pair in self._measured:
            if pair not in held:
                rules.update(((rule.dpid, rule.key), rule) for rule in watch_rules(self._paths, pair))
        for pin in balancer.pins:
            rules.update(((rule.dpid, rule.key), rule) for rule in pin_rules(self._paths, pin))
        return Program(tuple(rules.values()))

    def _tell(self, moves: tuple[Move, ...]) -> None:
        for move in moves:
            source, target = move.pair
            way = f"over {' '.join(move.pin.switches)}" if move.pin else "to its own path"
            message = f"the traffic of {source} to {target} moves {way}: {move.reason}"
            self._note(Kind.BALANCE, message, source=source, target=target, reason=move.reason)
