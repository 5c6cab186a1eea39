"""The short ways between text and bytes of addresses: what Ryu says, without what Ryu does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ryu.lib import addrconv

from controller.ryu_addresses import _ipv4_bytes, _ipv4_text, _mac_bytes, _mac_text

TEXT = st.text(alphabet="0123456789abcdefABCDEF:.-/ \n", max_size=24)
MAC = st.lists(st.integers(0, 300), min_size=5, max_size=7).map(lambda words: ":".join(f"{one:02x}" for one in words))
IPV4 = st.lists(st.integers(0, 300), min_size=3, max_size=5).map(lambda words: ".".join(map(str, words)))


def same(short: Any, long: Any, value: Any) -> None:
    """Both give the same, or both refuse it."""
    try:
        expected = long(value)
    except Exception as error:  # noqa: BLE001 - whatever it is
        expected = type(error)
    try:
        found = short(value)
    except Exception as error:  # noqa: BLE001 - whatever it is
        found = type(error)
    assert found == expected


@given(st.binary(max_size=8), TEXT | MAC | IPV4)
def test_they_say_the_same(data: bytes, text: str) -> None:
    """Of any bytes and any text."""
    same(_mac_text(addrconv.mac.bin_to_text), addrconv.mac.bin_to_text, data)
    same(_ipv4_text(addrconv.ipv4.bin_to_text), addrconv.ipv4.bin_to_text, data)
    same(_mac_bytes(addrconv.mac.text_to_bin), addrconv.mac.text_to_bin, text)
    same(_ipv4_bytes(addrconv.ipv4.text_to_bin), addrconv.ipv4.text_to_bin, text)


_COUNTING = """\
from controller import ryu_addresses, ryu_codec
from controller.flows import FlowRule, Match, Output, Table
import netaddr

ryu_addresses.install()
ryu_addresses.install()
made = []
for kind in (netaddr.EUI, netaddr.IPAddress):
    first = kind.__init__
    kind.__init__ = lambda self, *a, first=first, **k: (made.append(self), first(self, *a, **k))[1]
match = Match(eth_dst="02:00:0a:00:00:01", eth_type=0x0800, ipv4_dst="10.0.0.1")

class Datapath:
    from ryu.ofproto import ofproto_v1_3 as ofproto, ofproto_v1_3_parser as ofproto_parser

message = ryu_codec.flow_mod(Datapath, FlowRule(1, Table.ROUTE, 1, match, actions=(Output(1),)))
message.set_xid(1)
message.serialize()
read = Datapath.ofproto_parser.OFPMatch.parser(bytes(message.buf), 48)
assert dict(read.items()) == match.set_fields(), read
print(len(made))
"""


def test_no_address_objects_are_made(repository: Path) -> None:
    """Neither when a rule is written nor when it is read; in a process of its own, for Ryu is changed for good."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNTING], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.stdout == "0\n", done.stderr
