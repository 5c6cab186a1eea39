"""From a scenario to its cells: every variant under every design and profile, with the seed of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from math import prod

from emulator.collectives.grid import grid_of
from emulator.errors import LinkError, NodeError, ScenarioError
from emulator.model.fabric import Fabric, Role
from emulator.model.fault import Action, Fault, link_named, switch_named
from emulator.model.profile import Profile
from emulator.model.workload import Bisection, Collectives, Probe, Workload, grouped
from emulator.rng import derive
from emulator.scenario.model import Cell, Scenario, Variant
from emulator.scenario.problems import hint
from emulator.scenario.profile_file import find_profile
from emulator.scenario.ranks import check_sizes, ranks_of
from emulator.units import format_time

ONLY_VARIANT = "base"

_NEEDED_ROLES: dict[str, tuple[Role, ...]] = {
    "shortest-path": (),
    "conventional": (Role.ROUTER, Role.COMPUTE, Role.STORAGE),
    "gateway": (Role.GATEWAY, Role.STORAGE),
}


def resolve(scenario: Scenario) -> list[Cell]:
    """Expand a scenario into its cells, in the order: variants, designs, profiles.

    Raises:
        ScenarioError: There is no profile of a given name, or its file is wrong.
    """
    profiles = _profiles(scenario)
    return [
        Cell(
            scenario=scenario.name,
            variant=_variant_name(scenario, variant, design, costs.name),
            kind=variant.kind,
            parameters=variant.parameters,
            design=design,
            profile=costs.name,
            costs=costs,
            workloads=variant.workloads,
            seed=derive(variant.seed, "cell", variant.label),
            limits=variant.limits,
            sampling_ns=variant.sampling_ns,
            capture=scenario.capture,
            origin=variant.origin,
            faults=variant.faults,
            control=variant.control,
        )
        for variant in scenario.variants
        for design in scenario.designs
        for costs in profiles
    ]


def expand(fabric: Fabric, cell: Cell) -> Cell:
    """Replace what stands for several hosts of a workload by their names.

    Raises:
        ScenarioError: There is neither a role nor a host of a name, or too few of them.
    """
    return replace(cell, workloads=tuple(_expanded(fabric, cell, *entry) for entry in enumerate(cell.workloads)))


def _expanded(fabric: Fabric, cell: Cell, index: int, workload: Workload) -> Workload:
    if isinstance(workload, Collectives):
        return _with_ranks(fabric, cell, index, workload)
    if not isinstance(workload, Probe) or not workload.all_to_all:
        return workload
    roles = {role.value: fabric.with_role(role) for role in Role if role is not Role.SWITCH and fabric.with_role(role)}
    names: dict[str, None] = {}
    for position, word in enumerate(workload.all_to_all):
        if word not in fabric.by_name and word not in roles:
            known = [*roles, *(host.name for host in fabric.hosts)]
            reason = f"there is neither a role nor a host {word!r} in the topology{hint(word, known)}"
            raise cell.origin.error(reason, f"workloads[{index}].all_to_all[{position}]")
        names.update(dict.fromkeys([word] if word in fabric.by_name else [node.name for node in roles[word]]))
    if len(names) < 2:
        raise cell.origin.error(
            f"only {', '.join(names)}: there is nobody to send to", f"workloads[{index}].all_to_all"
        )
    return replace(workload, pairs=tuple(permutations(names, 2)), all_to_all=())


def _with_ranks(fabric: Fabric, cell: Cell, index: int, workload: Collectives) -> Collectives:
    """Say which hosts take part, and what grid they make."""
    key = f"workloads[{index}]"
    try:
        names = ranks_of(fabric, workload.ranks)
    except LookupError as error:
        raise cell.origin.error(error.args[0], f"{key}.ranks") from None
    if len(names) < 2:
        raise cell.origin.error(f"only {', '.join(names)}: there is nobody to send to", f"{key}.ranks")
    shape = workload.shape or grid_of(names)
    whole = replace(workload, ranks=names, shape=shape)
    if prod(whole.grid) != len(names):
        reason = f"{shape} are {prod(whole.grid)} ranks, and {len(names)} hosts take part"
        raise cell.origin.error(reason, f"{key}.shape")
    try:
        check_sizes(whole)
    except ScenarioError as error:
        raise cell.origin.error(error.reason, f"{key}.{error.key}") from None
    return whole


def check_against(fabric: Fabric, cell: Cell) -> None:
    """Check that the fabric has what the cell's design, workloads and captures name.

    Raises:
        ScenarioError: An unknown host or interface, a switch where a host is meant, a flow from a host to itself, or
            a design whose nodes the fabric does not have; with file, line and key.
    """
    for role in _NEEDED_ROLES[cell.design]:
        if not fabric.with_role(role):
            raise cell.origin.error(
                f"the design {cell.design!r} needs a {role.value} node, and the topology has none", "designs"
            )
    for index, workload in enumerate(cell.workloads):
        for key, name in _named_hosts(workload):
            _check_host(fabric, cell, f"workloads[{index}].{key}", name)
        _check_ends(cell, index, workload)
    _check_faults(fabric, cell)
    if fabric.switches and cell.control.detection_ns is not None:
        reason = "is for supernodes that route: here the controller sends packets around faults"
        raise cell.origin.error(reason, "controller.detection")
    interfaces = [end for link in fabric.links for end in (link.a_interface, link.b_interface)]
    for index, interface in enumerate(cell.capture):
        if interface not in interfaces:
            raise cell.origin.error(
                f"there is no interface {interface!r}{hint(interface, interfaces)}", f"capture[{index}]"
            )


def _profiles(scenario: Scenario) -> list[Profile]:
    """The cost models that a scenario names, from files or the project's own."""
    found: dict[str, Profile] = {}
    for index, name in enumerate(scenario.profiles):
        try:
            costs = find_profile(name, scenario.file)
        except ScenarioError as error:
            if error.file is not None and error.line is not None:
                raise  # it says where in the profile's file
            reason = error.reason if error.file is None else f"{name} {error.reason}"
            raise scenario.variants[0].origin.error(reason, f"profiles[{index}]") from None
        if costs.name in found:
            reason = f"the profile {costs.name!r} is given twice"
            raise scenario.variants[0].origin.error(reason, f"profiles[{index}]")
        found[costs.name] = costs
    return list(found.values())


