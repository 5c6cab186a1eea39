"""A fabric in memory that runs the rules of tenants: packets go from host to host through switches and carriers.

Paths between switches do not matter here, so a packet for another switch comes out of one of its ports to switches at
once. Steering is written down independently of the controller's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from controller.designs import Hop
from controller.flows import (
    ETH_TYPE_IPV4,
    IP_PROTO_ICMP,
    IP_PROTO_TCP,
    IP_PROTO_UDP,
    FlowRule,
    Match,
    Output,
    SetField,
    Table,
)
from controller.flowtable import Switch
from controller.frame import Frame
from controller.tenancy.compile import tenant_program
from controller.tenancy.site import Place, Site
from controller.tenancy.state import TenancyState
from controller.tenancy.violations import Violation, violation_of

TRUNK = 60_000
CLIENT_PORT = 40_001
PROXY_PORT = 50_001
_MOST_VISITS = 10
PROTOCOLS = {"tcp": IP_PROTO_TCP, "udp": IP_PROTO_UDP, "icmp": IP_PROTO_ICMP}


@dataclass(frozen=True)
class Arrival:
    """A packet that a host got.

    Attributes:
        host: Who got it.
        frame: The packet.
    """

    host: str
    frame: Frame


class World:
    """The switches of a site with all that a state asks for.

    Attributes:
        reports: Violations that were reported by the packet that was sent last.
    """

    def __init__(self, site: Site, state: TenancyState) -> None:
        self.site = site
        self.state = state
        self.program = tenant_program(site, state)
        rules: dict[int, list[FlowRule]] = {node.dpid: [] for node in site.fabric.switches if node.dpid}
        for rule in (*self.program.rules, *self._steering(), *self._routing()):
            rules[rule.dpid].append(rule)
        self.switches = {
            dpid: Switch(own, (), [meter for meter in self.program.meters if meter.dpid == dpid])
            for dpid, own in rules.items()
        }
        self._by_mac = {place.mac: place for place in site.places.values()}
        self._by_ip = {place.ip: place for place in site.places.values()}
        self._by_port = {(place.dpid, place.port): place for place in site.places.values()}
        self.reports: list[Violation] = []

    def _steering(self) -> Iterator[FlowRule]:
        for node in self.site.fabric.switches:
            yield FlowRule(node.dpid or 0, Table.STEER, 0, Match(), goto=Table.SPREAD)
        seen = set()
        for client, path in self.site.via.items():
            for service in self.state.services.values():
                server, me = self.site.places[service.node], self.site.places[client]
                for here, there in zip((client, *path), path, strict=False):
                    ends = here != client and Hop.TERMINATE in self.site.hops[here]
                    source = None if here == client else self.site.places[here].ip if ends else me.ip
                    match = {"ipv4_src": source, "ipv4_dst": server.ip, "tcp_dst": service.port}
                    seen.add((here, there, tuple(match.items())))
                if path and Hop.TERMINATE not in self.site.hops[path[-1]]:
                    seen.add((service.node, path[-1], (("ipv4_dst", me.ip), ("tcp_src", service.port))))
        done = set()
        for here, there, match_items in sorted(seen, key=str):
            if (here, match_items) in done:
                continue  # a proxy's connections may go to several others: one will do
            done.add((here, match_items))
            place = self.site.places[here]
            match = Match(in_port=place.port, eth_type=ETH_TYPE_IPV4, ip_proto=IP_PROTO_TCP, **dict(match_items))
            action = SetField("eth_dst", self.site.places[there].mac)
            yield FlowRule(place.dpid, Table.STEER, 100, match, (action,), goto=Table.SPREAD)

    def _routing(self) -> Iterator[FlowRule]:
        for node in self.site.fabric.switches:
            dpid = node.dpid or 0
            yield FlowRule(dpid, Table.SPREAD, 0, Match(), goto=Table.ROUTE)
            for place in self.site.places.values():
                match = Match(eth_dst=place.mac)
                if place.dpid == dpid:
                    yield FlowRule(dpid, Table.ROUTE, 100, match, goto=Table.DELIVER)
                else:
                    yield FlowRule(dpid, Table.ROUTE, 100, match, (Output(TRUNK),))

    def send(self, host: str, frame: Frame) -> list[Arrival]:
        """One packet from a host to whichever hosts get it, carriers not yet asked to pass it on."""
        self.reports = []
        place = self.site.places[host]
        arrivals = []
        waiting = [(place.dpid, place.port, frame)]
        while waiting:
            dpid, port, packet = waiting.pop()
            verdict = self.switches[dpid].process(packet, port)
            self.reports += [found for report in verdict.reports if (found := violation_of(report.rule.cookie))]
            for sent in verdict.sent:
                if sent.port != TRUNK:
                    arrivals.append(Arrival(self._by_port[dpid, sent.port].host, sent.frame))
                    continue
                assert sent.frame.vlan, "a packet crosses the fabric without a segment"
                target = self._by_mac[sent.frame.eth_dst]
                waiting.append((target.dpid, self._trunk(target.dpid), sent.frame))
        return arrivals

    def _trunk(self, dpid: int) -> int:
        fabric = self.site.fabric
        name = next(node.name for node in fabric.switches if node.dpid == dpid)
        for link in fabric.links_of(name):
            port, peer = (link.a_port, link.b) if link.a == name else (link.b_port, link.a)
            if fabric.by_name[peer].is_switch:
                return port
        raise AssertionError("a switch without neighbours was asked to receive")

    def travel(self, host: str, frame: Frame) -> list[Arrival]:
        """One packet to where it ends, through nodes that forward and proxies. The last arrival is the end."""
        arrivals: list[Arrival] = []
        reports: list[Violation] = []
        for _ in range(_MOST_VISITS):
            found = self.send(host, frame)
            reports += self.reports
            assert len(found) <= 1
            arrivals += found
            if not found or not self._passes_on(found[0]):
                self.reports = reports
                return arrivals
            host, frame = found[0].host, self._passed_on(found[0])
        raise AssertionError("a packet never ends")

    def _passes_on(self, arrival: Arrival) -> bool:
        return arrival.host in self.site.hops and arrival.frame.ipv4_dst != self.site.places[arrival.host].ip

    def _passed_on(self, arrival: Arrival) -> Frame:
        place, target = self.site.places[arrival.host], self._by_ip[arrival.frame.ipv4_dst or ""]
        if Hop.TERMINATE in self.site.hops[arrival.host]:
            return replace(
                arrival.frame, eth_src=place.mac, eth_dst=target.mac, ipv4_src=place.ip, tcp_src=PROXY_PORT, ttl=64
            )
        return replace(arrival.frame, eth_src=place.mac, eth_dst=target.mac, ttl=arrival.frame.ttl - 1)

    def answer(self, arrivals: list[Arrival]) -> list[Arrival]:
        """The answer to a request that travelled like this; the last arrival is the client's, if it gets there."""
        back: list[Arrival] = []
        pending = [arrivals[-1], *(one for one in reversed(arrivals[:-1]) if Hop.TERMINATE in self.site.hops[one.host])]
        for asked in pending:
            sender = self.site.places[asked.host]
            target = self._by_ip.get(asked.frame.ipv4_src or "")
            frame = replace(
                asked.frame,
                eth_src=sender.mac,
                eth_dst=target.mac if target else asked.frame.eth_src,
                ipv4_src=asked.frame.ipv4_dst,
                ipv4_dst=asked.frame.ipv4_src,
                tcp_src=asked.frame.tcp_dst,
                tcp_dst=asked.frame.tcp_src,
                tcp_ack=asked.frame.ip_proto == IP_PROTO_TCP,
                udp_src=asked.frame.udp_dst,
                udp_dst=asked.frame.udp_src,
                icmp_type=None if asked.frame.icmp_type is None else 0,
            )
            legs = self.travel(asked.host, frame)
            back += legs
            if not legs:
                break
        return back

    def opening(self, host: str, ip: str, protocol: str, port: int | None, *, source: str | None = None) -> Frame:
        """The first packet of a connection, as the host's kernel would send it."""
        place: Place = self.site.places[host]
        vpc = self.state.home(host)
        own = str(self.state.members(vpc)[host].ip) if vpc else place.ip
        return Frame(
            eth_src=place.mac,
            eth_dst="06:00:00:00:00:01",  # whatever ARP said: switches must not rely on it
            ipv4_src=source or own,
            ipv4_dst=ip,
            ip_proto=PROTOCOLS[protocol],
            tcp_src=CLIENT_PORT if protocol == "tcp" else None,
            tcp_dst=port if protocol == "tcp" else None,
            udp_src=CLIENT_PORT if protocol == "udp" else None,
            udp_dst=port if protocol == "udp" else None,
            icmp_type=8 if protocol == "icmp" else None,
        )
