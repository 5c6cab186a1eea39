"""Scenarios: from a YAML file to validated data (`load`), and from there to the cells that are run (`resolve`).

Parsing does not depend on the machine or on any topology, so a file that is valid here is valid everywhere; what only
a built fabric can tell is checked by `check_against`.
"""

from emulator.scenario.codec import cell_from_json, cell_to_json
from emulator.scenario.expect import Outcome, evaluate
from emulator.scenario.load import check, load, loads
from emulator.scenario.model import Bound, Cell, Control, Expectation, Limits, Origin, Scenario, Variant
from emulator.scenario.resolve import check_against, expand, flows_of, resolve

__all__ = [
    "Bound",
    "Cell",
    "Control",
    "Expectation",
    "Limits",
    "Origin",
    "Outcome",
    "Scenario",
    "Variant",
    "cell_from_json",
    "cell_to_json",
    "check",
    "check_against",
    "evaluate",
    "expand",
    "flows_of",
    "load",
    "loads",
    "resolve",
]
