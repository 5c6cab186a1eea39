"""Changes of policies: only what they touch is compiled again, in slices, and everything is as if compiled afresh."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from controller.compose import Composer
from controller.declared import Declared
from controller.designs import Design, Plan
from controller.flows import FlowRule, Program
from controller.green import eventlet
from controller.paths import Spread
from controller.slices import Slices
from controller.tenancy.compile import Compiler, tenant_program
from controller.tenancy.kinds import Kind
from controller.tenancy.store import Store
from tests.support.controller_fabrics import leaf_spine
from tests.support.tenancy_sites import Declaring, site_of

NODES = 12
SITE = site_of(leaf_spine(gpus=NODES), "shortest-path")


def one_vpc(ports_each: int = 1) -> Declaring:
    """A VPC in which every node may open some ports of every other one."""
    declaring = Declaring(SITE).tenant("t", "v")
    for number in range(NODES):
        declaring.node(f"v/g{number}", f"10.0.0.{number + 1}", "even" if number % 2 == 0 else "odd")
    ports = [{"first": 100 + 2 * number, "last": 100 + 2 * number} for number in range(ports_each)]
    declaring.policy("all", vpc="v", protocol="tcp", ports=ports)
    return declaring


def test_only_the_pair_of_a_policy_is_made_again() -> None:
    """A policy between two nodes exchanges their two parts, and in them makes nothing but what is new."""
    declaring, compiler = one_vpc(), Compiler(SITE)
    before = compiler.parts(declaring.state)
    declaring.policy("p", vpc="v", protocol="udp", source={"nodes": ["g3"]}, destination={"nodes": ["g7"]})
    after = compiler.parts(declaring.state)
    assert {name for name in after if before.get(name) is not after[name]} == {"vpc v from g3", "vpc v from g7"}
    known = {id(rule) for part in before.values() for rule in part.rules}
    new = [rule for part in after.values() for rule in part.rules if id(rule) not in known]
    assert sorted(rule.note for rule in new) == ["g3 opens to g7", "g7 answers g3"]
    assert sum(after.values(), Program()) == tenant_program(SITE, declaring.state)


def test_a_policy_that_changes_nothing_makes_nothing() -> None:
    """One that is outvoted, and a change of its description, leave all parts as they are."""
    declaring, compiler = one_vpc(), Compiler(SITE)
    before = compiler.parts(declaring.state)
    port = [{"first": 100, "last": 100}]
    declaring.policy("p", vpc="v", action="deny", priority=1, protocol="tcp", ports=port)
    after = compiler.parts(declaring.state)
    assert all(before[name] is after[name] for name in after)
    assert before.keys() == after.keys()


def test_numbers_of_policies_are_used_again() -> None:
    """Policies of a group come, overrule each other and go in another order; each step is as if compiled afresh."""
    declaring, compiler = one_vpc(), Compiler(SITE)
    compiler.program(declaring.state)
    for step, (name, group, action, priority) in enumerate(
        [("a", "even", "deny", 2000), ("b", "odd", "deny", 2000), ("a", "odd", "allow", 3000), ("c", "even", "deny", 9)]
    ):
        source = {"groups": [group]}
        declaring.policy(name, vpc="v", action=action, priority=priority, protocol="tcp", source=source)
        if step == 2:
            declaring.state = declaring.state.delete(Kind.POLICIES, ("b",))
        assert compiler.program(declaring.state) == tenant_program(SITE, declaring.state)
    for name in ("all", "a", "c"):
        declaring.state = declaring.state.delete(Kind.POLICIES, (name,))
        assert compiler.program(declaring.state) == tenant_program(SITE, declaring.state)


class Interrupted(Exception):
    """Somebody gave up."""


@pytest.mark.parametrize("after", [0, 1, 30, 80, 120])
def test_what_was_given_up_half_way_is_not_used(after: int) -> None:
    """A compilation that ends at any of its pauses leaves nothing wrong to the next one."""
    declaring, compiler = one_vpc(), Compiler(SITE)
    compiler.program(declaring.state)
    declaring.policy("p", vpc="v", priority=3000, source={"groups": ["odd"]})
    left = after

    def pause(_: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Interrupted

    with pytest.raises(Interrupted):
        compiler.parts(declaring.state, pause)
    assert compiler.program(declaring.state) == tenant_program(SITE, declaring.state)


@dataclass
class Taker:
    """Takes pieces, and notes what else happened in between."""

    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    layers: dict[str, Program] = field(default_factory=dict)
    most: int = 0
    turns: int = 0

    def declare(self, _: Plan, layers: dict[str, Program], note: str) -> None:
        before, after = self.rules(), {rule for part in layers.values() for rule in part.rules}
        self.most = max(self.most, len(before ^ after))
        self.layers = dict(layers)
        self.notes.append(note)

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def rules(self) -> set[FlowRule]:
        return {rule for part in self.layers.values() for rule in part.rules}


def test_others_go_on_during_a_large_change() -> None:
    """A policy about a whole VPC is taken in pieces, with turns for others in between, who may change policies, too.

    Steps: 12 nodes may open 40 ports of each other, in one policy; meanwhile another green thread counts its turns,
    and a third one declares a further policy.
    Verify: no piece is much larger than the limit and one node's part; all are told; the outcome is that of both.
    """
    composer = Composer(SITE.fabric, Design.SHORTEST_PATH, Spread.HOSTS)
    store, taker = Store(":memory:", composer.ground), Taker()
    for kind, key, _, resource in one_vpc().state.entries():
        store.put(kind, key, resource.model_dump(mode="json"))
    Declared(store, composer, taker, Slices(), eventlet.semaphore.Semaphore())
    taker.most = 0
    taker.notes.clear()
    done: list[str] = []

    def declare(name: str, count: int) -> None:
        ports = [{"first": 100 + 2 * number, "last": 100 + 2 * number} for number in range(count)]
        store.put(Kind.POLICIES, name, {"vpc": "v", "action": "allow", "protocol": "tcp", "ports": ports})
        done.append(name)

    def count() -> None:
        while len(done) < 2:
            taker.turns += 1
            eventlet.sleep(0)

    threads = [eventlet.spawn(declare, "p", 40), eventlet.spawn(count), eventlet.spawn(declare, "q", 3)]
    for thread in threads:
        thread.wait()
    assert taker.turns > 5
    assert taker.most < 500 + 2 * 11 * 80
    assert [note for note in taker.notes if note] == ["policy p declared", "policy q declared"]
    assert len(taker.notes) > 4
    plan, layers = Composer(SITE.fabric, Design.SHORTEST_PATH, Spread.HOSTS).layers(store.state)
    assert taker.layers == layers
    assert plan.rules
    store.close()


def test_a_policy_for_a_group_without_nodes_is_warned_of() -> None:
    """Groups are filled later perhaps, so it is taken, and said; not again when anything else changes."""
    composer = Composer(SITE.fabric, Design.SHORTEST_PATH, Spread.HOSTS)
    store, taker = Store(":memory:", composer.ground), Taker()
    for kind, key, _, resource in one_vpc().state.entries():
        store.put(kind, key, resource.model_dump(mode="json"))
    Declared(store, composer, taker)
    store.put(Kind.POLICIES, "p", {"vpc": "v", "action": "allow", "source": {"groups": ["odd", "trainers"]}})
    store.put(Kind.POLICIES, "q", {"tenant": "t", "action": "allow", "destination": {"groups": ["new"]}})
    store.put(Kind.POLICIES, "r", {"vpc": "v", "action": "allow", "destination": {"groups": ["even"]}})
    expected = [
        "policy p names groups that no node of VPC v is in: trainers",
        "policy q names groups that no node of tenant t is in: new",
    ]
    assert taker.warnings == expected
    store.put(Kind.NODES, ("v", "g0"), {"ip": "10.0.0.1", "groups": ["even", "trainers"]})
    assert taker.warnings == expected
    store.close()
