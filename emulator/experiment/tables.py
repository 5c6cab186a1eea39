"""What the machine offers, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from emulator.engine.hostcheck import Capability
from topologies.figures import Figures


def host_table(capabilities: Sequence[Capability]) -> Table:
    """One row a capability: whether it is there, what needs it, and what to do if it is missing."""
    table = Table(title="This machine", title_justify="left")
    for column in ("capability", "", "needed for", "found, or what to do"):
        table.add_column(column, overflow="fold")
    for one in capabilities:
        mark = Text("yes", style="green") if one.present else Text("no", style="bold red")
        table.add_row(one.name, mark, ", ".join(one.needed_for), one.detail if one.present else one.remedy)
    return table


def figures_table(found: Figures) -> Table:
    """What a supernode has to offer, by formula."""
    table = Table(title="The supernode, by formula (theory)", title_justify="left", title_style="bold")
    table.add_column("what")
    table.add_column("figure", justify="right")
    across = found.bisection
    least, most = (f"{rate / 1e12:.4g}" for rate in (across.at_least_bps, across.at_most_bps))
    for what, figure in (
        ("cards", str(found.cards)),
        ("switches", str(found.switches)),
        ("links", str(found.links)),
        ("ports of cards", str(found.card_ports)),
        ("ports of switches", str(found.switch_ports)),
        ("links between the cards farthest apart", str(found.diameter_hops)),
        ("links between two cards, mean", f"{found.mean_hops:.4g}"),
        ("bandwidth between halves, one way", f"{most if across.exact else f'{least} to {most}'} Tbit/s"),
        ("what each card can send if all send evenly to all", f"{found.uniform_bps / 1e12:.4g} Tbit/s"),
    ):
        table.add_row(what, figure)
    return table
