"""Each stage of the data plane against an oracle: linear searches, dictionaries, and scapy's own packets."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from gateway.dataplane.classify import Classes, Classifier, Service, Tenants, classify
from gateway.dataplane.lookup import MISSING, ExactTable, Network, Prefix, PrefixTable
from gateway.dataplane.parse import parse
from gateway.dataplane.pipeline import Configuration, Pipeline
from gateway.dataplane.policy import Policy, Rule, judge
from gateway.dataplane.reasons import Reason
from gateway.dataplane.route import NextHop, Route, Tunnel
from gateway.dataplane.translate import Endpoint
from tests.support.dataplane_frames import GATEWAY, NEXT, PORTS, V4, V6, Batch, ethernet, ipv4, layer4s, networks
from tests.support.dataplane_reference import look

MAC, NEIGHBOUR = (bytes.fromhex(text.replace(":", "")) for text in (GATEWAY, NEXT))
ROOM = 80
NETWORKS = [
    ip_network(text)
    for text in (
        *("0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/31", "10.0.0.2/32", "10.1.0.0/16", "192.0.2.0/24", "128.0.0.0/1"),
        *("255.255.255.255/32", "::/0", "fd00::/8", "fd00::1/128", "fd00::/127", "2001:db8::/32"),
    )
]


# Look-ups


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(NETWORKS)), max_size=12, unique=True),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from((*V4, *V6, "10.0.0.3", "fd00::3", "127.255.255.255")))),
)
def test_the_longest_prefix_is_found(entries: list[tuple[int, Network]], asked: list[tuple[int, str]]) -> None:
    """The same as a search through all prefixes, for both families, per scope."""
    table = PrefixTable(Prefix(scope, network, value) for value, (scope, network) in enumerate(entries))
    addresses = [ip_address(text) for _, text in asked]
    scope = np.array([scope for scope, _ in asked], np.int64)
    family = np.array([address.version for address in addresses], np.int64)
    high = np.array([int(address) >> 64 for address in addresses], np.uint64)
    low = np.array([int(address) & (2**64 - 1) for address in addresses], np.uint64)
    for row, found in enumerate(table.find(scope, family, high, low)):
        matching = [
            (network.prefixlen, value)
            for value, (one, network) in enumerate(entries)
            if one == scope[row] and addresses[row] in network
        ]
        assert found == (max(matching)[1] if matching else MISSING)


class ExactTables(RuleBasedStateMachine):
    """An `ExactTable` next to a dictionary. Keys collide often: the table is small and so are they."""

    KEYS = st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2**63, 2**64 - 1]))

    def __init__(self) -> None:
        super().__init__()
        self.table, self.model = ExactTable(2, 12), {}  # type: ignore[var-annotated]

    @rule(key=KEYS, value=st.integers(0, 9))
    def put(self, key: tuple[int, int], value: int) -> None:
        if key not in self.model and len(self.model) == 12:
            with pytest.raises(OverflowError):
                self.table.put(key, value)
        else:
            self.table.put(key, value)
            self.model[key] = value

    @rule(key=KEYS)
    def remove(self, key: tuple[int, int]) -> None:
        assert self.table.remove(key) == (self.model.pop(key, None) is not None)

    @rule(keys=st.lists(KEYS, unique=True), value=st.integers(0, 9))
    def put_new(self, keys: list[tuple[int, int]], value: int) -> None:
        keys = [key for key in keys if key not in self.model]
        columns = [np.array([key[part] for key in keys], np.uint64) for part in (0, 1)]
        values = np.arange(value, value + len(keys), dtype=np.int64)
        if len(keys) + len(self.model) > 12:
            with pytest.raises(OverflowError):
                self.table.put_new(columns, values)
        else:
            self.table.put_new(columns, values)
            self.model.update(zip(keys, values.tolist(), strict=True))

    @rule(keys=st.lists(KEYS, unique=True), few=st.booleans())
    def remove_all(self, keys: list[tuple[int, int]], few: bool) -> None:
        keys = [key for key in keys if key in self.model]
        columns = [np.array([key[part] for key in keys], np.uint64) for part in (0, 1)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gateway.dataplane.lookup._FEW", 64 if few else -1)
            self.table.remove_all(columns)
        for key in keys:
            del self.model[key]

    @precondition(lambda self: len(self.model) > 8)
    @rule()
    def clear(self) -> None:
        self.table.clear()
        self.model.clear()

    @invariant()
    def same(self) -> None:
        keys = [(first, second) for first in range(4) for second in (0, 1, 2**63, 2**64 - 1)]
        columns = [np.array(column, np.uint64) for column in zip(*keys, strict=True)]
        assert self.table.find(columns).tolist() == [self.model.get(key, MISSING) for key in keys]
        assert [self.table.get(key) for key in keys] == [self.model.get(key, MISSING) for key in keys]
        assert len(self.table) == len(self.model)


TestExactTables = ExactTables.TestCase
TestExactTables.settings = settings(max_examples=40)


# Policy and classes

ports = st.sampled_from([(0, 65535)] * 5 + [(80, 80), (0, 1023), (4420, 9000), (65535, 65535)])
rules = st.lists(
    st.builds(
        Rule,
        allow=st.booleans(),
        tenant=st.sampled_from([None] * 4 + [0, 1]),
        service=st.sampled_from([None] * 9 + [*Service]),
        protocol=st.sampled_from([None] * 3 + [6, 17, 1]),
        source=st.sampled_from([None] * 12 + NETWORKS),
        target=st.sampled_from([None] * 12 + NETWORKS),
        source_ports=ports,
        target_ports=ports,
    ),
    max_size=6,
)


def matches(one: Rule, tenant: int, service: int, data: bytes) -> bool:
    """Whether a rule matches a frame, as one would write it."""
    found = look(data)
    address = IPv4Address if found.family == 4 else IPv6Address
    source, target = address(found.source), address(found.target)
    return (
        one.tenant in (None, tenant)
        and one.service in (None, service)
        and one.protocol in (None, found.protocol)
        and (one.source is None or source in one.source)
        and (one.target is None or target in one.target)
        and one.source_ports[0] <= found.source_port <= one.source_ports[1]
        and one.target_ports[0] <= found.target_port <= one.target_ports[1]
    )


@given(rules, st.lists(networks(), min_size=1, max_size=6), st.sampled_from([0, 63, 64, 130]))
def test_the_first_rule_that_matches_decides(some: list[Rule], packets: list[Packet], before: int) -> None:
    """The same rule as a search from the top, also behind so many others that none matches; no match is a denial."""
    never = Rule(True, protocol=255, source_ports=(7, 7))
    policy = Policy([never] * before + some)
    batch = Batch.of([ethernet(packet) for packet in packets])
    headers = parse(batch.memory, batch.offsets, batch.lengths)
    tenant = np.arange(headers.size, dtype=np.int64) % 2
    service = np.arange(headers.size, dtype=np.int64) % len(Service)
    reasons = headers.reason.copy()
    met = judge(headers, Classes(tenant, service), policy)
    for row in np.flatnonzero(reasons == 0):
        data = batch.frame(int(row))
        first = next((at for at, one in enumerate(some) if matches(one, tenant[row], service[row], data)), len(some))
        assert met[row] == before + first
        allowed = first < len(some) and some[first].allow
        assert headers.reason[row] == (Reason.FORWARDED if allowed else Reason.DENIED)
    assert (headers.reason[reasons != 0] == reasons[reasons != 0]).all()


def test_classes() -> None:
    """Tenants by port, tag and network identifier; services by either port; strangers and spoofed sources."""
    inner = Ether(ethernet(ipv4(TCP(sport=1, dport=2049), src="10.0.0.9")))
    tunnel = ipv4(UDP(sport=9, dport=4789) / VXLAN(vni=70, flags=8) / inner, src="192.0.2.1")
    cases: Sequence[tuple[bytes, int, Service, Reason]] = [
        (ethernet(ipv4(TCP(sport=1, dport=4420))), 0, Service.BLOCK, Reason.FORWARDED),
        (ethernet(ipv4(TCP(sport=9000, dport=5)), [7]), 1, Service.OBJECT, Reason.FORWARDED),
        (ethernet(ipv4(TCP(sport=4791, dport=5)), [7, 9]), 1, Service.OTHER, Reason.FORWARDED),
        (ethernet(ipv4(UDP(sport=5, dport=4791) / Raw(bytes(16))), [7]), 1, Service.COMPUTE, Reason.FORWARDED),
        (ethernet(ipv4(UDP(sport=5, dport=4420)), [0]), 0, Service.OTHER, Reason.FORWARDED),
        (ethernet(ipv4(TCP(sport=1, dport=1)), [8]), MISSING, Service.OTHER, Reason.NO_TENANT),
        (ethernet(tunnel), 2, Service.FILE, Reason.FORWARDED),
        (ethernet(ipv4(TCP(sport=1, dport=1), src="10.9.0.1")), 0, Service.OTHER, Reason.SPOOFED),
        (ethernet(ipv4(TCP(sport=1, dport=1), src="10.9.0.1"), [7]), 1, Service.OTHER, Reason.FORWARDED),
        (ethernet(IPv6(src="fd00::1", dst="fd00::2") / TCP(sport=1, dport=2)), 0, Service.OTHER, Reason.FORWARDED),
        (ethernet(IPv6(src="fd01::1", dst="fd00::2") / TCP(sport=1, dport=2)), 0, Service.OTHER, Reason.SPOOFED),
    ]
    addresses = {0: [ip_network("10.0.0.0/24"), ip_network("fd00::/64")], 2: [ip_network("10.0.0.9")]}
    tenants = Tenants(by_vlan={7: 1}, by_port={3: 0}, by_vni={70: 2}, addresses=addresses)
    batch = Batch.of([data for data, _, _, _ in cases])
    headers = parse(batch.memory, batch.offsets, batch.lengths)
    classes = classify(headers, 3, Classifier(tenants))
    assert list(zip(classes.tenant, classes.service, headers.reason, strict=True)) == [case[1:] for case in cases]
    headers = parse(batch.memory, batch.offsets[:1], batch.lengths[:1])
    assert classify(headers, 4, Classifier(tenants)).tenant[0] == MISSING
    assert headers.reason[0] == Reason.NO_TENANT


@pytest.mark.parametrize(
    ("tenants", "says"),
    [
        (Tenants(by_vlan={0: 1}), "a VLAN is a number from 1 to 4094, not 0"),
        (Tenants(by_vlan={4095: 1}), "not 4095"),
        (Tenants(by_port={256: 1}), "a port is a number from 0 to 255, not 256"),
        (Tenants(by_vni={1 << 24: 1}), "a VNI"),
        (Tenants(by_vlan={1: -1}), "a tenant is a number from 0 to 65535, not -1"),
    ],
)
def test_impossible_tenants(tenants: Tenants, says: str) -> None:
    """What cannot be is said in one line."""
    with pytest.raises(ValueError, match=says):
        Classifier(tenants)


# Rewriting

endpoint_ports = st.sampled_from([port for port in PORTS if port])


@st.composite
def endpoints(draw: st.DrawFn) -> list[Endpoint]:
    """Services of both families for the addresses that frames have, with backends at addresses that they have not."""
    made: dict[tuple[object, ...], Endpoint] = {}
    for number in range(draw(st.integers(0, 6))):
        protocol, port = draw(st.sampled_from([6, 17])), draw(endpoint_ports)
        tenant = draw(st.sampled_from([None, 0, 1]))
        if draw(st.booleans()):
            address, backend = (
                ip_address(draw(st.sampled_from(V4))),
                ip_address(f"172.16.{draw(st.integers(0, 255))}.1"),
            )
        else:
            address, backend = (
                ip_address(draw(st.sampled_from(V6))),
                ip_address(f"fd77::{draw(st.integers(0, 65535)):x}"),
            )
        made[protocol, port, tenant, address] = Endpoint(protocol, address, port, backend, 20000 + number, tenant)
    return list(made.values())


def gateway(endpoints_: Sequence[Endpoint] = (), hop: NextHop | None = None, ends: str | None = None) -> Pipeline:
    """A gateway that lets everything pass to one next hop."""
    everywhere = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    return Pipeline(
        Configuration(
            macs={0: MAC},
            tenants=Tenants(by_port={0: 0}, by_vlan={5: 1}, by_vni={70: 1}),
            rules=[Rule(True)],
            routes=[Route(tenant, network, 1) for tenant in (0, 1) for network in everywhere],
            next_hops=[hop or NextHop(2, NEIGHBOUR, MAC)],
            endpoints=endpoints_,
            tunnel_ends=[IPv4Address(ends)] if ends else [],
            flow_capacity=64,
        )
    )


def run(pipeline: Pipeline, frames: Sequence[bytes], room: int = ROOM) -> list[tuple[Reason, int, bytes]]:
    """Reason, port and bytes of each frame after the pipeline."""
    batch = Batch.of(frames, ROOM, last=1)
    room_of_each = np.full(batch.offsets.size, room, np.int64)
    verdicts = pipeline.process(batch.memory, batch.offsets, batch.lengths, room_of_each, 0, 0)
    out = Batch(batch.memory, verdicts.offsets, verdicts.lengths)
    return [(Reason(int(r)), int(verdicts.port[row]), out.frame(row)) for row, r in enumerate(verdicts.reason)]


def expected(data: bytes, tenant: int, wanted: Sequence[Endpoint]) -> bytes:
    """What scapy makes of a frame that is forwarded: new addresses, and checksums computed anew where there are any."""
    frame = Ether(data)
    frame.src, frame.dst = GATEWAY, NEXT
    network = frame[IP] if IP in frame else frame[IPv6]
    version, layer4 = network.version, network.lastlayer()
    while layer4 is not None and not isinstance(layer4, (TCP, UDP)) and layer4.underlayer is not None:
        layer4 = layer4.underlayer
    if isinstance(layer4, (TCP, UDP)):
        changed = _translate(network, layer4, tenant, wanted, 6 if isinstance(layer4, TCP) else 17)
        if changed and not (isinstance(layer4, UDP) and not layer4.chksum):
            del layer4.chksum
    if version == 4:
        network.ttl -= 1
        del network.chksum
    else:
        network.hlim -= 1
    return bytes(frame)


def _translate(network: Packet, layer4: Packet, tenant: int, wanted: Sequence[Endpoint], protocol: int) -> bool:
    own = [e for e in wanted if e.tenant == tenant] + [e for e in wanted if e.tenant is None]
    source, target = (ip_address(network.src), layer4.sport), (ip_address(network.dst), layer4.dport)
    changed = False
    for e in own:
        if e.protocol == protocol and (e.address, e.port) == target:
            network.dst, layer4.dport, changed = str(e.backend), e.backend_port, True
            break
    for e in own:
        if e.protocol == protocol and (e.backend, e.backend_port) == source:
            network.src, layer4.sport, changed = str(e.address), e.port, True
            break
    return changed


@st.composite
def from_backends(draw: st.DrawFn, some: Sequence[Endpoint]) -> Packet:
    """An answer of one of the backends."""
    e = draw(st.sampled_from(list(some)))
    layer4 = (TCP if e.protocol == 6 else UDP)(sport=e.backend_port, dport=draw(endpoint_ports))
    family = IP if e.address.version == 4 else IPv6
    return family(src=str(e.backend), dst="10.0.0.7" if family is IP else "fd00::7") / layer4 / Raw(b"answer")


@settings(max_examples=50)
@given(st.data(), endpoints())
def test_forwarded_frames_are_what_scapy_builds(data: st.DataObject, some: list[Endpoint]) -> None:
    """Translated or not, both families, tagged or not: each byte is what scapy makes, also of a known flow's frames."""
    packets = data.draw(st.lists(networks(), min_size=1, max_size=5))
    if some:
        packets += data.draw(st.lists(from_backends(some), max_size=3))
    frames = [ethernet(packet, [5] if data.draw(st.booleans()) else []) for packet in packets]
    pipeline = gateway(some, NextHop(2, NEIGHBOUR, MAC, vlan=5))
    for _ in range(2):
        for frame, (reason, port, out) in zip(frames, run(pipeline, frames), strict=True):
            found = look(frame)
            if found.reason is not Reason.FORWARDED:
                assert (reason, port, out) == (found.reason, -1, frame)
            elif reason is Reason.FORWARDED:
                tenant = 1 if found.tags else 0
                tagged = frame if found.tags else frame[:12] + b"\x81\x00\x00\x05" + frame[12:]
                assert found.ttl > 1
                assert out == expected(tagged, tenant, some)
                assert port == 2
            else:
                assert out == frame
                assert reason in (Reason.TTL_EXPIRED, Reason.GROUP)


