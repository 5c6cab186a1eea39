"""``/metrics``: Prometheus text under the names and labels of Faucet's Gauge, and a few of our own.

A scrape asks all connected switches. One that does not answer is left out, and said to be down by ``dp_status``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from controller.flows import Table
from controller.gateways.session import Phase
from controller.rest.backend import Backend, NotConnected, Silent, SilentGateway, Tallies
from controller.rest.gateways import frames_by_reason
from controller.rest.gauge_labels import flow_labels
from controller.rest.http import Request, Response
from controller.rest.parameters import Choice
from controller.rest.routes import Route, Success
from controller.tenancy.violations import Violation, violation_of

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FLOWS = Choice("flows", "Whether to list every flow entry.", choices=("yes", "no"), default="yes")
_PORT_COUNTS = tuple(
    f"{direction}_{what}" for what in ("packets", "bytes", "dropped", "errors") for direction in ("tx", "rx")
)
_UNKNOWN = (1 << 64) - 1
_METER_COUNTS = ("flow_count", "byte_in_count", "packet_in_count")
_BAND_COUNTS = ("byte_band_count", "packet_band_count")
_DP = ("dp_id", "dp_name")
_PORT = (*_DP, "port", "port_description")
_GATEWAY = ("gateway",)
_BPS_PER_KBPS = 1000


class MetricsResource:
    """Answers by asking all switches."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route(
                "GET",
                "/metrics",
                self.metrics,
                "Counters for Prometheus, under the names of Faucet's Gauge",
                "controller",
                {200: Success("The counters.", {"type": "string"}, content_type=CONTENT_TYPE)},
                parameters=(FLOWS,),
            )
        ]

    def metrics(self, request: Request) -> Response:
        """All counters."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Scrape(self._backend, flows=FLOWS.read(request) == "yes"))
        return Response(200, generate_latest(registry), CONTENT_TYPE)


class _Scrape(Collector):
    """One look at all switches."""

    def __init__(self, backend: Backend, *, flows: bool) -> None:
        self._backend = backend
        self._core = backend.core
        self._flows = flows
        self._families: dict[str, GaugeMetricFamily] = {}
        self._dropped = dict.fromkeys(Violation, 0)
        self._rates = {
            end: link.spec.rate_bps
            for link in backend.core.plan.fabric.links
            for end in ((link.a, link.a_port), (link.b, link.b_port))
        }

    def describe(self) -> Iterable[Metric]:
        """Nothing: what there is depends on the switches."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Ask and count."""
        up = self._gauge("dp_status", "status of datapaths", _DP)
        connected = set(self._backend.connected())
        for dpid, session in self._core.sessions.items():
            labels = (hex(dpid), session.name)
            answered = dpid in connected
            if answered:
                try:
                    self._switch(dpid, labels)
                except (NotConnected, Silent):
                    answered = False
            up.add_metric(labels, float(answered))
        yield from self._families.values()
        yield from self._counters()
        yield from self._gateways()

    def _switch(self, dpid: int, labels: tuple[str, str]) -> None:
        session = self._core.sessions[dpid]
        flows = self._backend.flows(dpid)
        ports = self._backend.ports(dpid)
        described = {port["port_no"]: port for port in self._backend.ofctl_read(dpid, "get_port_desc")}
        meters = self._backend.ofctl_read(dpid, "get_meter_stats")
        reasons = self._backend.tallies().port_reasons
        for stat in ports:
            interface = session.expected_ports.get(stat.port)
            known = described.get(stat.port) or described.get("LOCAL", {})
            name = interface or known.get("name") or str(stat.port)
            of_port = (*labels, name, interface or name)
            for count in _PORT_COUNTS:
                value = getattr(stat, count)
                if value != _UNKNOWN:
                    self._gauge(f"of_port_{count}", "", _PORT).add_metric(of_port, value)
            if interface is None:
                continue
            # Open vSwitch knows nothing of the emulated links' speed, so it comes from the fabric. In kbit/s, as in
            # OpenFlow.
            rate_kbps = self._rates[session.name, stat.port] // _BPS_PER_KBPS
            for what in ("curr_speed", "max_speed"):
                self._gauge(f"of_port_{what}", "", _PORT).add_metric(of_port, rate_kbps)
            if "state" in known:
                self._gauge("of_port_state", "", _PORT).add_metric(of_port, known["state"])
            if (dpid, stat.port) in reasons:
                self._gauge("of_port_reason", "", _PORT).add_metric(of_port, reasons[dpid, stat.port])
        self._add_meters(meters, labels)
        for flow in flows:
            reason = violation_of(flow.rule.cookie) if flow.rule else None
            if reason is not None:
                self._dropped[reason] += flow.packets
            if self._flows:
                self._add_flow(flow.ryu, flow.bytes, flow.packets, labels)

    def _add_meters(self, meters: list[dict[str, Any]], labels: tuple[str, str]) -> None:
        for meter in meters:
            of_meter = (*labels, str(meter["meter_id"]))
            bands = meter["band_stats"]
            values = {name: meter[name] for name in _METER_COUNTS}
            values |= {name: sum(band[name] for band in bands) for name in _BAND_COUNTS}
            for name, value in values.items():
                self._gauge(f"of_meter_{name}", "", (*_DP, "meter_id")).add_metric(of_meter, value)

    def _add_flow(self, entry: Mapping[str, Any], octets: int, packets: int, labels: tuple[str, str]) -> None:
        number = entry["table_id"]
        table = Table(number).name.lower() if number in list(Table) else str(number)
        tags = dict(zip(_DP, labels, strict=True)) | flow_labels(entry)
        for what, value in (("flow_byte_count", octets), ("flow_packet_count", packets)):
            family = self._gauge(f"{what}_{table}", "", ())
            # Every entry has its own labels: empty ones are the same as none to Prometheus.
            family.add_sample(family.name, tags, value)

    def _gauge(self, name: str, description: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = GaugeMetricFamily(name, description, labels=labels)
        return family

    def _counters(self) -> Iterator[Metric]:
        tallies = self._backend.tallies()
        for name, description, counts in _by_switch(tallies):
            family = CounterMetricFamily(name, description, labels=_DP)
            for dpid, session in self._core.sessions.items():
                family.add_metric((hex(dpid), session.name), counts.get(dpid, 0))
            yield family
        dropped = GaugeMetricFamily(
            "icgw_violation_packets", "packets dropped by the rules that switches have now", labels=("reason",)
        )
        reported = CounterMetricFamily("icgw_violations", "reports of violations that arrived", labels=("reason",))
        for reason in Violation:
            dropped.add_metric((reason.slug,), self._dropped[reason])
            reported.add_metric((reason.slug,), tallies.violations.get(reason, 0))
        yield dropped
        yield reported
        yield CounterMetricFamily(
            "icgw_failovers", "how often paths were computed anew after a failure or repair", value=tallies.failovers
        )
        yield CounterMetricFamily(
            "icgw_reconciliations", "how often a switch had to be changed after it was read",
            value=tallies.reconciliations,
        )  # fmt: skip
        yield GaugeMetricFamily("icgw_ready", "whether everything is as planned", value=float(self._core.ready))

    def _gateways(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily("icgw_gateway_ready", "whether a gateway has what it should", labels=_GATEWAY)
        rules = GaugeMetricFamily("icgw_gateway_rules", "rules that a gateway should have", labels=_GATEWAY)
        counts = {
            "connections": CounterMetricFamily("icgw_gateway_connections", "connections to it", labels=_GATEWAY),
            "disconnections": CounterMetricFamily("icgw_gateway_disconnections", "connections lost", labels=_GATEWAY),
            "refusals": CounterMetricFamily("icgw_gateway_refusals", "policies it did not take", labels=_GATEWAY),
        }
        frames = CounterMetricFamily("icgw_gateway_frames", "frames by their fate", labels=(*_GATEWAY, "reason"))
        for status in self._backend.gateways():
            ready.add_metric((status.name,), float(status.state is Phase.READY))
            rules.add_metric((status.name,), status.rules)
            for name, family in counts.items():
                family.add_metric((status.name,), getattr(status, name))
            try:
                figures = self._backend.gateway_statistics(status.name)
            except SilentGateway:
                figures = None
            for reason, count in frames_by_reason(figures).items():
                frames.add_metric((status.name, reason), count)
        yield from (ready, rules, *counts.values(), frames)


def _by_switch(tallies: Tallies) -> tuple[tuple[str, str, Mapping[int, int]], ...]:
    return (
        ("of_packet_ins", "number of OF packet_ins received from DP", tallies.packet_ins),
        ("of_flowmsgs_sent", "number of OF flow messages (and packet outs) sent to DP", tallies.flow_messages),
        ("of_errors", "number of OF errors received from DP", tallies.errors),
        ("of_dp_connections", "number of OF connections from a DP", tallies.connections),
        ("of_dp_disconnections", "number of OF disconnections of a DP", tallies.disconnections),
    )
