"""Reading back: a kernel that sets something else than asked is found out, whatever it is."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from emulator.errors import LinkError
from emulator.network import interfaces, qdisc_tree
from emulator.network.netlink import RTM_GETLINK, Request, attribute, text, u32
from emulator.network.ports import Port, link_ports
from emulator.network.qdisc import Netem, Qdisc
from emulator.network.wiring import (
    by_second_host,
    check_ports,
    create_running_links,
    is_between_hosts,
    list_interfaces,
    not_running,
    settled_interfaces,
)
from topologies import chain, torus3d, tree

PORT = link_ports(chain(hops=2, queue_packets=50))[0][0]
LINK = "link h0-eth0--s1-eth1"


@dataclass
class FakeKernel:
    """Answers as the kernel would that has these settings."""

    port: Port
    qdiscs: Sequence[Qdisc]
    mtu: int = 9000
    up: bool = True
    running: bool = True
    segments: int = 1
    mac: str | None = None
    there: bool = True
    executed: list[Request] = field(default_factory=list)

    def execute(self, requests: Sequence[Request]) -> None:
        self.executed += requests

    def dump(self, kind: int, body: bytes, what: str) -> list[bytes]:
        if kind == RTM_GETLINK:
            header = struct.pack("=BxHiII", 0, 0, 7, int(self.up), 0)
            mac = interfaces.mac_bytes(self.mac or self.port.mac)
            row = text(3, self.port.interface) + attribute(1, mac) + u32(4, self.mtu) + u32(40, self.segments)
            row += attribute(16, bytes([6 if self.running else 2]))
            return [header + row] if self.there else []
        return [qdisc_tree.request_body(7, one) for one in qdisc_tree.nested(self.qdiscs)]

    def get(self, request: Request) -> bytes:
        """Being asked for one interface, look at it."""
        assert struct.unpack_from("=BxHiII", request.body)[2] == 7
        self.executed.append(request)
        self.running = True
        return b""


@dataclass
class FakeFeatures:
    """Answers as the ethtool ioctl would."""

    features: dict[str, bool]

    def read(self, interface: str) -> dict[str, bool]:
        return self.features


GOOD = FakeKernel(PORT, [one.qdisc for one in PORT.qdiscs])
FEATURES = FakeFeatures(PORT.offloads.wanted())
ASKED = PORT.qdiscs[0].qdisc
assert isinstance(ASKED, Netem)


def test_what_was_asked_passes() -> None:
    """No difference, no error."""
    check_ports(GOOD, FEATURES, [PORT])


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (replace(GOOD, mtu=1500), "MTU is 1500 instead of 9000"),
        (replace(GOOD, up=False), "it is down"),
        (replace(GOOD, segments=65535), "65535 segments may leave as one packet instead of 1"),
        (replace(GOOD, mac="02:00:00:00:00:01"), "Ethernet address is 02:00:00:00:00:01 instead of 02:00:0a:00:00:01"),
        (replace(GOOD, qdiscs=()), "a netem qdisc was asked for, there is none"),
        (
            replace(GOOD, qdiscs=[replace(ASKED, rate_bytes_per_s=2**32 - 1)]),
            "rate_bytes_per_s is 4294967295 instead of",
        ),
        (replace(GOOD, qdiscs=[replace(ASKED, delay_ns=448)]), "netem delay_ns is 448 instead of 500"),
        (replace(GOOD, qdiscs=[replace(ASKED, limit_packets=1000)]), "limit_packets is 1000 instead of 52"),
        (replace(GOOD, qdiscs=[replace(ASKED, overhead_bytes=0)]), "overhead_bytes is 0 instead of 24"),
        (replace(GOOD, qdiscs=[replace(ASKED, loss=1)]), "loss is 1 instead of 0"),
    ],
)
def test_every_difference_is_an_error(kernel: FakeKernel, said: str) -> None:
    """Each property is compared; the one line names link, interface, and both values."""
    with pytest.raises(LinkError) as caught:
        check_ports(kernel, FEATURES, [PORT])
    assert str(caught.value).startswith(f"{LINK}: the kernel set something else at h0-eth0: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", PORT.offloads.wanted())
def test_every_offload_is_compared(name: str) -> None:
    """An offload that is not as asked is an error."""
    wanted = PORT.offloads.wanted()
    with pytest.raises(LinkError, match=f"{name} is"):
        check_ports(GOOD, FakeFeatures({**wanted, name: not wanted[name]}), [PORT])


def test_all_differences_are_told_at_once() -> None:
    """A user need not find them one by one."""
    with pytest.raises(LinkError, match=r"MTU is 576 .*; it is down; .*limit_packets"):
        check_ports(
            replace(GOOD, mtu=576, up=False, qdiscs=[replace(ASKED, limit_packets=1)]), FEATURES, [PORT]
        )  # fmt: skip


def test_a_missing_interface_is_an_error() -> None:
    """An interface that is gone is said to be gone."""
    with pytest.raises(LinkError, match=f"{LINK}: interface h0-eth0 is gone"):
        check_ports(replace(GOOD, there=False), FEATURES, [PORT])


def test_links_that_do_not_run_yet_are_found() -> None:
    """Up is not enough: before the kernel has noticed, it drops what is sent."""
    assert not_running(list_interfaces(GOOD), [PORT]) == []
    late = replace(GOOD, running=False, executed=[])
    assert not_running(list_interfaces(late), [PORT]) == ["h0-eth0"]
    assert not_running(settled_interfaces(late, [PORT]), [PORT]) == []
    assert len(late.executed) == 1
    assert settled_interfaces(replace(GOOD, there=False), [PORT]) == {}


def test_every_link_between_hosts_is_made_once_when_there_are_both() -> None:
    """Whatever the order of hosts; links to switches are not among them. Each end that comes second is brought up."""
    links = link_ports(torus3d(2, 3, 3))
    names = [node.name for node in torus3d(2, 3, 3).hosts]
    every = sorted(sorted(end.interface for end in pair) for pair in links)
    for hosts in (names, names[::-1]):
        found = by_second_host(links, hosts)
        made = [pair for pairs in found.values() for pair in pairs]
        assert sorted(sorted(end.interface for end in pair) for pair in made) == every
        for name, pairs in found.items():
            for first, second in pairs:
                assert second.node == name
                assert hosts.index(first.node) < hosts.index(name)
    kernel = replace(GOOD, executed=[])
    last = found[names[0]]
    create_running_links(kernel, last, {name: number for number, name in enumerate(names)}.__getitem__)
    assert [one.what for one in kernel.executed] == [
        what for a, b in last for what in (f"link {a.link}", f"{b.node}: bring interface {b.interface} up")
    ]

    assert by_second_host(link_ports(chain(hops=2)), ["h0", "h1"]) == {}
    routed = link_ports(tree())
    assert all(map(is_between_hosts, routed)), "switches that route have namespaces, too"
