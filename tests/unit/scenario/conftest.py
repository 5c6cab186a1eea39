"""A small valid scenario that tests change one thing of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.errors import ScenarioError
from emulator.scenario import loads

SMALL = """\
scenario: small
question: Is it small?
topology: {kind: chain, hops: 3, rate: 100 Gbit/s, delay: 1 us}
workloads:
  - {name: rtt, kind: ping, source: h0, target: h1, count: 20}
  - {name: bulk, kind: tcp, sources: h0, targets: h1, size: 10 MB}
expect: [{workload: rtt, metric: rtt_error, at_most: 100 ns}]
"""


@pytest.fixture
def small() -> str:
    """The text of a valid scenario; line 3 is its topology, lines 5 and 6 its workloads."""
    return SMALL


@pytest.fixture
def refused() -> Callable[[str], ScenarioError]:
    """Load a text that must be refused and return the error."""

    def refuse(text: str) -> ScenarioError:
        with pytest.raises(ScenarioError) as caught:
            loads(text, "f.yaml")
        assert "\n" not in str(caught.value)
        return caught.value

    return refuse
