"""Real storage servers on the storage nodes of a virtual-time kernel, one for each tenant and kind, and their clients.

=======  ========================================  =============================
kind     server                                    client
=======  ========================================  =============================
block    the kernel's NVMe/TCP target              the kernel's initiator
file     the kernel's NFS server, version 4.2      the kernel's NFS client
object   the standard library's HTTP server        its HTTP client
=======  ========================================  =============================

Files and objects say whose they are; a volume has a name of its own, by which it must be asked for.
"""

from __future__ import annotations

import ctypes
import functools
import http.client
import http.server
import mmap
import os
import socket
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from emulator.engine.host import HostHandle
from emulator.errors import WorkloadError
from emulator.model.profile import profile
from emulator.workloads.storage import Storage

OWNER = "owner"
"""Name of the file, and of the object, that says whose it is."""
TIMEOUT_S = 0.1

_LIBC = ctypes.CDLL(None, use_errno=True)
_BLOCK_BYTES = 4096
_FOR_EVER = 0x7FFFFFFF
_INSECURE_PORT, _ASYNC, _NO_SUBTREE_CHECK, _FSID = 0x2, 0x10, 0x400, 0x2000
"""Of an NFS export. Clients behind proxies do not come from reserved ports."""
_CACHES = ("auth.unix.ip", "nfsd.export", "nfsd.fh")


def opens(host: HostHandle, ip: str, port: int) -> bool:
    """Whether somebody accepts a TCP connection."""
    with host.namespace(), socket.socket() as client:
        client.settimeout(TIMEOUT_S)
        try:
            client.connect((ip, port))
        except OSError:
            return False
        return True


# --- block ------------------------------------------------------------------------------------------------------------


def volumes_reached(client: HostHandle, targets: Sequence[HostHandle], at: tuple[str, int]) -> list[str]:
    """Names of the storage nodes whose volume answers a client at an address; what answers is written and read.

    Each storage node has a volume for the client, under a name of its own.
    """
    found = []
    with Storage(profile("documents").media) as storage:
        for target in targets:
            try:
                device = storage.volume(client, target, at)
            except WorkloadError as error:
                if "cannot connect" not in str(error):
                    raise
                continue
            _write_and_read(device, f"{client.name} was here".encode())
            found.append(target.name)
    return found


def _write_and_read(device: Path, text: bytes) -> None:
    descriptor = os.open(device, os.O_RDWR | os.O_DIRECT)
    try:
        with mmap.mmap(-1, _BLOCK_BYTES) as block:  # aligned, as direct I/O wants it
            block[: len(text)] = text
            assert os.pwritev(descriptor, [block], 0) == _BLOCK_BYTES
            block[: len(text)] = bytes(len(text))
            assert os.preadv(descriptor, [block], 0) == _BLOCK_BYTES
            assert block[: len(text)] == text
    finally:
        os.close(descriptor)


# --- file -------------------------------------------------------------------------------------------------------------


@contextmanager
def _mounted(source: str, folder: Path, kind: str, options: str = "") -> Iterator[None]:
    """A file system, mounted by the calling thread."""
    folder.mkdir()
    try:
        _checked(_LIBC.mount(source.encode(), bytes(folder), kind.encode(), 0, options.encode()), folder)
        try:
            yield
        finally:
            _checked(_LIBC.umount2(bytes(folder), 0), folder)
    finally:
        folder.rmdir()


def _checked(result: int, path: Path) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))


def _tell(path: Path, line: str) -> None:
    # Kernel interfaces take a line with one write.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def _forget(caches: Path) -> None:
    """Let go of what is exported, so that it can be unmounted."""
    for name in reversed(_CACHES):
        _tell(caches / name / "flush", str(_FOR_EVER))


@contextmanager
def file_server(host: HostHandle, port: int, owner: str, clients: Sequence[str], folder: Path) -> Iterator[None]:
    """The kernel's NFS server in a host's namespace, with one file that says whose it is.

    Everything that it would ask user space is told beforehand: who clients are, and what is exported to them.

    Args:
        host: Where it serves.
        port: TCP port.
        owner: What the file says.
        clients: All addresses that clients may have.
        folder: A folder for mounts.
    """
    data, control = folder / f"{host.name}-data", folder / f"{host.name}-nfsd"
    flags = _INSECURE_PORT | _ASYNC | _NO_SUBTREE_CHECK | _FSID
    lines = {
        "auth.unix.ip": [f"nfsd {client} {_FOR_EVER} everybody" for client in clients],
        "nfsd.export": [f"everybody {data} {_FOR_EVER} {flags} 0 0 0"],
        "nfsd.fh": [f"everybody 1 \\x00000000 {_FOR_EVER} {data}"],
    }
    with ExitStack() as stack:
        stack.enter_context(_mounted("none", data, "tmpfs"))
        (data / OWNER).write_text(owner)
        with host.namespace():
            stack.enter_context(_mounted("nfsd", control, "nfsd"))
            caches = Path(f"/proc/self/task/{threading.get_native_id()}/net/rpc")
            for name in _CACHES:
                for line in lines[name]:
                    _tell(caches / name / "channel", line)

        def forget() -> None:
            with host.namespace():
                _forget(caches)

        stack.callback(forget)
        _tell(control / "versions", "-3 +4.2")  # older ones would want a port mapper
        _tell(control / "nfsv4gracetime", "10")
        _tell(control / "portlist", f"tcp {port}")
        _tell(control / "threads", "2")
        stack.callback(_tell, control / "threads", "0")
        yield


def read_file(client: HostHandle, ip: str, port: int, folder: Path) -> str:
    """Mount what a file server exports, and read whose it is; empty: nobody answers."""
    if not opens(client, ip, port):
        return ""
    mount = folder / f"{client.name}-files"
    with (
        client.namespace(),
        _mounted(f"{ip}:/", mount, "nfs4", f"vers=4.2,proto=tcp,sec=sys,addr={ip},clientaddr={client.ip},port={port}"),
    ):
        return (mount / OWNER).read_text()


# --- object, and anything else that speaks HTTP -----------------------------------------------------------------------


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(socketserver.ThreadingTCPServer):
    """As `http.server` has one, but without a look-up of the host's name, which takes seconds where nobody answers."""

    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def object_server(host: HostHandle, port: int, owner: str, folder: Path) -> Iterator[None]:
    """A web server in a host's namespace, with one object that says whose it is."""
    objects = folder / f"objects-{host.name}-{port}"
    objects.mkdir()
    (objects / OWNER).write_text(owner)
    with host.namespace():
        server = _Server(("", port), functools.partial(_Handler, directory=str(objects)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def read_object(client: HostHandle, ip: str, port: int) -> str:
    """Get the object that says whose it is; empty: nobody answers."""
    connection = http.client.HTTPConnection(ip, port, timeout=TIMEOUT_S)
    try:
        with client.namespace():
            connection.request("GET", f"/{OWNER}")
        answer = connection.getresponse()
        assert answer.status == http.client.OK
        return answer.read().decode()
    except OSError:
        return ""
    finally:
        connection.close()
