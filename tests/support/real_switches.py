"""Real switches without a controller: hold programs, take packets, and say what left which port."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from controller import ryu_codec as codec
from controller.flows import FlowRule, Match, Program, Table, ToController
from controller.frame import Frame
from emulator.model.fabric import Fabric
from tests.support.controller_packets import bytes_frame, frame_bytes
from tests.support.dummy_ovs import DummyOvs, add_patch_port, dummy_ovs, far_end
from tests.support.openflow_socket import OpenFlowSocket, openflow_socket
from tests.support.waiting import until

_PCAP_HEADER_BYTES, _PCAP_RECORD = 24, struct.Struct("=8xI4x")
_SENTINEL_TYPE, _SENTINEL_MARK = 0x88B6, 0xFFFFFFFF

SENTINEL = Frame("02:00:00:00:00:01", "02:00:00:00:00:02", _SENTINEL_TYPE)
"""A packet behind all others: once it is reported, they are done."""


def sentinel_rule(dpid: int) -> FlowRule:
    """Reports the packet that ends a batch."""
    return FlowRule(dpid, Table.ADMIT, 65_535, Match(eth_type=_SENTINEL_TYPE), (ToController(128),))


def is_sentinel(data: bytes) -> bool:
    return int.from_bytes(data[-4:], "big") == _SENTINEL_MARK


def sentinel_bytes() -> bytes:
    return frame_bytes(SENTINEL, _SENTINEL_MARK)


class Records:
    """What left dummy ports, read from where it was read last.

    Args:
        folder: Where the ports' records are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}

    def option(self, interface: str) -> str:
        """The option that makes a port keep a record."""
        return f"options:tx_pcap={self._folder / interface}.pcap"

    def fresh(self, interface: str) -> Iterator[bytes]:
        """The packets since the last time."""
        record = (self._folder / f"{interface}.pcap").read_bytes()
        offset = self._read.get(interface, _PCAP_HEADER_BYTES)
        while offset < len(record):
            (length,) = _PCAP_RECORD.unpack_from(record, offset)
            offset += _PCAP_RECORD.size
            yield record[offset : offset + length]
            offset += length
        self._read[interface] = offset


class RealFabric:
    """The switches of a fabric, joined by patch ports, with a record of what each host gets."""

    def __init__(self, ovs: DummyOvs, fabric: Fabric, records: Records, sockets: Mapping[int, OpenFlowSocket]) -> None:
        self._ovs = ovs
        self._fabric = fabric
        self._records = records
        self.sockets = sockets
        self._down: frozenset[str] = frozenset()

    def load(self, program: Program) -> None:
        """Make every switch hold its part of a program."""
        parts = program.by_switch()
        for dpid, openflow in self.sockets.items():
            assert openflow.load(parts.get(dpid, Program()) + Program((sentinel_rule(dpid),))) == []

    def set_down(self, names: Collection[str]) -> None:
        """Take away the ports at both ends of links between switches, and give all others back.

        Patch ports are always up, so the switches are to notice that they are gone.
        """
        words: list[str] = []
        for link in self._fabric.links:
            if link.name in names and link.name not in self._down:
                words += ["--", "del-port", link.a, link.a_interface, "--", "del-port", link.b, link.b_interface]
            elif link.name in self._down and link.name not in names:
                words += add_patch_port(link.a, link.a_interface, link.a_port, link.b_interface)
                words += add_patch_port(link.b, link.b_interface, link.b_port, link.a_interface)
        if words:
            self._ovs.vsctl(*words)
        self._down = frozenset(names)

    def deliver(self, packets: Collection[tuple[str, Frame]]) -> list[list[tuple[str, Frame]]]:
        """Let hosts send; for each packet the hosts that got one, with what they got."""
        self._ovs.appctl("revalidator/purge")
        for mark, (host, frame) in enumerate(packets):
            self._ovs.appctl("netdev-dummy/receive", far_end(self._fabric, host)[2], frame_bytes(frame, mark).hex())
        waiting = {host.name: far_end(self._fabric, host.name) for host in self._fabric.hosts}
        for switch, _, interface in waiting.values():
            self._ovs.appctl("netdev-dummy/receive", interface, sentinel_bytes().hex())
            openflow = self.sockets[self._fabric.by_name[switch].dpid or 0]
            while not is_sentinel(openflow.packet_in().data):
                pass
        got: list[list[tuple[str, Frame]]] = [[] for _ in packets]
        for host, (_, _, interface) in waiting.items():
            for data in self._records.fresh(interface):
                frame, mark = bytes_frame(data)
                got[mark].append((host, frame))
        return got


@contextmanager
def real_fabric(folder: Path, fabric: Fabric) -> Iterator[RealFabric]:
    """Run the switches of a fabric until the block ends."""
    with ExitStack() as stack:
        ovs = stack.enter_context(dummy_ovs(folder))
        records = Records(folder)
        ovs.build(fabric, None, record=records.option)
        sockets = {}
        for node in fabric.switches:
            socket = stack.enter_context(openflow_socket(folder / f"{node.name}.mgmt", node.dpid or 0))
            socket.want_packet_ins()
            sockets[node.dpid or 0] = socket
        yield RealFabric(ovs, fabric, records, sockets)


def wait_for_ports(ovs: DummyOvs, openflow: OpenFlowSocket, ports: Collection[int], down: Collection[int]) -> None:
    """Take dummy ports down, the others up, and wait until the switch knows."""
    for port in ports:
        ovs.appctl("netdev-dummy/set-admin-state", f"p{port}", "down" if port in down else "up")

    def known() -> bool:
        seen = [codec.read_port_description(entry) for entry in openflow.port_descriptions()]
        return {port.number for port in seen if not port.up} & set(ports) == set(down)

    until(known, "the switch knows which ports are up")
