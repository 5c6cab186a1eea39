"""``python -m gateway``."""

import sys


def _run() -> int:
    try:
        from gateway.cli import main

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 130


if __name__ == "__main__":
    raise SystemExit(_run())
