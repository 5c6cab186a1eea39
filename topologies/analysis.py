"""What a supernode topology has to offer, from formulas: figures of one fabric, and one against another.

Claims such as "2.3 times the bisection bandwidth of a tree" depend on the tree. `advantage` compares two fabrics;
`matching_oversubscription` says for which tree a claim holds.
"""

from __future__ import annotations

from fractions import Fraction

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric
from topologies.closed_forms import CLOSED_FORMS
from topologies.figures import Bisection, Figures

__all__ = ["Bisection", "Figures", "advantage", "figures", "matching_oversubscription"]


def figures(fabric: Fabric) -> Figures:
    """Figures of a supernode fabric.

    Raises:
        TopologyError: There are no formulas for its topology.
    """
    if fabric.name not in CLOSED_FORMS:
        raise TopologyError(f"there are no formulas for {fabric.name}: only for {', '.join(CLOSED_FORMS)}")
    return CLOSED_FORMS[fabric.name](fabric)


def advantage(one: Fabric, other: Fabric) -> Fraction:
    """How many times the bisection bandwidth of *other* a fabric has.

    Raises:
        TopologyError: They do not have as many cards, or one's bisection is known within bounds only.
    """
    ours, theirs = figures(one), figures(other)
    if ours.cards != theirs.cards:
        raise TopologyError(f"{one.name} has {ours.cards} cards and {other.name} {theirs.cards}")
    for fabric, found in ((one, ours), (other, theirs)):
        if not found.bisection.exact:
            raise TopologyError(f"the bisection bandwidth of {fabric.name} is not known exactly")
    return Fraction(ours.bisection.at_least_bps, theirs.bisection.at_least_bps)


def matching_oversubscription(fabric: Fabric, ratio: Fraction, card_rate_bps: int) -> Fraction:
    """Oversubscription of the tree that a fabric has *ratio* times the bisection bandwidth of.

    A tree with N cards, one port each, has N/2 links across the middle, divided by the oversubscription of all its
    levels together, as long as its root has an even number of branches.

    Args:
        fabric: Which is compared.
        ratio: Claimed advantage.
        card_rate_bps: Rate of the port of a card in the tree.

    Returns:
        The product over all levels; below 1 even a tree without oversubscription has less than claimed.

    Raises:
        TopologyError: The fabric's bisection is known within bounds only.
    """
    found = figures(fabric)
    if not found.bisection.exact:
        raise TopologyError(f"the bisection bandwidth of {fabric.name} is not known exactly")
    return ratio * Fraction(found.cards * card_rate_bps, 2 * found.bisection.at_least_bps)
