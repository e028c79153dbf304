"""Functions that open a notebook on a node by jupyter-slurm, by hand and by jupyter-forward. Each
returns the seconds that it took."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import requests

from jupyter_slurm.commands import labs
from jupyter_slurm.wire import Job, LabSpec
from tests.benchmarks.lab_ground import Ground
from tests.jobs.conftest import LETTERS
from tests.lab_visitor import LabVisitor
from tests.ssh.sshd import free_port

_POLL_S = 0.02
_PATIENCE_S = 120.0


def lab(place: Ground) -> float:
    began_s = time.perf_counter()
    job = ready(place)
    one = LabVisitor.of(job)
    assert one.log_in(place.api.lab_entry(job.id)).status_code == 302
    _use(one)
    return time.perf_counter() - began_s


def ready(place: Ground, folder: Path | None = None) -> Job:
    """Submit a lab. Return its job once clients see that the lab is ready."""
    job_id = "".join(secrets.choice(LETTERS) for _ in range(8))
    options = {} if folder is None else {"chdir": str(folder)}
    job = place.api.submit(LabSpec(id=job_id, name="lab", runtime="none", options=options))
    cursor = ""
    while not labs.is_ready(job):
        assert not job.state.final, job.why
        cursor = place.api.changes(cursor, _PATIENCE_S).cursor
        job = place.api.job(job_id)
    return job


def bare(place: Ground) -> float:
    """Start a lab as a user would by hand: with a script, a port and a tunnel. Poll until it
    responds.

    Use an open connection, as jupyter-slurm does.
    """
    far_port, port, token = free_port(), free_port(), secrets.token_hex(16)
    script = f"""#!/bin/sh
export JUPYTER_TOKEN={token}
exec {sys.executable} -m jupyterlab --no-browser --ip=127.0.0.1 --port={far_port}
"""
    forward = f"{port}:127.0.0.1:{far_port}"
    began_s = time.perf_counter()
    _run(place.ssh(place.sshd.alias, "sbatch", "--output=/dev/null"), script)
    _run(place.ssh("-O", "forward", "-L", forward, place.sshd.alias))
    one = LabVisitor(f"127.0.0.1:{port}", port)
    _wait_until(lambda: _lets_in(one, token))
    _use(one)
    taken_s = time.perf_counter() - began_s
    _run(place.ssh("-O", "cancel", "-L", forward, place.sshd.alias))
    return taken_s


def jupyter_forward(place: Ground) -> float:
    """Start a lab as in jupyter-forward's manual, with a `--shell` that keeps this PATH as a login
    shell. This release activates an environment, so this venv's is put on PATH."""
    opened = place.folder / "opened"
    opened.unlink(missing_ok=True)
    browser = _program(
        place.folder / "browser", f'echo "$1" > {opened}.new; mv {opened}.new {opened}'
    )
    shell = _program(place.folder / "bash", 'exec /bin/bash --noprofile "$@"')
    argv = [str(place.peer), place.sshd.alias, "--port", str(free_port())]
    argv += ["--launch-command", "sbatch --output=/dev/null", "--shell", str(shell)]
    argv += ["--conda-env", "venv"]
    env = {**os.environ, **place.sshd.env, "BROWSER": f"{browser} %s"}
    log = place.folder / "jupyter-forward.log"
    began_s = time.perf_counter()
    with log.open("wb") as file, subprocess.Popen(argv, env=env, stdout=file, stderr=file) as peer:
        try:
            _wait_until(lambda: opened.exists() or peer.poll() is not None)
            assert peer.poll() is None, log.read_text()
            address = urlsplit(opened.read_text().strip())
            assert address.port is not None
            one = LabVisitor(f"localhost:{address.port}", address.port)
            assert _lets_in(one, parse_qs(address.query)["token"][0])
            _use(one)
            return time.perf_counter() - began_s
        finally:
            peer.kill()


def _use(one: LabVisitor) -> None:
    assert one.get("/api/status").status_code == 200
    assert one.run(one.start_kernel(), "print(6 * 7)") == "42\n"


def _lets_in(one: LabVisitor, token: str) -> bool:
    with suppress(requests.ConnectionError):
        return one.get(f"/lab?token={token}").status_code == 200
    return False


def _wait_until(true: Callable[[], bool]) -> None:
    until_s = time.monotonic() + _PATIENCE_S
    while not true():
        assert time.monotonic() < until_s, "the lab does not start"
        time.sleep(_POLL_S)


def _run(argv: list[str], stdin: str = "") -> None:
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"


def _program(path: Path, line: str) -> Path:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path