def _variant_name(scenario: Scenario, variant: Variant, design: str, profile_name: str) -> str:
    parts = [f"{design}/{profile_name}"] if len(scenario.designs) * len(scenario.profiles) > 1 else []
    if variant.label:
        parts.append(variant.label)
    return ",".join(parts) or ONLY_VARIANT


def _named_hosts(workload: Workload) -> Iterator[tuple[str, str]]:
    """Keys and names of the hosts that a workload uses."""
    for key in ("source", "target"):
        if hasattr(workload, key):
            yield key, getattr(workload, key)
    for position, pair in enumerate(getattr(workload, "pairs", ())):
        for end, name in enumerate(pair):
            yield f"pairs[{position}][{end}]", name
    for key in ("sources", "targets", "initiators", "ranks"):
        for position, name in enumerate(getattr(workload, key, ())):
            yield f"{key}[{position}]", name


def _check_host(fabric: Fabric, cell: Cell, key: str, name: str) -> None:
    node = fabric.by_name.get(name)
    if node is None:
        hosts = [host.name for host in fabric.hosts]
        raise cell.origin.error(f"there is no host {name!r} in the topology{hint(name, hosts)}", key)
    if node.is_switch or node.role is Role.FORWARDER:
        raise cell.origin.error(f"{name!r} is a switch, a host is meant here", key)


def _check_ends(cell: Cell, index: int, workload: Workload) -> None:
    for source, target in flows_of(workload):
        if source == target:
            raise cell.origin.error(f"a flow from {source!r} to itself never meets the network", f"workloads[{index}]")


def flows_of(workload: Workload) -> tuple[tuple[str, str], ...]:
    """The pairs of hosts, initiator first, between which a workload sends; each pair once, in order."""
    if hasattr(workload, "initiators"):
        pairs = [(name, workload.target) for name in workload.initiators]  # type: ignore[attr-defined]
    elif isinstance(workload, Probe):
        pairs = list(workload.pairs)
    elif isinstance(workload, Bisection):
        pairs = list(workload.flows)
    elif isinstance(workload, Collectives):
        pairs = list(zip(workload.ranks, workload.ranks[1:] + workload.ranks[:1], strict=True))
    elif hasattr(workload, "sources"):
        sources, targets = workload.sources, workload.targets  # type: ignore[attr-defined]
        flows: int = workload.flows  # type: ignore[attr-defined]
        pairs = [(sources[i % len(sources)], targets[i % len(targets)]) for i in range(flows)]
    else:
        pairs = [(workload.source, workload.target)]  # type: ignore[attr-defined]
    return tuple(dict.fromkeys(pairs))


def _check_faults(fabric: Fabric, cell: Cell) -> None:
    """Check that faults name links and switches, and that only what is whole breaks and what is broken is repaired."""
    for group in grouped(cell.workloads):
        names = [workload.name for workload in group]
        broken: dict[str, str] = {}
        for fault in cell.faults:
            if fault.during in names:
                _check_fault(fabric, cell, fault, broken)


def _check_fault(fabric: Fabric, cell: Cell, fault: Fault, broken: dict[str, str]) -> None:
    """Check one fault after all earlier ones of its workload; *broken* has by what each link or switch is broken."""
    flap = f"faults[{fault.entry}].flap"
    key = f"{flap}.link" if flap in cell.origin.lines else f"faults[{fault.entry}].{fault.action.value}"
    try:
        if fault.action.of_switch:
            name = switch_named(fabric, fault.target).name
        else:
            name = link_named(fabric, fault.target).name
    except (LinkError, NodeError) as error:
        raise cell.origin.error(str(error), key) from None
    at = format_time(fault.at_ns)
    if fault.action.repairs:
        if name not in broken:
            state = "is not stopped" if fault.action is Action.START else "is neither cut nor silenced"
            raise cell.origin.error(f"{fault.target!r} {state} before {at}", key)
        del broken[name]
    elif name in broken:
        raise cell.origin.error(f"{fault.target!r} is broken already at {at}: '{broken[name]}' came before", key)
    else:
        broken[name] = fault.title
