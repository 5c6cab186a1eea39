"""OpenFlow 1.3 over a socket, with Ryu's messages: what a controller would say to a switch, step by step."""

from __future__ import annotations

import controller.green  # noqa: F401 - first, it makes Ryu importable

# isort: split

import socket
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ryu.ofproto import ofproto_parser
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser
from ryu.ofproto.ofproto_protocol import ProtocolDesc

from controller import ryu_codec as codec
from controller import ryu_rules
from controller.flows import FlowRule, Group, Meter, Program

_TIMEOUT_S = 30


class OpenFlowSocket:
    """A connection whose handshake is done.

    Args:
        sock: Connected.
        dpid: What the switch's rules are read as.

    Attributes:
        datapath: For Ryu's messages.
    """

    def __init__(self, sock: socket.socket, dpid: int = 1) -> None:
        self._sock = sock
        self._xid = 0
        self._packet_ins: deque[Any] = deque()
        self.datapath: Any = ProtocolDesc(ofp.OFP_VERSION)
        self.datapath.id = dpid
        self._send(parser.OFPHello(self.datapath, [parser.OFPHelloElemVersionBitmap([ofp.OFP_VERSION])]))
        assert self._receive().msg_type == ofp.OFPT_HELLO

    def change(self, messages: Iterable[Any]) -> list[str]:
        """Send changes, wait until they are done, and return what the switch complains about."""
        for message in messages:
            self._send(message)
        xid = self._send(codec.barrier(self.datapath))
        complaints = []
        while (answer := self._receive()).xid != xid:
            self._keep(answer)
            if answer.msg_type == ofp.OFPT_ERROR:
                complaints.append(codec.error_text(answer))
        return complaints

    def ask(self, request: Any) -> list[Any]:
        """All entries of the answer to a request."""
        xid = self._send(request)
        entries: list[Any] = []
        while True:
            answer = self._receive()
            self._keep(answer)
            if answer.xid == xid and hasattr(answer, "body"):
                entries += answer.body
                if not answer.flags & ofp.OFPMPF_REPLY_MORE:
                    return entries

    def load(self, program: Program) -> list[str]:
        """Make the switch hold exactly a program; returns complaints."""
        datapath = self.datapath
        return self.change(
            [
                *codec.clear_all(datapath),
                *(codec.meter_mod(datapath, meter, "add") for meter in program.meters),
                *(codec.group_mod(datapath, group, "put") for group in program.groups),
                *(codec.flow_mod(datapath, rule) for rule in program.rules),
            ]
        )

    def held(self) -> tuple[list[FlowRule | None], list[Group | None], list[Meter | None]]:
        """All that the switch holds; None for what is not ours to say."""
        dpid = self.datapath.id
        return (
            [codec.read_flow(dpid, entry).rule for entry in self.ask(codec.flows_request(self.datapath))],
            [ryu_rules.read_group(dpid, entry) for entry in self.ask(codec.groups_request(self.datapath))],
            [ryu_rules.read_meter(dpid, entry) for entry in self.ask(codec.meters_request(self.datapath))],
        )

    def port_descriptions(self) -> list[Any]:
        """All ports, with what is up."""
        return self.ask(parser.OFPPortDescStatsRequest(self.datapath, 0))

    def want_packet_ins(self) -> None:
        """Ask for what rules hand to the controller."""
        assert self.change([parser.OFPSetConfig(self.datapath, ofp.OFPC_FRAG_NORMAL, ofp.OFPCML_NO_BUFFER)]) == []

    def packet_in(self) -> Any:
        """Wait for the next packet that a rule handed to the controller."""
        while not self._packet_ins:
            self._keep(self._receive())
        return self._packet_ins.popleft()

    def _keep(self, message: Any) -> None:
        if message.msg_type == ofp.OFPT_PACKET_IN:
            self._packet_ins.append(message)

    def _send(self, message: Any) -> int:
        self._xid += 1
        message.set_xid(self._xid)
        message.serialize()
        self._sock.sendall(bytes(message.buf))
        return self._xid

    def _receive(self) -> Any:
        header = self._exactly(ofp.OFP_HEADER_SIZE)
        version, kind, length, xid = ofproto_parser.header(header)
        return ofproto_parser.msg(
            self.datapath, version, kind, length, xid, header + self._exactly(length - len(header))
        )

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._sock.recv(count - len(data))
            assert more, "the switch closed the connection"
            data += more
        return data


@contextmanager
def openflow_socket(path: Path, dpid: int = 1) -> Iterator[OpenFlowSocket]:
    """Connect to a switch's management socket."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(_TIMEOUT_S)
        sock.connect(str(path))
        yield OpenFlowSocket(sock, dpid)
