"""Rules that hold the traffic of one pair of hosts on a path, or only count it.

Both have the same match, so a rule that counts becomes one that holds by being replaced, and every pair has a counter
of its own in the first switch. Addresses name the pair as the fabric sees it: who sends, and the next node that the
packet visits.
"""

from __future__ import annotations

from controller.flows import Action, FlowRule, Match, Output, Purpose, Table, ToGroup, cookie_of
from controller.paths.paths import Paths, Spread
from controller.paths.ways import Pair, Pin

PRIORITY_PIN = 300
"""Above all other rules of `Table.ROUTE`."""


def pin_rules(paths: Paths, pin: Pin) -> tuple[FlowRule, ...]:
    """The rules of a pin, to be installed in this order and removed in the reverse one.

    The switch nearest to the target comes first. So a packet that meets one of the rules meets all that follow, and
    ends at the target whatever the others do.

    Where the path goes on as some plane does, its group is used, which has other ports should this one fail.
    """
    rules: list[FlowRule] = []
    for switch, port in reversed(list(zip(pin.switches, pin.ports, strict=False))):
        action = _towards(paths, switch, port, pin.switches[-1])
        rules += _rule(paths, switch, pin.pair, action, f"{pin.source} to {pin.target} over {' '.join(pin.switches)}")
    return tuple(rules)


def watch_rules(paths: Paths, pair: Pair) -> tuple[FlowRule, ...]:
    """The rule that counts a pair's packets where they enter and leaves them on their path; none on one switch."""
    start, end = (paths.attachments[host].switch for host in pair)
    if start == end:
        return ()
    action = paths.towards(start, end, paths.plane(*pair))
    return _rule(paths, start, pair, action, f"{pair[0]} to {pair[1]}, counted") if action else ()


def _towards(paths: Paths, switch: str, port: int, end: str) -> Action:
    if paths.spread is Spread.FLOWS:
        return ToGroup(paths.group_of(switch, end, 0)) if paths.next_ports(switch, end) == (port,) else Output(port)
    ports = paths.plane_ports(switch, end) or ()
    return ToGroup(paths.group_of(switch, end, ports.index(port))) if port in ports else Output(port)


def _rule(paths: Paths, switch: str, pair: Pair, action: Action, note: str) -> tuple[FlowRule, ...]:
    dpid = paths.fabric.by_name[switch].dpid
    source, target = (paths.fabric.by_name[host].mac for host in pair)
    if dpid is None or source is None or target is None:
        return ()
    match = Match(eth_src=source, eth_dst=target)
    cookie = cookie_of(Purpose.PIN)
    return (FlowRule(dpid, Table.ROUTE, PRIORITY_PIN, match, (action,), cookie=cookie, note=note),)
