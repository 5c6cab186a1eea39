"""What the machine offers, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from emulator.engine.hostcheck import Capability


def host_table(capabilities: Sequence[Capability]) -> Table:
    """One row a capability: whether it is there, what needs it, and what to do if it is missing."""
    table = Table(title="This machine", title_justify="left")
    for column in ("capability", "", "needed for", "found, or what to do"):
        table.add_column(column, overflow="fold")
    for one in capabilities:
        mark = Text("yes", style="green") if one.present else Text("no", style="bold red")
        table.add_row(one.name, mark, ", ".join(one.needed_for), one.detail if one.present else one.remedy)
    return table
