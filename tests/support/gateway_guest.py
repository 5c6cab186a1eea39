"""Runs inside an emulated machine: ``python -m tests.support.gateway_guest EXPERIMENT…``.

Writes what each experiment measured, or how it failed, to ``result.json`` in the job's folder.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from tests.support import gateway_forwarding, gateway_proxying


def main() -> int:
    """Run the named experiments one after the other."""
    results: dict[str, object] = {}
    for name in sys.argv[1:]:
        experiment = getattr(gateway_forwarding, name, None) or getattr(gateway_proxying, name)
        try:
            results[name] = experiment()
        except Exception:  # noqa: BLE001 - the test outside shows it
            results[name] = {"failed": traceback.format_exc()}
    (Path(os.environ["ICGW_OUT"]) / "result.json").write_text(json.dumps(results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
