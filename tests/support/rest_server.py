"""A REST server of its own process around a made-up controller: ``python -m tests.support.rest_server``.

Prints its port. Lines on its standard input make things happen: ``events 10`` adds events.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[2]
_END_S = 20


@contextmanager
def rest_server(log: Path, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Start it, and end it at the end of the block; yields its port and its process."""
    argv = [sys.executable, "-m", "tests.support.rest_server", *arguments]
    with log.open("w") as errors:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=_REPOSITORY
        )
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line, log.read_text()
        yield json.loads(line)["port"], process
    finally:
        process.terminate()
        process.wait(_END_S)
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()


def main() -> None:
    from controller.green import eventlet
    from controller.rest.api import Api
    from controller.rest.connection import MOST_UNREAD_BYTES, Patience
    from controller.rest.server import Server
    from controller.rest.streams import Streams
    from controller.rest.tokens import load_tokens
    from tests.support.controller_backend import FakeBackend, fill

    parser = argparse.ArgumentParser()
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--tokens", type=Path)
    parser.add_argument("--most", type=int, default=512)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--heartbeat-s", type=float, default=15.0)
    parser.add_argument("--slow-s", type=float, default=1.0)
    for name in ("idle", "head", "body", "write", "room"):
        parser.add_argument(f"--{name}-s", type=float, default=getattr(Patience(), f"{name}_s"))
    parser.add_argument("--unread-bytes", type=int, default=MOST_UNREAD_BYTES)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    backend = FakeBackend(store=arguments.store)
    api = Api(backend, load_tokens(arguments.tokens) if arguments.tokens else None)
    sock = eventlet.listen(("127.0.0.1", 0), backlog=4096, reuse_port=False)
    patience = Patience(arguments.idle_s, arguments.head_s, arguments.body_s, arguments.write_s, arguments.room_s)
    streams = Streams(arguments.streams, arguments.heartbeat_s, arguments.slow_s)
    server = Server(api, streams, arguments.most, patience, arguments.unread_bytes)
    sys.stdout.write(json.dumps({"port": sock.getsockname()[1]}) + "\n")
    sys.stdout.flush()

    def obey() -> None:
        while True:
            eventlet.hubs.trampoline(sys.stdin.fileno(), read=True)
            words = sys.stdin.readline().split()
            if not words:
                return
            fill(backend.journal, int(words[1]))

    eventlet.spawn_n(obey)
    server.run(sock)


if __name__ == "__main__":
    main()
