"""``/stats`` and ``/v1.0/topology`` next to Ryu's own ``ofctl_rest`` and ``rest_topology`` on the same switches.

Both are controllers of the same Open vSwitch switches at the same time, so whatever differs is ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import pytest

from controller.client import ControllerClient, NotFound, Refusal, wait_ready
from controller.frame import ARP_REQUEST, BROADCAST, Frame
from emulator.errors import ControllerError
from emulator.model.fabric import Fabric
from tests.support.controller_fabrics import leaf_spine
from tests.support.controller_packets import frame_bytes
from tests.support.controller_process import running_controller
from tests.support.dummy_ovs import DummyOvs, dummy_ovs, far_end, missing
from tests.support.stock_ryu import stock_ryu
from tests.support.waiting import until

FABRIC = leaf_spine(gpus=3, storage=2)
SWITCHES = len(FABRIC.switches)
WAIT_NS = 60_000_000_000
COUNTERS = frozenset(
    {
        *("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "packet_count", "byte_count", "lookup_count"),
        *("matched_count", "duration_sec", "duration_nsec", "packet_in_count", "byte_in_count", "packet_band_count"),
        "byte_band_count",
    }
)
"""Members that differ from one look to the next: of them the types are compared, of all others the values."""
APPLICATIONS = ("ryu.app.ofctl_rest", "ryu.app.rest_topology")


@dataclass
class Both:
    """Two controllers of the same switches."""

    ours: ControllerClient
    theirs: ControllerClient
    ovs: DummyOvs

    def alike(self, path: str, body: object = None) -> Any:
        """Ask both, compare, and return what ours said."""
        ours, theirs = (
            client.get(path) if body is None else client.post(path, body).body for client in (self.ours, self.theirs)
        )
        assert comparable(ours) == comparable(theirs), path
        return ours


def comparable(data: Any) -> Any:
    """Types instead of counters, and lists of objects in a fixed order: switches give theirs in any."""
    if isinstance(data, dict):
        return {key: type(value).__name__ if key in COUNTERS else comparable(value) for key, value in data.items()}
    if isinstance(data, list):
        items = [comparable(item) for item in data]
        return sorted(items, key=json.dumps) if items and isinstance(items[0], dict) else items
    return (type(data).__name__, data)


def declare(client: ControllerClient) -> None:
    """Something that makes groups, meters, and entries with many kinds of matches and actions."""
    client.put("/v1/tenants/t", {})
    client.put("/v1/vpcs/v", {"tenant": "t", "cidrs": ["192.168.0.0/24"]})
    for number in range(2):
        client.put(f"/v1/vpcs/v/nodes/g{number}", {"ip": f"192.168.0.{number + 1}"})
    client.put("/v1/services/s", {"kind": "block", "node": "st0", "port": 4420})
    client.put("/v1/vpcs/v/endpoints/e", {"service": "s", "ip": "192.168.0.9", "port": 4420})
    client.put("/v1/policies/p", {"vpc": "v", "action": "allow"}, wait_s=60)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """All switches are connected to both, and hold what ours put there."""
    if missing():
        pytest.skip(f"Open vSwitch is not installed: {', '.join(missing())}")
    folder = tmp_path_factory.mktemp("both")
    (folder / "ovs").mkdir()
    with ExitStack() as stack:
        ovs = stack.enter_context(dummy_ovs(folder / "ovs"))
        controller = stack.enter_context(running_controller(folder, FABRIC, "gateway", (), "--store", ":memory:"))
        openflow, theirs = stack.enter_context(stock_ryu(folder / "ryu.log", *APPLICATIONS))
        ovs.build(FABRIC, f"tcp:{controller.openflow}")
        ours = wait_ready(f"http://{controller.rest}", SWITCHES, WAIT_NS)
        declare(ours)
        words: list[str] = []
        for node in FABRIC.switches:
            words += ["--", "set-controller", node.name, f"tcp:{controller.openflow}", f"tcp:{openflow}"]
        ovs.vsctl(*words)
        until(lambda: len(theirs.get("/stats/switches")) == SWITCHES, "Ryu has its switches")
        ours.settled(60)
        yield Both(ours, theirs, ovs)
        assert ours.get("/v1/health", wait_ms=20_000)["ready"] is True


def test_switches(both: Both) -> None:
    """The same numbers; Ryu's are in no order."""
    assert sorted(both.theirs.get("/stats/switches")) == both.ours.get("/stats/switches") == [1, 2, 3, 4, 5]


