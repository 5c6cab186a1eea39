"""What Prometheus scrapes, read with Prometheus' own parser; and what violations and groups look like."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.flows import FlowRule, Match, Program, Table
from controller.rest.api import Api
from controller.rest.gauge_labels import flow_labels
from controller.tenancy.violations import Violation
from tests.support.controller_backend import PLAN, FakeBackend


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


def scrape(backend: FakeBackend, target: str = "/metrics") -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Values by name and labels."""
    response = Api(backend).answer("GET", target)
    assert response.status == 200
    assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(response.body.decode()):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {}), f"{sample.name}{labels} is there twice"
            found[sample.name][labels] = sample.value
    return found


def labels(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(values.items()))


S0 = {"dp_id": "0x1", "dp_name": "s0"}
S0_PORT_1 = labels(**S0, port="s0-eth1", port_description="s0-eth1")


def test_ports_have_gauges_names(backend: FakeBackend) -> None:
    """Names, labels and the way of writing datapath ids are Gauge's; speeds are the links' own, in kbit/s."""
    found = scrape(backend)
    for direction, factor in (("rx", 1), ("tx", 2)):
        assert found[f"of_port_{direction}_packets"][S0_PORT_1] == factor
        assert found[f"of_port_{direction}_bytes"][S0_PORT_1] == 10 * factor
    assert found["of_port_tx_dropped"][S0_PORT_1] == 1
    assert found["of_port_rx_errors"][S0_PORT_1] == 0
    assert found["of_port_curr_speed"][S0_PORT_1] == found["of_port_max_speed"][S0_PORT_1] == 100_000_000
    assert found["of_port_state"][S0_PORT_1] == 4
    assert found["of_port_reason"] == {S0_PORT_1: 2}
    local = labels(**S0, port="s0", port_description="s0")
    assert local in found["of_port_rx_bytes"]
    assert local not in found["of_port_curr_speed"]


def test_meters_flows_and_switches(backend: FakeBackend) -> None:
    """Meters with their bands' sums, every flow entry under its table's name, and counters of switches."""
    found = scrape(backend)
    meter = labels(**S0, meter_id="1")
    assert found["of_meter_packet_in_count"][meter] == 30
    assert found["of_meter_packet_band_count"][meter] == 10
    assert found["of_meter_flow_count"][meter] == 2
    for table in {rule.table for rule in PLAN.rules}:
        flows = [rule for rule in PLAN.rules if rule.table is table]
        assert len(found[f"flow_byte_count_{table.name.lower()}"]) == len(flows)
        assert set(found[f"flow_packet_count_{table.name.lower()}"].values()) == {5}
    assert found["of_packet_ins_total"][labels(**S0)] == 4
    assert found["of_flowmsgs_sent_total"][labels(**S0)] == 40
    assert found["of_dp_connections_total"][labels(dp_id="0x5", dp_name="l2")] == 0
    assert found["icgw_failovers_total"][()] == 2
    assert found["icgw_reconciliations_total"][()] == 1
    assert found["icgw_violations_total"][labels(reason="ip-spoofing")] == 6
    assert found["icgw_ready"][()] == 1


def test_flows_can_be_left_out(backend: FakeBackend) -> None:
    """On large fabrics every entry would be a time series."""
    found = scrape(backend, "/metrics?flows=no")
    assert not [name for name in found if name.startswith("flow_")]
    assert "of_port_tx_packets" in found


def test_a_silent_switch_is_left_out(backend: FakeBackend) -> None:
    """One that does not answer, or is not connected, takes nothing away from the others."""
    backend.silent, backend.gone = {1}, {2}
    found = scrape(backend)
    assert found["dp_status"] == {
        labels(dp_id=hex(dpid), dp_name=name): float(dpid > 2)
        for dpid, name in enumerate(("s0", "s1", "l0", "l1", "l2"), 1)
    }
    assert {dict(key)["dp_name"] for key in found["of_port_rx_bytes"]} == {"l0", "l1", "l2"}


def test_labels_of_flows() -> None:
    """OpenFlow 1.3's names, Gauge's extra label for VLANs, and a count of instructions."""
    entry = {
        "table_id": 3,
        "priority": 9,
        "cookie": 77,
        "match": {"dl_vlan": "5", "dl_type": 2048, "nw_proto": 6, "tp_dst": 80, "nw_src": "10.0.0.0/255.0.0.0"},
        "actions": ["METER:1", "OUTPUT:1", "SET_FIELD: {eth_dst:x}", "GOTO_TABLE:4", {"WRITE_ACTIONS": []}],
    }
    assert flow_labels(entry) == {
        "table_id": "3", "priority": "9", "cookie": "77", "inst_count": "4", "vlan_vid": "5", "vlan": "5",
        "eth_type": "2048", "ip_proto": "6", "tcp_dst": "80", "ipv4_src": "10.0.0.0/255.0.0.0",
    }  # fmt: skip


def read(backend: FakeBackend, target: str) -> Any:
    return json.loads(Api(backend).answer("GET", target).body)


def test_violations_by_reason_and_place(backend: FakeBackend) -> None:
    """What the rules counted, where it came in and who is there; and how many reports arrived."""
    for dpid, port in ((3, 3), (4, 3)):
        rule = FlowRule(dpid, Table.ADMIT, 5, Match(in_port=port), cookie=Violation.IP_SPOOFING.cookie)
        backend.core.sessions[dpid].change(Program((rule,)), Program())
    entries = {entry["reason"]: entry for entry in read(backend, "/v1/violations")["violations"]}
    assert set(entries) == {reason.slug for reason in Violation}
    spoofing = entries["ip-spoofing"]
    assert (spoofing["packets"], spoofing["bytes"], spoofing["reported"]) == (10, 1000, 6)
    assert spoofing["sources"] == [
        {"switch": "l0", "port": 3, "host": "g0", "packets": 5},
        {"switch": "l1", "port": 3, "host": "g1", "packets": 5},
    ]
    assert entries["mac-spoofing"]["sources"] == []
    [only] = [e for e in read(backend, "/v1/violations?dpid=4")["violations"] if e["packets"]]
    assert only["packets"] == 5
    found = scrape(backend)
    assert found["icgw_violation_packets"][labels(reason="ip-spoofing")] == 10


def test_groups_are_as_planned_or_not(backend: FakeBackend) -> None:
    """Contents and counters are put together; what differs from the plan is said."""
    groups = read(backend, "/v1/groups")["groups"]
    assert len(groups) == len(PLAN.groups)
    assert all(group["planned"] for group in groups)
    assert groups[0]["buckets"][0]["packets"] == 1
    backend.group_contents = lambda dpid: []  # type: ignore[method-assign,assignment]
    strange = read(backend, "/v1/groups?dpid=1")["groups"]
    assert [(group["planned"], group["kind"], group["buckets"]) for group in strange] == [(False, None, [])] * len(
        strange
    )


def test_links_say_whether_they_are_used(backend: FakeBackend) -> None:
    """All links of the fabric, up and used."""
    links = read(backend, "/v1/links")["links"]
    assert {link["use"] for link in links} == {"used"}
    session = backend.core.sessions[1]
    session.ports.pop(1)
    down = [link for link in read(backend, "/v1/links")["links"] if not link["up"]]
    assert [(link["a"], link["b"], link["use"]) for link in down] == [("s0", "l0", "down")]