def test_every_transport_checksum_is_updated_rightly() -> None:
    """All 65536 values of a checksum, hence every carry and both zeros: as computed anew; UDP's none stays none."""
    endpoint = [Endpoint(17, IPv4Address("10.0.0.2"), 80, IPv4Address("172.31.255.254"), 65535)]
    pipeline = gateway(endpoint)
    template = ethernet(ipv4(UDP(sport=7, dport=80) / Raw(b"\0\0")))
    base = (look(template), int.from_bytes(template[40:42], "big"))
    frames = []
    for value in range(0x10000):
        # The payload's word moves the checksum through all values; 0xFFFF stands for a computed zero.
        checksum = (base[1] - value) % 0xFFFF or 0xFFFF
        frames.append(template[:40] + checksum.to_bytes(2, "big") + value.to_bytes(2, "big"))
    batch = Batch.of(frames)
    room = np.zeros(len(frames), np.int64)
    for part in np.array_split(np.arange(len(frames)), 16):
        verdicts = pipeline.process(batch.memory, batch.offsets[part], batch.lengths[part], room[part], 0, 0)
        assert not verdicts.reason.any()
    assert pipeline.counters.frames(Reason.FORWARDED) == pipeline.counters.frames_in == len(frames)
    assert pipeline.as_json()["bytes_in"] == len(frames) * len(template)
    headers = parse(batch.memory, batch.offsets[:32], batch.lengths[:32])
    assert set(headers.target.tolist()) == {int(IPv4Address("172.31.255.254"))}
    table = batch.memory.reshape(0x10000, len(template))
    words = table[:, 34:44].reshape(-1, 5, 2).astype(np.int64)
    segment = (words[:, :, 0] << 8 | words[:, :, 1]).sum(axis=1)
    addresses = sum(int(IPv4Address(text)) % 0xFFFF for text in ("10.0.0.1", "172.31.255.254"))
    assert not ((segment + addresses + 17 + 10) % 0xFFFF).any()
    stored = table[:, 40].astype(int) << 8 | table[:, 41]
    assert (stored != 0).all()
    assert (stored == 0xFFFF).any()
    none = ethernet(ipv4(UDP(sport=7, dport=80, chksum=0)))
    [(_, _, out)] = run(pipeline, [none])
    assert out[40:42] == b"\0\0"
    assert look(out).target == int(IPv4Address("172.31.255.254"))


