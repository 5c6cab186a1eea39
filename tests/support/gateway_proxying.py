"""Experiments with the copying proxy, run inside an emulated machine. Each returns what it measured."""

from __future__ import annotations

import hashlib
import select
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from emulator.engine.progress import report
from gateway.client import request
from tests.support.gateway_bed import (
    CORE,
    DELAY_NS,
    NVME_PORT,
    Bed,
    connect,
    now_ns,
    read_all,
    serialization_ns,
    serve_sink,
    steady_goodput_bps,
    tcp_rtts_ns,
    wait_for,
)


def proxy_integrity() -> dict[str, Any]:
    """100 MB through the proxy, with a half-close: the hash comes back after the client's end of stream."""
    with Bed() as bed:
        daemon = bed.daemon("proxy", CORE, "--listen", "15001")
        thread, seen = serve_sink(bed)
        sock = connect(bed)
        digest = hashlib.sha256()
        begin = now_ns()
        for number in range(100):
            block = hashlib.sha256(str(number).encode()).digest() * (1_000_000 // 32)
            digest.update(block)
            sock.sendall(block)
        sock.shutdown(socket.SHUT_WR)
        answer = read_all(sock)
        duration = now_ns() - begin
        thread.join()
        sock.close()
        end = daemon.stop()
        tables = bed.inside("g", "nft", "list", "ruleset")
        return {"same": answer == digest.digest(), "peer": seen["peer"], "proxy": bed.ip("g"),
                "bytes": 100 * 31250 * 32, "duration_ns": duration, "rules_left": tables, "end": end}  # fmt: skip


def proxy_rtt() -> dict[str, Any]:
    """Round trips of small messages through the proxy: one traversal each way."""
    runs = []
    for latency_ns in (0, 5_000, 100_000):
        with Bed() as bed:
            daemon = bed.daemon("proxy", replace(CORE, latency_ns=latency_ns), "--listen", "15001")
            rtts = tcp_rtts_ns(bed, NVME_PORT)
            frame = 14 + 20 + 32 + 72
            theory = 2 * (4 * (DELAY_NS + serialization_ns(frame)) + max(latency_ns, 2_000))
            runs.append({"latency_ns": latency_ns, "rtt_ns": rtts, "theory_ns": theory, "end": daemon.stop()})
    return {"runs": runs}


def proxy_throughput() -> dict[str, Any]:
    """Bulk TCP through the proxy, whose core handles half a million packets a second."""
    runs = []
    for rate in (500_000, None):
        with Bed() as bed:
            daemon = bed.daemon("proxy", replace(CORE, packet_rate=rate), "--listen", "15001")
            report(f"proxy {rate} begins")
            goodput = steady_goodput_bps(bed, 150_000_000)
            report("proxy ends")
            runs.append({"packet_rate": rate, "goodput_bps": goodput, "end": daemon.stop()})
    return {"runs": runs}


def proxy_many_connections() -> dict[str, Any]:
    """Two thousand connections at the same time, each with a message of its own."""
    count = 2000
    with Bed() as bed:
        daemon = bed.daemon("proxy", CORE, "--listen", "15001")
        with bed.namespace("b"):
            server = socket.create_server((bed.ip("b"), NVME_PORT), backlog=4096)
        accepted: list[socket.socket] = []

        def serve() -> None:
            for _ in range(count):
                accepted.append(server.accept()[0])
            for sock in accepted:
                sock.sendall(read_all(sock)[::-1])
                sock.close()
            server.close()

        thread = threading.Thread(target=serve)
        thread.start()
        clients = [connect(bed) for _ in range(count)]
        wait_for(lambda: len(accepted) == count)
        open_connections = daemon.stats()["open_connections"]
        for number, sock in enumerate(clients):
            sock.sendall(b"connection %d" % number)
            sock.shutdown(socket.SHUT_WR)
        right = sum(read_all(sock) == (b"connection %d" % number)[::-1] for number, sock in enumerate(clients))
        for sock in clients:
            sock.close()
        thread.join()
        return {"count": count, "open": open_connections, "right": right, "end": daemon.stop()}


def outcome(function: Callable[[], object]) -> str:
    try:
        return repr(function())
    except OSError as error:
        return type(error).__name__


def proxy_failures() -> dict[str, Any]:
    """Resets by either side, a closed port, a direct connection, a receiver that does not read, a killed daemon."""
    found: dict[str, Any] = {}
    with Bed() as bed:
        daemon = bed.daemon("proxy", CORE, "--listen", "15001")

        def pair() -> tuple[socket.socket, socket.socket]:
            with bed.namespace("b"):
                server = socket.create_server((bed.ip("b"), NVME_PORT))
            client = connect(bed)
            accepted = server.accept()[0]
            server.close()
            client.sendall(b"x")
            accepted.recv(1)
            return client, accepted

        for name, index in (("client_resets", 0), ("server_resets", 1)):
            ends = pair()
            ends[index].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            ends[index].close()
            found[name] = outcome(partial(ends[1 - index].recv, 1))
            ends[1 - index].close()
        sock = connect(bed)
        found["closed_port"] = outcome(lambda: sock.recv(1))
        sock.close()
        with bed.namespace("a"):
            direct = socket.create_connection((bed.ip("g"), 15001))
        found["direct"] = outcome(lambda: direct.recv(1))
        direct.close()

        client, server = pair()
        client.setblocking(False)
        pushed = 0
        while True:
            try:
                pushed += client.send(bytes(1 << 20))
            except BlockingIOError:
                if not select.select([], [client], [], 0.5)[1]:
                    break
        found["pushed"] = pushed
        found["held"] = daemon.stats()["buffered_bytes"]
        client.setblocking(True)
        client.shutdown(socket.SHUT_WR)
        found["came"] = len(read_all(server))
        server.sendall(b"late")
        server.close()
        found["answer"] = read_all(client).decode()
        client.close()

        found["before_kill"] = daemon.stats()
        daemon.process.kill()
        daemon.process.wait()
        found["rules_after_kill"] = bed.inside("g", "nft", "list", "ruleset").count("redirect")
        again = bed.daemon("proxy", CORE, "--listen", "15001", fresh=False)
        wait_for(lambda: again.alive())
        found["rules_after_restart"] = bed.inside("g", "nft", "list", "ruleset").count("redirect")
        client, server = pair()
        server.sendall(b"again")
        found["again"] = client.recv(5).decode()

        client.sendall(bytes(1000))
        drained = request(again.control, "drain")
        found["drained"] = [drained["draining"], drained["open_connections"]]
        found["rules_while_draining"] = bed.inside("g", "nft", "list", "ruleset").count("redirect")
        found["end"] = again.stop()
        found["cut_client"] = outcome(lambda: client.recv(1))
        found["rules_left"] = bed.inside("g", "nft", "list", "ruleset")
        client.close()
        server.close()
    return found
