"""What the core can be told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """How the core behaves; times in ns.

    Attributes:
        grace_ns: A switch that lost its control connection for longer is avoided where there is another way.
        startup_ns: A switch that has never been there is avoided after this time.
        gather_ns: After the start nothing is done to switches until all are there, or this time after the first one. So
            all that they say about failed links is known before the first of them is changed.
        step_limit_ns: A step of an update waits this long for switches that do not answer.
        retry_ns: A switch that did not take what it should is read again after this time.
        lldp_interval_ns: Time between rounds of discovery; 0: no discovery.
        balance_interval_ns: Time between looks at the links' loads; 0: large flows are not moved.
        redundant: Several controllers share a store; this one does nothing to switches until it is elected.
    """

    grace_ns: int = 10**9
    startup_ns: int = 10 * 10**9
    gather_ns: int = 10**9
    step_limit_ns: int = 2 * 10**9
    retry_ns: int = 10 * 10**9
    lldp_interval_ns: int = 10 * 10**9
    balance_interval_ns: int = 0
    redundant: bool = False