def test_a_tenants_own_endpoint_comes_before_everybodys() -> None:
    """The same service address leads tenant 1 to its own backend and all others to the common one, and back."""
    service, own, common = (IPv4Address(text) for text in ("10.0.0.2", "172.16.0.1", "172.16.0.2"))
    pipeline = gateway([Endpoint(17, service, 80, common, 8080), Endpoint(17, service, 80, own, 8081, tenant=1)])
    there = ipv4(UDP(sport=7, dport=80))
    outs = [look(run(pipeline, [ethernet(there, tags)])[0][2]) for tags in ((), (5,))]
    assert [(out.target, out.target_port) for out in outs] == [(int(common), 8080), (int(own), 8081)]
    for backend, port, tags in ((common, 8080, ()), (own, 8081, (5,)), (common, 8080, (5,))):
        back = ipv4(UDP(sport=port, dport=7), src=str(backend), dst="10.0.0.1")
        out = look(run(pipeline, [ethernet(back, tags)])[0][2])
        assert (out.source, out.source_port) == (int(service), 80)


# Tags and tunnels


@settings(max_examples=50)
@given(st.lists(st.integers(1, 4094), max_size=2), st.sampled_from([0, 6]), layer4s())
def test_tags_are_pushed_popped_and_changed(tags: list[int], vlan: int, layer4: Packet) -> None:
    """Whatever tags a frame came with, it leaves with its next hop's; what is behind the tags stays."""
    tenants = Tenants(by_port={0: 0}, by_vlan=dict.fromkeys(tags, 0))
    pipeline = gateway(hop=NextHop(2, NEIGHBOUR, MAC, vlan=vlan))
    pipeline.configure(Configuration(**{**vars(pipeline.configuration), "tenants": tenants}))
    packet = ipv4(layer4)
    frame = ethernet(packet, tags)
    [(reason, _, out)] = run(pipeline, [frame])
    if look(frame).reason is not Reason.FORWARDED:
        assert (reason, out) == (look(frame).reason, frame)
        return
    assert reason is Reason.FORWARDED
    priority = 3 if len(tags) == 1 else 0
    tag = (0x8100 << 16 | priority << 13 | vlan).to_bytes(4, "big") if vlan else b""
    assert out == NEIGHBOUR + MAC + tag + expected(ethernet(packet), 0, [])[12:]


