"""One switch's connection: carries out commands in order, in a green thread of its own, and says how it went."""

from __future__ import annotations

from controller.green import eventlet  # first, it makes Ryu importable

# isort: split

from collections.abc import Callable, Iterable
from typing import Any

from controller import ryu_codec as codec
from controller import ryu_match, ryu_rules
from controller.events import (
    Applied,
    Apply,
    Close,
    Command,
    Count,
    Counted,
    Failed,
    Foreign,
    Part,
    PortCount,
    Read,
    RoleTaken,
    SendPacket,
    SwitchEvent,
    TablesRead,
    TakeRole,
)
from controller.flows import Program, Purpose, Table, purpose_of
from controller.pending import Pending
from controller.rest.backend import Declined, NotConnected, Silent

_SHOWN_CHARACTERS = 200
_TABLES = frozenset(Table)
_AT_ONCE_BYTES = 16 << 10


class Switch:
    """A connection that finished its handshake.

    Args:
        datapath: Ryu's object for it.
        pending: Waits for answers.
        tell: Takes what happened, as long as the connection is the current one of its switch.

    Attributes:
        datapath: As given.
        sent: Messages that change something, and packets, that were sent.
    """

    def __init__(self, datapath: Any, pending: Pending, tell: Callable[[Switch, SwitchEvent], None]) -> None:
        self.datapath = datapath
        self.sent = 0
        self._pending = pending
        self._tell = tell
        self._waiting = eventlet.queue.LightQueue()
        self._ended = False

    def put(self, command: Command) -> None:
        """Have a command carried out after those before."""
        self._waiting.put(command)

    def end(self) -> None:
        """The connection is over, or is to be."""
        self._ended = True
        self._waiting.put(None)
        self._pending.abandon(self.datapath)

    def run(self) -> None:
        """Carry out commands until the connection ends."""
        while not self._ended:
            command = self._waiting.get()
            if command is None:
                return
            try:
                answer = self._carry_out(command)
            except (NotConnected, Silent, Declined) as error:
                answer = Failed(self.datapath.id, getattr(command, "token", 0), str(error))
            if answer is not None and not self._ended:
                self._tell(self, answer)

    def _carry_out(self, command: Command) -> SwitchEvent | None:
        dpid = self.datapath.id
        if isinstance(command, Read):
            return self._read(command.token)
        if isinstance(command, Apply):
            self._apply(command)
            return Applied(dpid, command.token)
        if isinstance(command, SendPacket):
            self._send(codec.packet_out(self.datapath, command.port, command.data))
        elif isinstance(command, Count):
            return self._count(command.token)
        elif isinstance(command, TakeRole):
            self.ask(codec.role_request(self.datapath, command.role.value, command.generation))
            return RoleTaken(dpid, command.token)
        elif isinstance(command, Close):
            self.datapath.close()
        return None

    def ask(self, request: Any) -> list[Any]:
        """Send a request and wait for all parts of the answer. Raises: NotConnected, Silent, Declined."""
        return self._pending.send(self.datapath, request)

    def entries(self, request: Any) -> list[Any]:
        """The same for a request that is answered by a list."""
        return [entry for part in self.ask(request) for entry in part.body]

    def change(self, message: Any) -> None:
        """Send a change and wait until it was done or refused. Raises: NotConnected, Silent, Declined."""
        self.sent += 1
        self._pending.change(self.datapath, message, codec.barrier(self.datapath))

    def _send(self, message: Any) -> None:
        self.sent += 1
        if not self.datapath.send_msg(message):
            raise NotConnected(self.datapath.id)

    def _send_all(self, messages: Iterable[Any]) -> None:
        """Send many, some of them at a time: one system call and one change of threads for each would cost more."""
        waiting = bytearray()
        for message in messages:
            self.sent += 1
            self.datapath.set_xid(message)
            message.serialize()
            waiting += message.buf
            if len(waiting) >= _AT_ONCE_BYTES:
                self._put_bytes(waiting)
                waiting = bytearray()
        if waiting:
            self._put_bytes(waiting)

    def _put_bytes(self, data: bytearray) -> None:
        if not self.datapath.send(data):
            raise NotConnected(self.datapath.id)

    def _read(self, token: int) -> TablesRead:
        dpid, foreign = self.datapath.id, []
        rules, groups, meters = [], [], []
        for entry in self.entries(codec.flows_request(self.datapath)):
            rule = ryu_rules.read_rule(dpid, entry)
            if rule is not None:
                rules.append(rule)
            else:
                foreign.append(_foreign_flow(entry))
        for entry in self._if_there_are(codec.groups_request(self.datapath)):
            group = ryu_rules.read_group(dpid, entry)
            if group is not None:
                groups.append(group)
            else:
                foreign.append(Foreign(Part.GROUP, f"group {entry.group_id}", entry.group_id))
        for entry in self._if_there_are(codec.meters_request(self.datapath)):
            meter = ryu_rules.read_meter(dpid, entry)
            if meter is not None:
                meters.append(meter)
            else:
                foreign.append(Foreign(Part.METER, f"meter {entry.meter_id}", entry.meter_id))
        return TablesRead(dpid, token, Program(tuple(rules), tuple(groups), tuple(meters)), tuple(foreign))

    def _if_there_are(self, request: Any) -> list[Any]:
        """Entries of a table that not every switch has."""
        try:
            return self.entries(request)
        except Declined:
            return []

    def _apply(self, command: Apply) -> None:
        """What rules use comes before the rules, and goes after them."""
        datapath, change = self.datapath, command.change
        if change.clear:
            for message in codec.clear_all(datapath):
                self._send(message)
        for meter in change.put.meters:
            self._send(codec.meter_mod(datapath, meter, "modify" if meter.number in command.meters else "add"))
        self._send_all(codec.group_mod(datapath, group, "put") for group in change.put.groups)
        self._send_barrier(bool(change.clear or change.put.meters or change.put.groups))
        self._send_all(codec.flow_mod(datapath, rule) for rule in change.put.rules)
        self._send_barrier(bool(change.put.rules))
        self._send_all(codec.flow_mod(datapath, rule, delete=True) for rule in change.delete.rules)
        for item in command.foreign:
            if item.part is Part.FLOW and isinstance(item.handle, tuple):
                self._send(codec.delete_exactly(datapath, *item.handle))
        self._send_barrier(bool(change.delete.rules or command.foreign))
        for number in [group.number for group in change.delete.groups] + _numbers(command, Part.GROUP):
            self._send(codec.delete_group(datapath, number))
        for number in [meter.number for meter in change.delete.meters] + _numbers(command, Part.METER):
            self._send(codec.delete_meter(datapath, number))
        self.ask(codec.barrier(datapath))

    def _send_barrier(self, needed: bool) -> None:
        """Keep a switch from doing what follows before what came first; nobody waits for the answer."""
        if needed and not self.datapath.send_msg(codec.barrier(self.datapath)):
            raise NotConnected(self.datapath.id)

    def _count(self, token: int) -> Counted:
        dpid = self.datapath.id
        ports = [codec.read_port(entry) for entry in self.entries(codec.ports_request(self.datapath))]
        rules = []
        for entry in self.entries(codec.flows_request(self.datapath, Purpose.PIN)):
            rule = ryu_rules.read_rule(dpid, entry)
            if rule is not None and purpose_of(rule.cookie) is Purpose.PIN:
                rules.append((rule, int(entry.byte_count)))
        counts = tuple(PortCount(port.port, port.tx_bytes, port.rx_bytes) for port in ports)
        return Counted(dpid, token, counts, tuple(rules))


def _numbers(command: Apply, part: Part) -> list[int]:
    return [item.number for item in command.foreign if item.part is part]


def _foreign_flow(entry: Any) -> Foreign:
    match = ryu_match.read_match(entry.match)
    key = (Table(entry.table_id), entry.priority, match) if match and entry.table_id in _TABLES else None
    text = f"table {entry.table_id} priority {entry.priority} {dict(entry.match.items())}"[:_SHOWN_CHARACTERS]
    return Foreign(Part.FLOW, text, key=key, handle=(entry.table_id, entry.priority, entry.match))
