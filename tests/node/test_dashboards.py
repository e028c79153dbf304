"""Dashboards on the node, with a small server in place of Ray's dashboard."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.ssh.waiting import wait_until

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"


class Dashboard(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"at {self.path}".encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "key").write_text(secrets.token_hex(32) + "\n")
    return tmp_path


@contextmanager
def ways(folder: Path, *names: str, **env: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run dashboards.py until it has reported all names. Yield the job's ID and the report."""
    job_id = secrets.token_hex(4)
    plan = {"id": job_id, "names": names, "logdir": "logs"}
    (folder / "dashboards.json").write_text(json.dumps(plan))
    words = [sys.executable, "-uB", str(NODE / "dashboards.py"), str(folder), "0"]
    process = subprocess.Popen([*words, str(os.getpid())], env={**os.environ, **env})
    try:
        wait_until(lambda: len(told(folder)) == len(names))
        yield job_id, told(folder)
    finally:
        process.kill()
        process.wait()


def told(folder: Path) -> dict[str, Any]:
    path = folder / "dashboards.0.json"
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    return found


def answer(name: str, path: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("\0" + name)
        sock.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        return b"".join(iter(lambda: sock.recv(65536), b"")).partition(b"\r\n\r\n")[2]


def test_proxy_forwards_to_rays_dashboard(folder: Path) -> None:
    (folder / "token").write_text("s3cret\n")
    with HTTPServer(("127.0.0.1", 0), Dashboard) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (folder / "engine.0.json").write_text(json.dumps({"dashboard": server.server_port}))
        env = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
        with ways(folder, "ray", **env) as (job_id, found):
            assert found["ray"]["token"] == "s3cret"
            assert answer(f"jslurm-{job_id}-ray", "/nodes") == b"at /nodes"
        server.shutdown()
    assert (folder / "dashboards.0.json").stat().st_mode & 0o777 == 0o600


def test_report_of_a_missing_dashboard_names_the_package(folder: Path) -> None:
    (folder / "engine.0.json").write_text(json.dumps({"dashboard": None}))
    with ways(folder, "ray", "tensorboard") as (_, found):
        assert "Install ray[default] into the image" in found["ray"]["problem"]
        assert "No module named 'tensorboard'" in found["tensorboard"]["problem"]


@pytest.mark.parametrize(
    ("engine", "env", "first"),
    [
        ([], {"SLURM_NODEID": "0"}, True),
        (["torchrun"], {"SLURM_NODEID": "0", "LOCAL_RANK": "0"}, True),
        (["torchrun"], {"SLURM_NODEID": "0", "LOCAL_RANK": "1"}, False),
        (["mpi"], {"SLURM_PROCID": "0"}, True),
        (["mpi"], {"SLURM_PROCID": "3"}, False),
    ],
)
def test_first_rank_of_each_engine_is_detected(
    engine: list[str], env: dict[str, str], first: bool
) -> None:
    code = f"import sys; sys.path.insert(0, {str(NODE)!r}); import runner_dashboards as one; "
    code += f"print(one.is_first({engine!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == f"{first}\n"