READ = (
    *("desc", "flow", "flowdesc", "aggregateflow", "table", "port", "queue", "queueconfig", "meterfeatures"),
    *("meterconfig", "meter", "groupfeatures", "groupdesc", "group", "portdesc", "role"),
)


@pytest.mark.parametrize("resource", READ)
@pytest.mark.parametrize("dpid", [1, 3])
def test_what_can_be_read(both: Both, resource: str, dpid: int) -> None:
    """Member by member: names, types, and values that are no counters; of a spine and of a leaf."""
    answer = both.alike(f"/stats/{resource}/{dpid}")
    assert answer.keys() == {str(dpid)}
    if dpid == 3:
        # Comparing nothing with nothing would prove nothing. Queues exist only on real interfaces.
        assert answer["3"] or resource == "queue"


def test_features_of_tables(both: Both) -> None:
    """254 tables with all that each can do: megabytes, which are equal."""
    ours, theirs = (client.get("/stats/tablefeatures/1") for client in (both.ours, both.theirs))
    assert ours == theirs
    assert len(ours["1"]) > 200


def test_parts(both: Both) -> None:
    """One port, queue, meter or group, and ``ALL``; as decimal and hexadecimal numbers."""
    [group, *_] = both.ours.get("/stats/groupdesc/3")["3"]
    for path in (
        *("port/3/1", "port/3/2", "queue/3/ALL", "queue/3/ALL/0", "queue/3/1", "queueconfig/3/1", "meter/3/1"),
        *("meterconfig/3/1", f"group/3/{group['group_id']}", f"groupdesc/3/{group['group_id']}", "portdesc/3/1"),
    ):
        both.alike(f"/stats/{path}")
    assert [port["port_no"] for port in both.alike("/stats/port/3/2")["3"]] == [2]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"table_id": 0},
        {"match": {"in_port": 1}},
        {"table_id": 0, "match": {"dl_type": 2048}},
        {"table_id": 6, "match": {"eth_dst": FABRIC.by_name["g0"].mac}},
        {"priority": 100},
        {"out_port": 1},
        {"out_group": 1},
        {"cookie": 1, "cookie_mask": 1},
        {"match": {"nw_dst": "10.0.0.0/8", "dl_type": "0x0800"}},
    ],
)
@pytest.mark.parametrize("resource", ["flow", "aggregateflow"])
def test_filters(both: Both, resource: str, body: dict[str, Any]) -> None:
    """The same entries are chosen."""
    both.alike(f"/stats/{resource}/3", body)


@pytest.mark.parametrize("path", ["queuedesc/1", "meterdesc/1", "desc/77", "flow/77", "port/77/1", "flowentry/clear/1"])
def test_refusals(both: Both, path: str) -> None:
    """The same status: what OpenFlow 1.3 has not, switches that there are not, methods that do not fit."""
    found = []
    for client in (both.ours, both.theirs):
        with pytest.raises(ControllerError) as raised:
            client.get(f"/stats/{path}")
        found.append(raised.value.status if isinstance(raised.value, Refusal) else _status(client, path))
    ours, theirs = found
    # Where Ryu's routes have another resource under another method, it says that there is none.
    assert ours == theirs or (ours, theirs) == (405, 404)


def _status(client: ControllerClient, path: str) -> int:
    """The status of an answer whose body is not JSON: Ryu's problems are HTML."""
    with closing(client._wire.connection(30)) as connection:
        return client._wire.begin(connection, "GET", f"/stats/{path}", None, {}).status


# --- changes ----------------------------------------------------------------------------------------------------------

