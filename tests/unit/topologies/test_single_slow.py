"""Hosts on one switch, some of which have slower links."""

from __future__ import annotations

import pytest

from emulator.errors import TopologyError
from topologies import single


def test_the_last_hosts_are_slow() -> None:
    """So many links have the other rate, and everything else is as it was."""
    fabric = single(5, rate_bps=400, slow_hosts=2, slow_rate_bps=100)
    assert [link.spec.rate_bps for link in fabric.links] == [400, 400, 400, 100, 100]
    assert fabric.parameters["slow_hosts"] == 2
    assert "slow_hosts" not in single(5).parameters


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"slow_hosts": 2}, "slow_hosts"),
        ({"slow_rate_bps": 100}, "slow_hosts"),
        ({"slow_hosts": 6, "slow_rate_bps": 100}, "slow_hosts"),
        ({"slow_hosts": 1, "slow_rate_bps": 0}, "slow_rate_bps"),
    ],
)
def test_refusals(given: dict[str, int], key: str) -> None:
    """Both are given together, in range; the key is named."""
    with pytest.raises(TopologyError) as caught:
        single(5, **given)  # type: ignore[arg-type]
    assert caught.value.key == key
