"""A download from a lab, through its tunnel and through `ssh -L` to the same server's socket."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from statistics import median

import psutil

from jupyter_slurm.wire import Job
from tests.benchmarks.lab_ground import Ground
from tests.benchmarks.lab_ways import ready
from tests.benchmarks.rounds import alternating
from tests.benchmarks.table import Row
from tests.lab_visitor import LabVisitor
from tests.ssh.sshd import free_port

_CHUNK = 1 << 20
_NAME = "large.bin"


def download(place: Ground, gigabytes: float, rounds: int) -> Row:
    """Measure from the first byte on. Before that, the server reads the file, and the tunnel is
    idle."""
    size = int(gigabytes * 1e9)
    folder = place.folder / "data"
    folder.mkdir()
    with (folder / _NAME).open("wb") as file:
        file.truncate(size)
    job = ready(place, folder)
    port = free_port()
    forward = f"{port}:{_socket_of(job)}"
    subprocess.run(place.ssh("-O", "forward", "-L", forward, place.sshd.alias), check=True)
    ours = LabVisitor.of(job)
    theirs = LabVisitor(ours.host, port)
    assert ours.log_in(place.api.lab_entry(job.id)).status_code == 302
    theirs.take_cookies(ours)
    taken = alternating(
        {"ours": lambda: _down(ours, size), "ssh": lambda: _down(theirs, size)}, rounds
    )
    place.end_jobs()
    mine, other = median(taken["ours"]), median(taken["ssh"])
    away = f", {place.delay_s * 1000:g} ms away" if place.delay_s else ""
    return Row(f"{gigabytes:g} GB down from the lab{away}", mine, "ssh -L", other, 1.0)


def _socket_of(job: Job) -> Path:
    """Return the server's socket. It is next to its configuration, since other labs may run on this
    machine."""
    for one in psutil.process_iter(["cmdline"]):
        if job.job_dir in (one.info["cmdline"] or ()):
            for word in [word for child in one.children() for word in child.cmdline()]:
                if word.startswith("--config="):
                    return Path(word.removeprefix("--config=")).with_name("server")
    raise AssertionError(f"the server of {job.id} does not run")


def _down(one: LabVisitor, size: int) -> float:
    with one.stream(f"/files/{_NAME}") as raw:
        left = size - len(raw.read(1))
        began_s = time.perf_counter()
        while left:
            data = raw.read(min(left, _CHUNK))
            assert data
            left -= len(data)
        return time.perf_counter() - began_s