TUNNEL = Tunnel(70, IPv4Address("192.0.2.1"), IPv4Address("192.0.2.2"), NEIGHBOUR, MAC)


@settings(max_examples=50)
@given(networks())
def test_a_tunnel_gives_back_what_was_put_in(packet: Packet) -> None:
    """Wrapped frames are VXLAN as scapy reads it, the outer header right; the other end unwraps and forwards them."""
    frame = ethernet(packet)
    inner_hop = NextHop(2, MAC, NEIGHBOUR, tunnel=TUNNEL)
    [(reason, _, wrapped)] = run(gateway(hop=inner_hop), [frame])
    if reason is not Reason.FORWARDED:
        assert wrapped == frame
        return
    read = Ether(wrapped)
    assert (read[IP].src, read[IP].dst, read[UDP].dport, read[UDP].chksum) == ("192.0.2.1", "192.0.2.2", 4789, 0)
    assert (read[VXLAN].vni, int(read[VXLAN].flags), read[UDP].len) == (70, 8, len(wrapped) - 34)
    assert read[UDP].sport >= 49152
    found = look(wrapped)
    assert found.reason is Reason.FORWARDED
    assert found.vni == 70
    inner = wrapped[50:]
    plain = expected(frame, 0, [])
    assert inner == MAC + NEIGHBOUR + plain[12:]
    # To the other end: its own Ethernet address is on the outside.
    other_end = gateway(hop=NextHop(9, NEIGHBOUR, MAC), ends="192.0.2.2")
    [(reason, port, out)] = run(other_end, [MAC + wrapped[6:]])
    if look(inner).ttl > 1:
        assert (reason, port) == (Reason.FORWARDED, 9)
        assert out == expected(inner, 1, [])
    else:
        assert (reason, out) == (Reason.TTL_EXPIRED, inner)
    # To somebody else on the way, it is one packet of UDP.
    [(reason, _, out)] = run(gateway(), [MAC + wrapped[6:]])
    assert reason is Reason.FORWARDED
    assert out[50:] == inner