TABLE = 100
"""A table that the controller does not use."""
MAC = "02:00:00:00:00:09"
FLOWS: tuple[dict[str, Any], ...] = (
    {"priority": 11, "match": {"in_port": 1}, "actions": [{"type": "OUTPUT", "port": 2}]},
    {"priority": 12, "match": {"dl_type": "0x800", "nw_proto": 6, "tp_dst": 80}, "actions": []},
    {"priority": 13, "match": {"eth_type": 2048, "ipv4_src": "10.0.0.0/255.0.0.0", "ip_proto": 17, "udp_dst": 53}},
    {"priority": 14, "match": {"dl_vlan": 5}, "actions": [{"type": "POP_VLAN"}, {"type": "OUTPUT", "port": "IN_PORT"}]},
    {"priority": 15, "match": {"dl_vlan": "0x1000/0x1000"}, "actions": [{"type": "CLEAR_ACTIONS"}]},
    {
        "priority": 16, "cookie": "0x10", "idle_timeout": 30, "hard_timeout": 60, "flags": 1,
        "match": {"dl_dst": MAC, "dl_src": "02:00:00:00:00:00/ff:00:00:00:00:00"},
        "actions": [
            {"type": "PUSH_VLAN", "ethertype": 33024}, {"type": "SET_FIELD", "field": "vlan_vid", "value": 4102},
            {"type": "SET_FIELD", "field": "eth_dst", "value": MAC}, {"type": "SET_QUEUE", "queue_id": 1},
            {"type": "GROUP", "group_id": 900}, {"type": "GOTO_TABLE", "table_id": 101},
        ],
    },
    {
        "priority": 17, "match": {"metadata": "0x1/0xff", "dl_type": 2054, "arp_op": 1, "arp_tpa": "10.0.0.1"},
        "actions": [
            {"type": "WRITE_METADATA", "metadata": 5, "metadata_mask": "0xff"}, {"type": "METER", "meter_id": 900},
            {"type": "WRITE_ACTIONS", "actions": [{"type": "OUTPUT", "port": "CONTROLLER"}]},
        ],
    },
    {
        "priority": 18, "match": {"dl_type": 34525, "ipv6_dst": "fe80::1", "nw_proto": 58, "icmpv6_type": 135},
        "actions": [{"type": "DEC_NW_TTL"}, {"type": "OUTPUT", "port": "0xfffffffd", "max_len": 128}],
    },
)  # fmt: skip
CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "groupentry/add",
        {
            "type": "SELECT", "group_id": 900,
            "buckets": [
                {"weight": 1, "actions": [{"type": "OUTPUT", "port": 1}]},
                {"weight": 2, "actions": [{"type": "SET_FIELD", "field": "eth_dst", "value": MAC},
                                          {"type": "OUTPUT", "port": 2}]},
            ],
        },
    ),
    ("groupentry/add", {"type": "FF", "group_id": 901, "buckets": [{"watch_port": 1, "actions": []}]}),
    ("groupentry/modify", {"type": "ALL", "group_id": 901, "buckets": [{"actions": [{"type": "OUTPUT", "port": 1}]}]}),
    ("meterentry/add", {"flags": "KBPS", "meter_id": 900, "bands": [{"type": "DROP", "rate": 1000}]}),
    ("meterentry/add", {"flags": ["PKTPS", "BURST", "STATS"], "meter_id": 901,
                        "bands": [{"type": "DROP", "rate": 10, "burst_size": 5}]}),
    ("meterentry/modify", {"flags": ["KBPS"], "meter_id": 901, "bands": [{"type": "DROP", "rate": 77}]}),
    *(("flowentry/add", {"table_id": TABLE, **flow}) for flow in FLOWS),
    ("flowentry/modify", {"table_id": TABLE, "match": {"in_port": 1}, "actions": [{"type": "OUTPUT", "port": 3}]}),
    ("flowentry/modify_strict", {"table_id": TABLE, **FLOWS[1], "actions": [{"type": "OUTPUT", "port": 1}]}),
    ("flowentry/delete_strict", {"table_id": TABLE, "priority": 13, "match": FLOWS[2]["match"]}),
    ("flowentry/delete", {"table_id": TABLE, "match": {"dl_vlan": 5}}),
    ("portdesc/modify", {"port_no": 2, "config": 4, "mask": 4}),
)  # fmt: skip
UNDO: tuple[tuple[str, dict[str, Any]], ...] = (
    ("flowentry/delete", {"table_id": TABLE}),
    *(("groupentry/delete", {"group_id": number}) for number in (900, 901)),
    *(("meterentry/delete", {"meter_id": number}) for number in (900, 901)),
    ("portdesc/modify", {"port_no": 2, "config": 0, "mask": 4}),
)
LOOK = ("groupdesc/2", "meterconfig/2", "portdesc/2", "group/2", "flow/2")


