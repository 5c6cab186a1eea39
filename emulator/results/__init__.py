"""Records and the results folder that they are written to: the contract between measuring and reporting."""

from emulator.results.canonical import canonical_json, parse_records, records_text
from emulator.results.export import records_csv
from emulator.results.folder import ResultsFolder, default_folder, write_part, write_side_file, write_text
from emulator.results.manifest import (
    CellInfo,
    Manifest,
    Revision,
    package_versions,
    program_versions,
    tree_revision,
)
from emulator.results.reader import CellResults, Results, read_results
from emulator.results.records import Kind, Record
from emulator.results.side import (
    ClassCounters,
    Counters,
    Measured,
    PortCounters,
    Series,
    Side,
    counters_to_json,
    distributions_to_json,
    series_to_json,
)

__all__ = [
    "CellInfo",
    "CellResults",
    "ClassCounters",
    "Counters",
    "Kind",
    "Manifest",
    "Measured",
    "PortCounters",
    "Record",
    "Results",
    "ResultsFolder",
    "Revision",
    "Series",
    "Side",
    "canonical_json",
    "counters_to_json",
    "default_folder",
    "distributions_to_json",
    "package_versions",
    "parse_records",
    "program_versions",
    "read_results",
    "records_csv",
    "records_text",
    "series_to_json",
    "tree_revision",
    "write_part",
    "write_side_file",
    "write_text",
]