def test_what_does_not_fit_stays_as_it_is() -> None:
    """No headroom, too long a frame, an unknown network: counted, and not a byte changed."""
    frame = ethernet(ipv4(UDP(sport=1, dport=2) / Raw(bytes(100))))
    tunnelled = NextHop(2, NEIGHBOUR, MAC, tunnel=TUNNEL)
    assert run(gateway(hop=tunnelled), [frame], room=49) == [(Reason.NO_HEADROOM, -1, frame)]
    assert run(gateway(hop=tunnelled), [frame], room=50)[0][0] is Reason.FORWARDED
    assert run(gateway(hop=NextHop(2, NEIGHBOUR, MAC, vlan=4)), [frame], room=3) == [(Reason.NO_HEADROOM, -1, frame)]
    for hop, growth in ((tunnelled, 50), (NextHop(2, NEIGHBOUR, MAC, vlan=4), 4), (NextHop(2, NEIGHBOUR, MAC), 0)):
        fits = NextHop(hop.port, hop.target_mac, hop.source_mac, hop.vlan, hop.tunnel, len(frame) + growth)
        tight = NextHop(hop.port, hop.target_mac, hop.source_mac, hop.vlan, hop.tunnel, len(frame) + growth - 1)
        assert run(gateway(hop=fits), [frame])[0][0] is Reason.FORWARDED
        assert run(gateway(hop=tight), [frame]) == [(Reason.TOO_LONG, -1, frame)]
    stranger = ipv4(UDP(sport=9, dport=4789) / VXLAN(vni=71, flags=8) / Ether(frame), dst="192.0.2.2")
    assert run(gateway(ends="192.0.2.2"), [ethernet(stranger)])[0][0] is Reason.UNKNOWN_TUNNEL


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"next_hops": [NextHop(1, b"\0", MAC)]}, "not an Ethernet address"),
        ({"macs": {0: b"\0" * 7}}, "port 0: 00000000000000 is not an Ethernet address"),
        ({"routes": [Route(0, IPv4Network("10.0.0.0/8"), 2)]}, "10.0.0.0/8 leads to next hop 2 of 1"),
        ({"rules": [Rule(True, target_ports=(2, 1))]}, "ports from 2 to 1 are no range"),
        ({"rules": [Rule(True, protocol=256)]}, "a rule asks for 256"),
        ({"endpoints": [Endpoint(1, V, 1, V, 1)] if (V := IPv4Address("10.0.0.1")) else []}, "protocol 1 cannot be"),
        ({"endpoints": [Endpoint(6, V, 1, V, 2), Endpoint(6, V, 1, V, 3)]}, "10.0.0.1 port 1 of every tenant"),
        ({"endpoints": [Endpoint(6, V, 1, IPv6Address("::1"), 2)]}, "different families"),
        ({"endpoints": [Endpoint(6, V, 0, V, 2)]}, "a port is a number from 1 to 65535, not 0"),
        ({"flow_capacity": 0}, "at least one flow"),
    ],
)
def test_a_configuration_is_taken_whole_or_not_at_all(changes: dict[str, object], says: str) -> None:
    """What cannot be is said in one line, and the gateway goes on as before, flows and all."""
    pipeline = gateway()
    frame = ethernet(ipv4(UDP(sport=1, dport=2)))
    first = run(pipeline, [frame])
    with pytest.raises(ValueError, match=says):
        pipeline.configure(Configuration(**{**vars(pipeline.configuration), **changes}))
    assert len(pipeline.flows) == 1
    assert run(pipeline, [frame]) == first


