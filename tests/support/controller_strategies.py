"""Hypothesis strategies for tests of the controller."""

from __future__ import annotations

from hypothesis import strategies as st

from emulator.model.fabric import Fabric, FabricBuilder, Role
from tests.support.controller_fabrics import LONG, SPEC, Hosts


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """Connected graphs of switches, with parallel links and cycles, and hosts of every role anywhere on them."""
    builder = FabricBuilder("any")
    count = draw(st.integers(1, 7))
    for index in range(count):
        builder.add_switch(f"s{index}", tier=draw(st.integers(0, 1)), zone=draw(st.sampled_from("ab")))
    spec = st.sampled_from([SPEC, LONG])
    for index in range(1, count):
        builder.add_link(f"s{index}", f"s{draw(st.integers(0, index - 1))}", draw(spec))
    if count > 1:
        for _ in range(draw(st.integers(0, 8))):
            a = draw(st.integers(0, count - 1))
            b = draw(st.integers(0, count - 2))
            builder.add_link(f"s{a}", f"s{b if b < a else b + 1}", draw(spec))
    hosts = Hosts(builder)
    for name, role, most in (
        ("g", Role.GPU, 4),
        ("c", Role.COMPUTE, 3),
        ("r", Role.ROUTER, 2),
        ("gw", Role.GATEWAY, 3),
        ("st", Role.STORAGE, 2),
        ("h", Role.HOST, 2),
    ):
        least = 0 if role is Role.HOST else 1
        for index in range(draw(st.integers(least, most))):
            switch = draw(st.integers(0, count - 1))
            hosts.add(f"{name}{index}", role, f"s{switch}", zone=draw(st.sampled_from("ab")))
    return builder.build()
