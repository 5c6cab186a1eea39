"""What is counted of a fabric before anything is built: links, ports, hops, bandwidth across the middle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bisection:
    """The bandwidth between two halves of the cards, one way, for the halves that have the least.

    Attributes:
        at_least_bps: No way to halve the cards has less, in bit/s; proven.
        at_most_bps: There are two halves with this, in bit/s.
    """

    at_least_bps: int
    at_most_bps: int

    @property
    def exact(self) -> bool:
        """Whether both are the same."""
        return self.at_least_bps == self.at_most_bps

    @staticmethod
    def exactly(rate_bps: int) -> Bisection:
        """A bandwidth that is known."""
        return Bisection(rate_bps, rate_bps)


@dataclass(frozen=True)
class Figures:
    """Figures of a fabric.

    Attributes:
        cards: How many.
        switches: How many, of any kind.
        links: How many.
        card_ports: Ports of all cards together.
        switch_ports: Ports of all switches together that are used.
        diameter_hops: Links between the two cards that are farthest apart, along their route.
        mean_hops: Links between two different cards, on average.
        bisection: Bandwidth across the middle.
        uniform_bps: What each card can send if all send the same to every other, in bit/s of link capacity.
    """

    cards: int
    switches: int
    links: int
    card_ports: int
    switch_ports: int
    diameter_hops: int
    mean_hops: float
    bisection: Bisection
    uniform_bps: float
