"""Ryu's own applications as a process of their own: what the controller's shapes are held against.

``python -m tests.support.stock_ryu APPLICATION…`` prints where it listens, one line of JSON for each socket. Of Ryu,
only three things are changed: it listens on free ports, it finds the name that eventlet dropped (as the controller
does), and it waits longer than a second for switches, because machines that run tests may be slow.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.client import ControllerClient

_REPOSITORY = Path(__file__).resolve().parents[2]
_END_S = 20
_OPENFLOW, _REST = 1, 2


@contextmanager
def stock_ryu(log: Path, *applications: str) -> Iterator[tuple[str, ControllerClient]]:
    """Run them until the block ends; yields where switches connect, and a client of the REST interface."""
    argv = [sys.executable, "-m", "tests.support.stock_ryu", *applications]
    with log.open("w") as errors:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=_REPOSITORY)
    try:
        assert process.stdout
        with process.stdout:
            ports: dict[int, int] = {}
            while len(ports) < 2:
                line = process.stdout.readline()
                assert line, log.read_text()
                asked, got = json.loads(line)
                ports[asked] = got
            yield f"127.0.0.1:{ports[_OPENFLOW]}", ControllerClient(f"http://127.0.0.1:{ports[_REST]}")
            assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(_END_S)


def main() -> None:
    from controller.green import eventlet

    listen = eventlet.listen

    def listen_anywhere(address: tuple[str, int], *arguments: Any, **options: Any) -> Any:
        sock = listen((address[0], 0), *arguments, **options)
        sys.stdout.write(json.dumps([address[1], sock.getsockname()[1]]) + "\n")
        sys.stdout.flush()
        return sock

    eventlet.listen = listen_anywhere
    from ryu import cfg
    from ryu.base.app_manager import AppManager
    from ryu.lib import ofctl_utils

    for name in ("ryu.topology.switches", *sys.argv[1:]):
        __import__(name)  # they bring their options along
    ofctl_utils.DEFAULT_TIMEOUT = 60.0
    # Without --noinstall-lldp-flow Ryu would add an entry to every switch; ours hand LLDP over anyhow.
    options = ["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", str(_OPENFLOW), "--wsapi-host", "127.0.0.1"]
    options += ["--wsapi-port", str(_REST), "--observe-links", "--noinstall-lldp-flow"]
    cfg.CONF(options, project="ryu", default_config_files=[], default_config_dirs=[])
    AppManager.run_apps(sys.argv[1:])


if __name__ == "__main__":
    main()
