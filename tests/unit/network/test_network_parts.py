"""The rest of the network package without a kernel: bridges on a tree, probes, plans, hosts' errors."""

from __future__ import annotations

from pathlib import Path

import networkx
import pytest

from emulator.errors import LinkError, MissingCapability, NodeError, TopologyError
from emulator.network import build, capability
from emulator.network.bridge_switch import bridge_flows, outside_tree
from emulator.network.openvswitch import OpenVSwitch
from emulator.network.probe import checksum, echo_request, reply_sequence
from topologies import FABRICS, chain, dumbbell, icgw


def test_tree_of_the_reference_fabric() -> None:
    """The ports outside the tree are both ends of exactly the links that make loops."""
    fabric = icgw()
    switches = [switch.name for switch in fabric.switches]
    joints = [(li.a, li.a_port, li.b, li.b_port) for li in fabric.links if li.a in switches and li.b in switches]
    outside = outside_tree(switches, joints)
    kept = [joint for joint in joints if joint[1] not in outside.get(joint[0], ())]
    tree = networkx.Graph((a, b) for a, _, b, _ in kept)
    assert networkx.is_tree(tree)
    assert set(tree) == set(switches)
    assert sum(map(len, outside.values())) == 2 * (len(joints) - len(kept))


def test_parallel_links_are_a_loop() -> None:
    """Of two links between the same switches one is left out, at both ends."""
    assert outside_tree(["a", "b"], [("a", 1, "b", 1), ("a", 2, "b", 2)]) == {"a": {2}, "b": {2}}
    assert outside_tree(["a"], []) == {}
    assert outside_tree(["a", "b"], []) == {}


def test_flows_of_a_bridge() -> None:
    """Blocked ports are deaf; everything else is an ordinary learning bridge."""
    assert (
        bridge_flows({7, 2})
        == "priority=1,in_port=2,actions=drop\npriority=1,in_port=7,actions=drop\npriority=0,actions=NORMAL\n"
    )
    assert bridge_flows(()) == "priority=0,actions=NORMAL\n"


def test_learning_bridges_and_loops_do_not_mix() -> None:
    """A fabric with loops and without a controller is refused before anything is made; any other is planned."""
    with pytest.raises(TopologyError, match="'icgw' form loops"):
        build(icgw())
    for name in set(FABRICS) - {"icgw"}:
        assert build(FABRICS[name]()).fabric.name == name
    assert build(icgw(), controller="tcp:127.0.0.1:6653")
    assert build(icgw(), fail_mode="secure")
    assert build(icgw(spines=1))


def test_the_userspace_datapath_has_no_queues() -> None:
    """Links that keep storage and compute apart are refused there, by name, unless they are not shaped at all."""
    fabric = dumbbell(storage_share=0.3)
    with pytest.raises(LinkError, match=r"^link s1-eth1--s2-eth1: storage and compute .* kernel datapath"):
        build(fabric, userspace=True)
    build(fabric, userspace=True, shaped=False)
    build(fabric)


def test_what_is_not_started_cannot_be_used() -> None:
    """Asking an unbuilt network for a host or its switches is one clear line."""
    network = build(chain())
    with pytest.raises(NodeError, match="there is no host 'h0'"):
        network.host("h0")
    with pytest.raises(NodeError, match="no switch"):
        _ = network.switches
    network.stop()
    network.stop()


def test_echo_checksum() -> None:
    """An echo request adds up to zero with its checksum; its answer is told from strangers'."""
    request = echo_request(77, 5)
    assert checksum(request) == 0
    assert checksum(b"\x00\x01\xf2\x03\xf4\xf5\xf6\xf7") == 0x220D, "the example of RFC 1071"
    ip = bytes([0x45]) + bytes(19)
    reply = ip + bytes([0]) + request[1:]
    assert reply_sequence(reply, 77) == 5
    assert reply_sequence(reply, 78) is None
    assert reply_sequence(ip + request, 77) is None, "a request is not a reply"
    assert reply_sequence(reply[:21], 77) is None
    with_options = bytes([0x46]) + bytes(23) + bytes([0]) + request[1:]
    assert reply_sequence(with_options, 77) == 5


def test_missing_capabilities_name_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without netem or a kernel datapath the one line names the virtual engine."""
    monkeypatch.setattr(capability, "has_netem", lambda: False)
    monkeypatch.setattr(capability, "has_kernel_datapath", lambda: False)
    for require in (capability.require_netem, capability.require_kernel_datapath):
        with pytest.raises(MissingCapability, match=r"^missing (netem|openvswitch): .*'icgw run'$"):
            require()
    with pytest.raises(MissingCapability, match="netem"):
        build(chain()).start()


def test_without_open_vswitch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Open vSwitch gets the package's name."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        MissingCapability, match=r"missing ovsdb-tool: install Open vSwitch \(Debian: openvswitch-switch\)"
    ):
        OpenVSwitch(tmp_path).start()
