"""Netlink messages: what is encoded here is what an independent library reads, and refusals keep the kernel's words."""

from __future__ import annotations

import errno
import os
import socket
import struct
from ipaddress import IPv4Address, IPv4Interface

import pytest
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg

from emulator.network import interfaces
from emulator.network.interfaces import End
from emulator.network.netlink import (
    RTM_GETLINK,
    KernelRefused,
    NetlinkSocket,
    Request,
    _explanation,
    attribute,
    attributes,
    message,
    messages,
    text,
    u32,
)


def framed(request: Request) -> bytes:
    return message(request.kind, 1, 1, request.body)


def test_veth_pair_is_read_by_pyroute2() -> None:
    """Names, places, addresses, MTU and the one-segment rule of both ends are where the kernel looks for them."""
    a = End("g1-eth0", 7, "02:00:0a:01:01:01", 9000, super_packets=False)
    b = End("la1-eth1", 8, "06:00:00:00:00:01", 9000, super_packets=True)
    decoded = ifinfmsg(framed(interfaces.create_pair("g1-eth0--la1-eth1", a, b)))
    decoded.decode()
    assert decoded.get_attr("IFLA_IFNAME") == "g1-eth0"
    assert decoded.get_attr("IFLA_MTU") == 9000
    assert decoded.get_attr("IFLA_ADDRESS") == a.mac
    assert decoded.get_attr("IFLA_NET_NS_FD") == 7
    assert decoded.get_attr("IFLA_GSO_MAX_SEGS") == 1
    info = decoded.get_attr("IFLA_LINKINFO")
    assert info.get_attr("IFLA_INFO_KIND") == "veth"
    peer = info.get_attr("IFLA_INFO_DATA").get_attr("VETH_INFO_PEER")
    assert peer.get_attr("IFLA_IFNAME") == "la1-eth1"
    assert peer.get_attr("IFLA_NET_NS_FD") == 8
    assert peer.get_attr("IFLA_GSO_MAX_SEGS") is None
    assert (decoded["change"], decoded["flags"], peer["change"], peer["flags"]) == (0, 0, 0, 0)


def test_the_first_end_of_a_pair_may_be_made_up() -> None:
    """Only the first: the kernel refuses the other one. It is brought up by its name, before its number is known."""
    a, b = (End(name, 7, "02:00:00:00:00:01", 1500, super_packets=False) for name in ("c0-eth0", "c1-eth0"))
    decoded = ifinfmsg(framed(interfaces.create_pair("c0-eth0--c1-eth0", a, b, a_up=True)))
    decoded.decode()
    peer = decoded.get_attr("IFLA_LINKINFO").get_attr("IFLA_INFO_DATA").get_attr("VETH_INFO_PEER")
    assert (decoded["change"], decoded["flags"], peer["change"], peer["flags"]) == (1, 1, 0, 0)
    decoded = ifinfmsg(framed(interfaces.set_up_named("c1-eth0", "c1")))
    decoded.decode()
    assert (decoded["index"], decoded["change"], decoded["flags"]) == (0, 1, 1)
    assert decoded.get_attr("IFLA_IFNAME") == "c1-eth0"


def test_addresses_and_neighbours_are_read_by_pyroute2() -> None:
    """An address carries its prefix and broadcast; a neighbour is permanent."""
    decoded = ifaddrmsg(framed(interfaces.add_address(9, IPv4Interface("10.1.2.3/8"), "h")))
    decoded.decode()
    assert (decoded["prefixlen"], decoded["index"]) == (8, 9)
    assert decoded.get_attr("IFA_LOCAL") == "10.1.2.3"
    assert decoded.get_attr("IFA_BROADCAST") == "10.255.255.255"

    tail = interfaces.neighbour_tail(IPv4Address("10.0.0.9"), "02:00:0a:00:00:09")
    [request] = interfaces.add_neighbours(3, [tail], "h")
    neighbour = ndmsg(framed(request))
    neighbour.decode()
    assert (neighbour["ifindex"], neighbour["state"]) == (3, 0x80)
    assert neighbour.get_attr("NDA_DST") == "10.0.0.9"
    assert neighbour.get_attr("NDA_LLADDR") == "02:00:0a:00:00:09"


def test_attributes_survive_padding_and_garbage() -> None:
    """Payloads of any length are aligned; a truncated or lying tail is left out instead of read as something else."""
    row = text(1, "abc") + u32(2, 5) + attribute(3, b"xyzzy")
    assert attributes(row) == {1: b"abc\0", 2: struct.pack("=I", 5), 3: b"xyzzy"}
    assert attributes(row[:-4]) == {1: b"abc\0", 2: struct.pack("=I", 5)}
    assert attributes(row + struct.pack("=HH", 900, 4)) == attributes(row)
    assert attributes(struct.pack("=HH", 0, 1)) == {}
    assert list(messages(struct.pack("=IHHII", 3, 0, 0, 0, 0))) == []


def test_nested_flag_is_not_part_of_the_type() -> None:
    """The kernel flags nested attributes in the type's top bits."""
    assert attributes(attribute(0x8000 | 12, b"abcd")) == {12: b"abcd"}


def test_refusal_keeps_the_kernels_sentence() -> None:
    """With an explanation of the kernel's own, that is what the user reads; without, the error number's text."""
    header = b"\0" * 16
    body = struct.pack("=i", -errno.EINVAL) + header + text(1, "netem: negative latency")
    assert _explanation(errno.EINVAL, 0x200, body) == "netem: negative latency"
    assert _explanation(errno.EINVAL, 0, body) == os.strerror(errno.EINVAL)
    line = str(KernelRefused("link a--b: netem qdisc at a", errno.EINVAL, "netem: negative latency"))
    assert line == "link a--b: netem qdisc at a: the kernel says: netem: negative latency"


def test_kernel_names_the_request_that_it_refused() -> None:
    """Of a batch, the refused request is named, by the real kernel of this machine and without privileges."""
    with NetlinkSocket() as kernel:
        loopback = interfaces.decode(kernel.dump(RTM_GETLINK, interfaces.DUMP_ALL, "links")[0])
        assert loopback.name == "lo"
        nowhere = Request(RTM_GETLINK, struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 99_999, 0, 0), "interface 99999")
        with pytest.raises(KernelRefused) as caught:
            kernel.get(nowhere)
        assert caught.value.errno == errno.ENODEV
        assert str(caught.value).startswith("interface 99999: the kernel says: ")
        with pytest.raises(KernelRefused, match="interface ghost1: remove"):
            kernel.execute([interfaces.delete(99_998, "ghost1"), interfaces.delete(99_999, "ghost2")])
        # The socket is in step afterwards.
        assert kernel.dump(RTM_GETLINK, interfaces.DUMP_ALL, "links")