def test_changes_have_the_same_outcome(both: Both) -> None:
    """The same bodies, sent to Ryu and then to ours, leave a switch with the same groups, meters, ports and entries.

    Read by Ryu's resources each time, so that it is Ryu who says what there is.
    """

    def outcome(client: ControllerClient) -> list[Any]:
        for path, body in CHANGES:
            client.post(f"/stats/{path}", {"dpid": 2, **body})
        # What was sent before on the same connection is done when this is answered.
        client.get("/stats/role/2")
        found = [comparable(both.theirs.get(f"/stats/{path}")) for path in LOOK]
        for path, body in UNDO:
            client.post(f"/stats/{path}", {"dpid": 2, **body})
        client.get("/stats/role/2")
        return found

    untouched = [comparable(both.theirs.get(f"/stats/{path}")) for path in LOOK]
    theirs, ours = outcome(both.theirs), outcome(both.ours)
    assert ours == theirs
    assert all(before != changed for before, changed in zip(untouched, theirs, strict=True))
    added = [flow for flow in theirs[-1]["2"] if flow["table_id"] == ("int", TABLE)]
    assert len(added) == len(FLOWS) - 2
    assert [comparable(both.theirs.get(f"/stats/{path}")) for path in LOOK] == untouched


# --- topology ---------------------------------------------------------------------------------------------------------


def _arp(fabric: Fabric, host: str) -> bytes:
    node = fabric.by_name[host]
    address = str(node.ip.ip) if node.ip else ""
    fields = {"arp_op": ARP_REQUEST, "arp_spa": address, "arp_tpa": "10.0.0.99", "arp_sha": node.mac}
    return frame_bytes(Frame(node.mac or "", BROADCAST, 0x0806, **fields), 0)  # type: ignore[arg-type]


def test_topology(both: Both) -> None:
    """What Ryu has found by LLDP and by listening to hosts is what ours says of the fabric: all values are equal.

    Steps: let each leaf hand ARP over, send one request from every host, and wait until Ryu has heard of all.
    """
    until(lambda: len(both.theirs.get("/v1.0/topology/links")) == 2 * 6, "Ryu has found all links")
    rule = "table=0,priority=60000,arp"
    leaves = [node for node in FABRIC.switches if node.name.startswith("l")]
    for leaf in leaves:
        both.ovs.ofctl("add-flow", leaf.name, f"{rule},actions=controller")
    for host in FABRIC.hosts:
        assert far_end(FABRIC, host.name)
        both.ovs.send(FABRIC, host.name, _arp(FABRIC, host.name))
    until(lambda: len(both.theirs.get("/v1.0/topology/hosts")) == len(FABRIC.hosts), "Ryu knows all hosts")
    for leaf in leaves:
        both.ovs.ofctl("--strict", "del-flows", leaf.name, rule)
    for what in ("switches", "links", "hosts"):
        assert both.alike(f"/v1.0/topology/{what}")
        for node in FABRIC.switches:
            both.alike(f"/v1.0/topology/{what}/{node.dpid:016x}")
        assert both.alike(f"/v1.0/topology/{what}/00000000000000ff") == []
    for path in ("switches/1", "links/0x1", "hosts/000000000000000G", "switch"):
        with pytest.raises(NotFound):
            both.ours.get(f"/v1.0/topology/{path}")
        with pytest.raises(ControllerError):
            both.theirs.get(f"/v1.0/topology/{path}")