def test_a_new_configuration_decides_anew() -> None:
    """A rule that is taken away stops the flows that it allowed, at once."""
    pipeline = gateway()
    frame = ethernet(ipv4(UDP(sport=1, dport=2)))
    assert run(pipeline, [frame])[0][0] is Reason.FORWARDED
    pipeline.configure(Configuration(**{**vars(pipeline.configuration), "rules": [Rule(False)]}))
    assert run(pipeline, [frame])[0][0] is Reason.DENIED
    pipeline.configure(Configuration(**{**vars(pipeline.configuration), "rules": []}))
    assert run(pipeline, [frame])[0][0] is Reason.DENIED
    assert pipeline.as_json()["classes"] == [{"tenant": 0, "service": "other", "frames": 3, "bytes": 3 * len(frame)}]


def test_prefixes_of_ipv6_networks_are_hashable_rules() -> None:
    """IPv6 rules for the same network share a mask."""
    network = IPv6Network("fd00::/8")
    policy = Policy([Rule(False, source=network, protocol=6), Rule(True, source=network)])
    batch = Batch.of([ethernet(IPv6(src="fd00::1", dst="::1") / UDP(sport=1, dport=2))])
    headers = parse(batch.memory, batch.offsets, batch.lengths)
    assert judge(headers, Classes(np.zeros(1, np.int64), np.zeros(1, np.int64)), policy)[0] == 1


