"""Tenants in one virtual-time kernel: who reaches whom, controllers that die under load, and what links then carry."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulator.measure.capture import pcap_header
from tests.support.guest_tests import FOLDER, names_of, run_guests
from tests.support.tenants_bed import DESIGNS, FABRIC, MEMBERS, NODE_PORT, SERVICES, address

pytestmark = pytest.mark.virtual

GUESTS = (FOLDER / "tenants_guest.py", FOLDER / "survival_guest.py")
INFRASTRUCTURE = 1
CARRIERS = ("r0", "c0", "c1")
FIELDS = ("eth.type", "vlan.id", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport")


@dataclass(frozen=True)
class Ran:
    """What the tests in the kernel left.

    Attributes:
        failures: Of each test by its name.
        out: Their files.
    """

    failures: dict[str, list[str]]
    out: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run all of them."""
    folder = tmp_path_factory.mktemp("tenants")
    return Ran(run_guests(GUESTS, folder), folder / "out")


@pytest.mark.parametrize("name", [name for guest in GUESTS for name in names_of(guest)])
def test_in_the_virtual_kernel(ran: Ran, name: str) -> None:
    """The test of this name passed in the virtual kernel; see there for what it proves."""
    assert ran.failures[name] == [], "\n".join(ran.failures[name])


Pair = tuple[tuple[str, str], tuple[str, str]]
"""Source and target, each with its VPC."""
Conversation = tuple[int, str, str, int]
"""VLAN id, addresses of source and destination, and the server's TCP port; 0: a ping."""


@pytest.mark.parametrize("design", DESIGNS)
def test_the_segments_are_what_another_analyser_decodes(ran: Ran, design: str) -> None:
    """tshark finds between switches exactly the conversations that were allowed, each in its VPC's segment.

    Verify: addresses of VPCs only between nodes of one VPC; storage traffic only under fabric addresses; carriers that
    end TCP in the infrastructure's segment; nothing of what was refused; untagged only discovery.
    """
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    told = json.loads((ran.out / design / "seen.json").read_text())
    seen: set[Conversation] = set()
    for kind, vlan, *words in decoded(ran.out / design):
        if kind == "0x88cc":
            assert not any((vlan, *words)), "discovery is not of any segment"
        else:
            assert kind == "0x8100", "something of hosts is without a segment"
            source, target, *ports = words
            known = {NODE_PORT, *(behind.port for behind in SERVICES.values())}
            [port] = {int(one) for one in ports} & known if any(ports) else {0}
            seen.add((int(vlan), source, target, port))
    carriers = {ip_of(name) for name in CARRIERS}
    own = {one for one in seen if carriers & {one[1], one[2]}}
    assert seen - own == expected(design, told["segments"], told["reached"], told["pinged"])
    if design != "conventional":
        assert not own
        return
    storage = {(ip_of(behind.node), behind.port) for behind in SERVICES.values()}
    assert {segment for segment, *_ in own} == {INFRASTRUCTURE}
    for _, source, target, port in own:
        assert {(source, port), (target, port)} & storage
    assert {(ip, port) for ip, port in storage} <= {(target, port) for _, _, target, port in own}


def decoded(folder: Path) -> list[list[str]]:
    """What tshark makes of all captures in a folder: the fields of each packet."""
    header = len(pcap_header(0))
    files = sorted(folder.glob("*.pcap"))
    whole = folder / "whole"
    whole.write_bytes(files[0].read_bytes() + b"".join(file.read_bytes()[header:] for file in files[1:]))
    wanted = [word for field in FIELDS for word in ("-e", field)]
    argv = ["tshark", "-n", "-r", str(whole), "-T", "fields", *wanted]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def ip_of(host: str) -> str:
    """A host's fabric address."""
    ip = FABRIC.by_name[host].ip
    assert ip
    return str(ip.ip)


def expected(design: str, segments: dict[str, int], reached: list[Pair], pinged: list[Pair]) -> set[Conversation]:
    """What members' conversations are seen between leaves, told from who reached whom and where nodes are."""
    leaf = {host.name: link.b for host in FABRIC.hosts for link in FABRIC.links_of(host.name)}
    stop = {"gateway": ["gw0"], "conventional": ["r0"]}.get(design, [])
    found: set[Conversation] = set()
    for number, ((vpc, node), (_, name)) in enumerate([*pinged, *reached]):
        behind = SERVICES.get((vpc, name))
        if behind is None:
            ends = (address(MEMBERS[vpc, node]), address(MEMBERS[vpc, name]))
            port = NODE_PORT if number >= len(pinged) else 0
            stops = [node, name]
        else:
            ends, port = (ip_of(node), ip_of(behind.node)), behind.port
            # The router ends TCP, so what comes after it is its own.
            stops = [node, *stop] if design == "conventional" else [node, *stop, behind.node]
        if len({leaf[one] for one in stops}) > 1:
            found |= {(segments[vpc], *ends, port), (segments[vpc], *ends[::-1], port)}
    return found
