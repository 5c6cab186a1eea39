"""From a scenario to its cells: every variant under every design and profile, with the seed of each."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.errors import ScenarioError
from emulator.model.fabric import Fabric, Role
from emulator.model.profile import profile
from emulator.model.workload import Workload
from emulator.rng import derive
from emulator.scenario.model import Cell, Scenario, Variant
from emulator.scenario.problems import hint

ONLY_VARIANT = "base"

_NEEDED_ROLES: dict[str, tuple[Role, ...]] = {
    "shortest-path": (),
    "conventional": (Role.ROUTER, Role.COMPUTE, Role.STORAGE),
    "gateway": (Role.GATEWAY, Role.STORAGE),
}


def resolve(scenario: Scenario) -> list[Cell]:
    """Expand a scenario into its cells, in the order: variants, designs, profiles.

    Raises:
        ScenarioError: There is no profile of a given name.
    """
    for name in scenario.profiles:
        _check_profile(scenario, name)
    return [
        Cell(
            scenario=scenario.name,
            variant=_variant_name(scenario, variant, design, profile_name),
            kind=variant.kind,
            parameters=variant.parameters,
            design=design,
            profile=profile_name,
            workloads=variant.workloads,
            seed=derive(variant.seed, "cell", variant.label),
            limits=variant.limits,
            sampling_ns=variant.sampling_ns,
            capture=scenario.capture,
            origin=variant.origin,
        )
        for variant in scenario.variants
        for design in scenario.designs
        for profile_name in scenario.profiles
    ]


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
    interfaces = [end for link in fabric.links for end in (link.a_interface, link.b_interface)]
    for index, interface in enumerate(cell.capture):
        if interface not in interfaces:
            raise cell.origin.error(
                f"there is no interface {interface!r}{hint(interface, interfaces)}", f"capture[{index}]"
            )


def _check_profile(scenario: Scenario, name: str) -> None:
    try:
        profile(name)
    except ScenarioError as error:
        index = scenario.profiles.index(name)
        raise scenario.variants[0].origin.error(error.reason, f"profiles[{index}]") from None


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
    for key in ("sources", "targets", "initiators"):
        for position, name in enumerate(getattr(workload, key, ())):
            yield f"{key}[{position}]", name


def _check_host(fabric: Fabric, cell: Cell, key: str, name: str) -> None:
    node = fabric.by_name.get(name)
    if node is None:
        hosts = [host.name for host in fabric.hosts]
        raise cell.origin.error(f"there is no host {name!r} in the topology{hint(name, hosts)}", key)
    if node.is_switch:
        raise cell.origin.error(f"{name!r} is a switch, a host is meant here", key)


def _check_ends(cell: Cell, index: int, workload: Workload) -> None:
    for source, target in flows_of(workload):
        if source == target:
            raise cell.origin.error(f"a flow from {source!r} to itself never meets the network", f"workloads[{index}]")


def flows_of(workload: Workload) -> tuple[tuple[str, str], ...]:
    """The pairs of hosts, initiator first, between which a workload sends; each pair once, in order."""
    if hasattr(workload, "initiators"):
        pairs = [(name, workload.target) for name in workload.initiators]  # type: ignore[attr-defined]
    elif hasattr(workload, "sources"):
        sources, targets = workload.sources, workload.targets  # type: ignore[attr-defined]
        flows: int = workload.flows  # type: ignore[attr-defined]
        pairs = [(sources[i % len(sources)], targets[i % len(targets)]) for i in range(flows)]
    else:
        pairs = [(workload.source, workload.target)]  # type: ignore[attr-defined]
    return tuple(dict.fromkeys(pairs))