def test_rules_of_one_family_do_not_match_the_other() -> None:
    """An IPv6 address whose lower half looks like an IPv4 address meets no rule for IPv4, nor the other way round."""
    four, six = ip_network("0.0.0.0/0"), ip_network("::/0")
    policy = Policy(
        [
            Rule(False, source=four, protocol=17),
            Rule(False, target=four, protocol=17),
            Rule(False, source=six, protocol=6),
            Rule(False, target=six, protocol=6),
            Rule(True),
        ]
    )
    frames = [IPv6(src="::1", dst="::10.0.0.1") / UDP(sport=1, dport=2), ipv4(TCP(sport=1, dport=2))]
    batch = Batch.of([ethernet(frame) for frame in frames])
    headers = parse(batch.memory, batch.offsets, batch.lengths)
    assert judge(headers, Classes(np.zeros(2, np.int64), np.zeros(2, np.int64)), policy).tolist() == [4, 4]


def test_flows_are_forgotten_when_idle_and_counted_before() -> None:
    """Counters of flows are exact, survive in the classes, and a flow that has been idle too long is decided anew."""
    pipeline = gateway()
    six = ethernet(IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=1, dport=4791) / Raw(bytes(16)))
    four = ethernet(ipv4(TCP(sport=1, dport=4420)))
    batch = Batch.of([four, six, four, four], ROOM)
    room = np.zeros(4, np.int64)
    for now_ns in (1, 5):
        memory = batch.memory.copy()
        pipeline.process(memory, batch.offsets, batch.lengths, room, 0, now_ns)
    pipeline.process(memory := batch.memory.copy(), batch.offsets[:1], batch.lengths[:1], room[:1], 0, 9)
    flows = {key.source.version: pipeline.flows.describe(key) for key in pipeline.flows}
    assert {version: flow and (flow["frames"], flow["bytes"]) for version, flow in flows.items()} == {
        4: (7, 7 * len(four)),
        6: (2, 2 * len(six)),
    }
    four_flow = flows[4]
    assert four_flow is not None
    assert (four_flow["first_ns"], four_flow["last_ns"], four_flow["service"]) == (1, 9, "block")
    before = list(pipeline.flows)
    assert pipeline.flows.expire(9) == 1
    assert [key.source.version for key in before if key not in list(pipeline.flows)] == [6]
    assert len(pipeline.flows) == 1
    classes = pipeline.as_json()["classes"]
    assert [(entry["service"], entry["frames"]) for entry in classes] == [("block", 7), ("compute", 2)]
    for key in pipeline.flows:
        assert pipeline.flows.remove(key)
        assert not pipeline.flows.remove(key)
        assert pipeline.flows.describe(key) is None
    assert len(pipeline.flows) == 0


def test_a_tunnel_that_passes_by_is_looked_into_each_time() -> None:
    """A known flow of VXLAN does not hide a spoofed source inside of a later packet."""

    def tunnel(source: str) -> bytes:
        inner = Ether(ethernet(ipv4(TCP(sport=1, dport=2), src=source)))
        return ethernet(ipv4(UDP(sport=9, dport=4789) / VXLAN(vni=70, flags=8) / inner))

    pipeline = gateway()
    tenants = Tenants(by_port={0: 0}, by_vni={70: 1}, addresses={1: [ip_network("10.7.0.0/16")]})
    pipeline.configure(Configuration(**{**vars(pipeline.configuration), "tenants": tenants}))
    fates = [run(pipeline, [tunnel(source)])[0][0] for source in ("10.7.0.1", "10.8.0.1", "10.7.0.2")]
    assert fates == [Reason.FORWARDED, Reason.SPOOFED, Reason.FORWARDED]
