"""Runs stock ``mn`` in namespaces of its own and reports what it said and left: ``network_mn.py MARKER SIGNAL WORD…``.

Meant to be started by ``unshare`` with new user, network, mount and process namespaces. If MARKER is not empty, SIGNAL
is sent once ``mn`` has printed it. A bystander that is called ``ping`` runs all the time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

CUSTOM = Path(__file__).resolve().parents[2] / "topologies" / "mn.py"


def processes(but: set[int]) -> dict[int, str]:
    """Living processes of this namespace by number, except for some."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) not in but:
            try:
                status = (entry / "status").read_text()
            except OSError:
                continue
            if "\nState:\tZ" not in status:
                found[int(entry.name)] = status.partition("\n")[0].removeprefix("Name:\t")
    return found


def main(marker: str, number: str, words: list[str]) -> None:
    """Run and report as JSON."""
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    temporary = Path(tempfile.gettempdir())
    program = temporary / "ping"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    bystander = subprocess.Popen([program, "1000"])
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(temporary),
        "TERM": "dumb",
        "TMPDIR": str(temporary),
    }
    mn = subprocess.Popen(
        ["prlimit", "--nofile=16384", "mn", "--custom", str(CUSTOM), *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert mn.stdout is not None
    said = b""
    while data := os.read(mn.stdout.fileno(), 4096):
        said += data
        if marker and marker.encode() in said:
            mn.send_signal(signal.Signals[number])
            marker = ""
    status = mn.wait()
    ours = {os.getpid(), bystander.pid}
    # Shells of hosts end when their terminal goes, a moment after mn itself: wait for each that is still there.
    for pid in processes(ours):
        try:
            os.pidfd_open(pid)
        except OSError:
            continue
        subprocess.run(["timeout", "10", "tail", f"--pid={pid}", "-f", "/dev/null"], check=False)
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout.splitlines()
    result = {
        "status": status,
        "said": said.decode(errors="replace"),
        "links": [line.split()[0] for line in links],
        "processes": sorted(processes(ours).values()),
        "files": sorted(entry.name for entry in temporary.iterdir() if entry.name.startswith("icgw")),
        "bystander": bystander.poll() is None,
    }
    bystander.kill()
    bystander.wait()
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
