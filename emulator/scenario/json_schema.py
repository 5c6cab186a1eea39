"""The published JSON schema of scenario files, for editors: generated from the models that validate them.

``python -m emulator.scenario.json_schema > scenarios/schema.json`` writes it; a test keeps the file up to date.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from emulator.scenario.document import Document

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def scenario_schema() -> dict[str, Any]:
    """The JSON schema of a scenario file."""
    schema = Document.model_json_schema(by_alias=True)
    _tidy(schema)
    return {"$schema": DIALECT, **schema, "title": "icgw scenario"}


def schema_text() -> str:
    """The schema as the text of ``scenarios/schema.json``."""
    return json.dumps(scenario_schema(), indent=2, ensure_ascii=False) + "\n"


def _tidy(node: Any) -> None:
    """Drop what pydantic adds but no reader needs: titles made from field names, and defaults that mean 'not given'."""
    if isinstance(node, dict):
        for key in [key for key, value in node.items() if key == "default" and value is None]:
            del node[key]
        if isinstance(node.get("title"), str):
            del node["title"]
        options = node.get("anyOf")
        if isinstance(options, list) and {"type": "null"} in options:
            node["anyOf"] = [option for option in options if option != {"type": "null"}]
            if len(node["anyOf"]) == 1:
                node.update(node.pop("anyOf")[0])
        for value in list(node.values()):
            _tidy(value)
    elif isinstance(node, list):
        for value in node:
            _tidy(value)


if __name__ == "__main__":
    sys.stdout.write(schema_text())
