"""The host on the right, for TCP: throws away what comes, or sends it back.

``python -m tests.bench.dataplane.peer PORT``; the first byte of a connection says what is to be done with it.
"""

from __future__ import annotations

import socket
import sys
import threading

SWALLOW, ECHO = b"s", b"e"
MESSAGE_BYTES = 64
_PIECE = 1 << 20


def _serve(connection: socket.socket) -> None:
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        what = connection.recv(1)
        buffer = bytearray(_PIECE)
        if what == SWALLOW:
            # The kernel throws it away without copying it here.
            while connection.recv_into(buffer, _PIECE, socket.MSG_TRUNC):
                pass
        elif what == ECHO:
            while data := connection.recv(MESSAGE_BYTES, socket.MSG_WAITALL):
                connection.sendall(data)


def _served(connection: socket.socket) -> None:
    try:
        _serve(connection)
    except OSError as error:  # the other end is gone: benchmarks end so
        sys.stderr.write(f"{error}\n")


def main() -> None:
    """Say when it is ready, and serve."""
    with socket.create_server(("", int(sys.argv[1]))) as listener:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_served, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
