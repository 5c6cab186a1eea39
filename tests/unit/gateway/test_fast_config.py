"""The fast gateway's file: what it says is what the pipeline is told, and every mistake is named with its place."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import ScenarioError
from gateway.dataplane.classify import Service
from gateway.dataplane.pipeline import Pipeline
from gateway.dataplane.route import NextHop, Route
from gateway.fast.config import PortKind, load_fast
from gateway.offload.steering import Hook
from gateway.rings.xsk import Mode

WHOLE: dict[str, Any] = {
    "mode": "af_xdp",
    "ports": [{"interface": "left", "queues": 2}, {"interface": "right"}],
    "next_hops": {
        "plain": {"port": "right", "mac": "02:00:00:00:02:01"},
        "far": {
            "port": "right",
            "mac": "02:00:00:00:02:02",
            "vlan": 7,
            "max_bytes": 1400,
            "tunnel": {"vni": 5, "local": "10.0.2.254", "remote": "10.0.2.9", "inner_mac": "02:00:00:00:09:09"},
        },
    },
    "routes": [
        {"network": "10.0.2.0/24", "next_hop": "plain"},
        {"network": "fd00::/16", "next_hop": "far", "tenant": 3},
        {"network": "10.9.0.1/32", "next_hop": "local"},
    ],
    "tenants": {
        "by_port": {"left": 0, "right": 3},
        "by_vlan": {"100": 3},
        "by_vni": {"5": 3},
        "addresses": {"3": ["10.0.0.0/8", "fd00::/16"]},
    },
    "rules": [
        {"allow": True, "tenant": 3, "service": "block", "protocol": "tcp", "target_ports": [4420, 4421]},
        {"allow": False, "source": "10.0.1.0/24"},
    ],
    "endpoints": [
        {
            "protocol": "tcp",
            "address": "192.168.7.7",
            "port": 80,
            "backend": "10.0.2.1",
            "backend_port": 8080,
            "tenant": 3,
        }
    ],
    "tunnel_ends": ["10.0.2.254"],
    "flow_capacity": 1000,
    "idle_s": 5,
    "batch_frames": 64,
    "ring_entries": 512,
    "frames": 4096,
    "headroom_bytes": 128,
    "xdp": {"hook": "generic", "copy": "copy", "busy_poll": True},
    "offload": {"folder": "/sys/fs/bpf/x", "capacity": 100, "stay": True},
}


def written(tmp_path: Path, data: Any) -> Path:
    path = tmp_path / "fast.json"
    path.write_text(json.dumps(data))
    return path


def test_everything_is_taken_over(tmp_path: Path) -> None:
    """Each key arrives where it belongs, and the pipeline accepts the whole."""
    config = load_fast(written(tmp_path, WHOLE))
    assert (config.kind, config.hook, config.mode) == (PortKind.AF_XDP, Hook.GENERIC, Mode.COPY)
    assert config.busy_poll
    assert [(port.interface, port.queues) for port in config.ports] == [("left", 2), ("right", 1)]
    assert (config.idle_ns, config.batch_frames, config.ring_entries, config.frames) == (5 * 10**9, 64, 512, 4096)
    assert config.offload is not None
    assert (config.offload.folder, config.offload.capacity, config.offload.stay) == (Path("/sys/fs/bpf/x"), 100, True)
    told = config.for_host(
        {0: b"\2\0\0\0\0\1", 1: b"\2\0\0\0\0\2"},
        {IPv6Address("fe80::9"), IPv4Address("10.9.0.1")},
        {0: 1500, 1: 1500},
    )
    plain, far = told.next_hops
    assert (plain.port, plain.source_mac, plain.max_bytes, plain.tunnel) == (1, b"\2\0\0\0\0\2", 1514, None)
    assert (far.vlan, far.max_bytes, far.target_mac[-1]) == (7, 1400, 9)
    assert far.tunnel is not None
    assert (far.tunnel.vni, far.tunnel.target_mac[-1], far.tunnel.source_mac[-1], far.tunnel.port) == (5, 2, 2, 4789)
    assert [(str(route.network), route.tenant, route.next_hop) for route in told.routes] == [
        ("10.0.2.0/24", 0, 1),
        ("fd00::/16", 3, 2),
        ("10.9.0.1/32", 0, 0),
        ("fe80::9/128", 0, 0),
        ("10.9.0.1/32", 3, 0),
        ("fe80::9/128", 3, 0),
    ]
    assert told.tenants.by_port == {0: 0, 1: 3}
    assert told.tenants.addresses == {3: [IPv4Network("10.0.0.0/8"), IPv6Network("fd00::/16")]}
    assert (told.rules[0].service, told.rules[0].protocol, told.rules[0].target_ports) == (
        Service.BLOCK,
        6,
        (4420, 4421),
    )
    assert told.endpoints[0].tenant == 3
    Pipeline(told)


def test_what_is_told_from_elsewhere_is_fitted_like_the_file(tmp_path: Path) -> None:
    """Own addresses stay local, frames fit the ports, Ethernet addresses that were named stay; no port is made up."""
    config = load_fast(written(tmp_path, WHOLE))
    macs, own, mtus = {0: b"\2\0\0\0\0\1", 1: b"\2\0\0\0\0\2"}, frozenset({IPv4Address("10.9.0.1")}), {0: 1500, 1: 9000}
    named, mac = b"\2\0\0\0\0\7", b"\2\0\0\0\2\1"
    hops = [NextHop(0, mac, named), NextHop(1, mac, bytes(6), 5, None, 2000), NextHop(1, mac, named)]
    told = replace(config.configuration, next_hops=hops, routes=[Route(3, ip_network("0.0.0.0/0"), 2)])
    fitted = config.fitted(told, macs, own, mtus)
    assert [(hop.source_mac, hop.max_bytes) for hop in fitted.next_hops] == [
        (named, 1514),
        (macs[1], 2000),
        (named, 9014),
    ]
    assert [(route.tenant, str(route.network), route.next_hop) for route in fitted.routes] == [
        (3, "0.0.0.0/0", 2),
        (0, "10.9.0.1/32", 0),
        (3, "10.9.0.1/32", 0),
    ]
    assert config.fitted(fitted, macs, own, mtus) == fitted, "what fits stays as it is"
    with pytest.raises(ValueError, match="next hop 1 is behind port 7: there are 2 ports, from 0"):
        config.fitted(replace(told, next_hops=[NextHop(7, mac, named)]), macs, own, mtus)


def test_little_is_enough(tmp_path: Path) -> None:
    """Mode and ports suffice: everything of tenant 0 may pass, and the memory holds all rings."""
    config = load_fast(written(tmp_path, {"mode": "packet_mmap", "ports": [{"interface": "a"}]}))
    assert config.configuration.rules[0].allow
    assert config.configuration.tenants.by_port == {0: 0}
    assert config.offload is None
    many = load_fast(written(tmp_path, {"mode": "af_xdp", "ports": [{"interface": "a", "queues": 3}]}))
    assert many.frames >= 3 * 2 * many.ring_entries


def test_every_queue_has_frames_to_receive_into(tmp_path: Path) -> None:
    """A memory that the first queue's ring would take whole is refused, where queues share one."""
    few = {"ports": [{"interface": "a", "queues": 2}, {"interface": "b"}], "ring_entries": 64, "frames": 3 * 64}
    assert load_fast(written(tmp_path, {"mode": "af_xdp", **few})).frames == 192
    with pytest.raises(ScenarioError, match="frames: 191 are too few: the rings for arrivals of all queues take 192"):
        load_fast(written(tmp_path, {"mode": "af_xdp", **few, "frames": 191}))
    alone = {"mode": "packet_mmap", "ports": [{"interface": "a"}, {"interface": "b"}], "frames": 64}
    assert load_fast(written(tmp_path, alone)).frames == 64


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("mode", "dpdk", "mode: 'dpdk' is not one of af_xdp, packet_mmap, socket"),
        ("mode", None, "mode: None is not one of"),
        ("mode", "socket", "ports: queues are served one by one with af_xdp only"),
        ("ports", [], "ports: a gateway has at least one port"),
        ("ports", {}, "ports: {} is not a list"),
        ("ports", [{"interface": "left"}, {"interface": "left"}], "ports: an interface is named twice"),
        ("ports", [{"interface": 5}], "ports[0].interface: 5 is not a text"),
        ("ports", [{"interface": "left", "queue": 1}], "ports[0].queue: unknown key: here are interface, queues"),
        ("next_hops", {"local": {}}, "next_hops: local is the gateway itself"),
        (
            "next_hops",
            {"x": {"port": "up", "mac": "02:00:00:00:00:01"}},
            "next_hops.x.port: 'up' is not one of left, right",
        ),
        (
            "next_hops",
            {"x": {"port": "left", "mac": "03:00:00:00:00:01"}},
            "next_hops.x.mac: 03:00:00:00:00:01 is a group",
        ),
        ("next_hops", {"x": {"port": "left"}}, "next_hops.x.mac: is missing"),
        ("next_hops", [], "next_hops: [] is not an object"),
        (
            "routes",
            [{"network": "10.0.0.1/8", "next_hop": "plain"}],
            "routes[0].network: '10.0.0.1/8' is not an IP network",
        ),
        (
            "routes",
            [{"network": "10.0.0.0/8", "next_hop": "nowhere"}],
            "routes[0].next_hop: 'nowhere' is not one of local",
        ),
        ("routes", [{"network": "10.0.0.0/8", "next_hop": "plain", "tenant": 70000}], "routes[0].tenant: 70000 is not"),
        ("tenants", {"by_port": {"up": 1}}, "tenants.by_port: up is not one of the ports"),
        ("tenants", {"by_vlan": {"4095": 1}}, "tenants.by_vlan.4095: 4095 is not a whole number from 0 to 4094"),
        ("tenants", {"by_vlan": {"²": 1}}, "tenants.by_vlan.²: '²' is not a whole number"),
        ("tenants", {"addresses": {"3": "10.0.0.0/8"}}, "tenants.addresses.3: '10.0.0.0/8' is not a list"),
        ("rules", [{"tenant": 1}], "rules[0].allow: is missing"),
        ("rules", [{"allow": "yes"}], "rules[0].allow: 'yes' is not true or false"),
        (
            "rules",
            [{"allow": True, "target_ports": [9, 3]}],
            "rules[0].target_ports: [9, 3] is not a list of the first",
        ),
        ("rules", [{"allow": True, "service": "mail"}], "rules[0].service: 'mail' is not one of other, block"),
        (
            "endpoints",
            [{**WHOLE["endpoints"][0], "backend": "fd00::1"}],
            "endpoints[0].backend: fd00::1 is of another family",
        ),
        ("endpoints", [{**WHOLE["endpoints"][0], "port": 0}], "endpoints[0].port: 0 is not a whole number from 1"),
        ("tunnel_ends", ["fd00::1"], "tunnel_ends[0].address: 'fd00::1' is not an IPv4 address"),
        ("tunnel_ends", "10.0.0.1", "tunnel_ends: '10.0.0.1' is not a list"),
        ("ring_entries", 1000, "ring_entries: 1000 is not a power of two"),
        ("ring_entries", True, "ring_entries: True is not a whole number"),
        ("idle_s", 0, "idle_s: 0 is not a whole number from 1"),
        ("idle_s", 1.5, "idle_s: 1.5 is not a whole number"),
        ("xdp", {"busy_poll": 1}, "xdp.busy_poll: 1 is not true or false"),
        ("xdp", {"hook": "card"}, "xdp.hook: 'card' is not one of driver, generic"),
        ("xdp", [], "xdp: [] is not an object"),
        ("offload", {"folder": "here"}, "offload.folder: here is not an absolute path"),
        ("offload", {"folder": "/x", "stay": 1}, "offload.stay: 1 is not true or false"),
        ("speed", 9, "speed: unknown key: here are mode, ports"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, key: str, value: Any, place: str) -> None:
    """One line with the file, the place and what is wrong."""
    data = deepcopy(WHOLE)
    data[key] = value
    path = written(tmp_path, data)
    with pytest.raises(ScenarioError) as caught:
        load_fast(path)
    assert str(caught.value).startswith(f"{path}: {place}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [("offload", {"folder": "/x"}, "offload"), ("xdp", {"busy_poll": True}, "xdp.busy_poll")],
)
def test_what_needs_af_xdp(tmp_path: Path, key: str, value: dict[str, object], named: str) -> None:
    """Other ports have no program that could forward, and no queues."""
    data = {"mode": "socket", "ports": [{"interface": "a"}], key: value}
    with pytest.raises(ScenarioError, match=f"{named}: needs the mode af_xdp, not socket"):
        load_fast(written(tmp_path, data))
