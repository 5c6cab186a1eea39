"""Records as CSV, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from emulator.results.canonical import identity
from emulator.results.records import Record


def records_csv(records: Iterable[Record]) -> str:
    """Records as CSV text with a header (RFC 4180, with newlines only), in canonical order."""
    output = io.StringIO()
    writer = csv.DictWriter(output, fieldnames=list(Record.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    for record in sorted(records, key=identity):
        writer.writerow(record.as_json())
    return output.getvalue()
