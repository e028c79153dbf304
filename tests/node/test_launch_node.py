"""The program on each node of a multi-node job, when the launcher's connection closes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.jobs.outcome.result import RunnerResult, parse_exit, parse_result
from tests.ssh.waiting import wait_until

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
KEY = b"0" * 64
RUN = (
    "import launch_node, launch_result; launch_node.ALONE_S = {}; launch_result.REPORT_S = 0.0; "
    "launch_node.main({})"
)
GONE = "jupyter-slurm: %s is gone: Slurm or the network lost it.\n"
LOST = "n1 was lost while the job ran."


class Launched:
    """The program on n2, observed by its launcher on n1."""

    def __init__(self, folder: Path, plan: dict[str, Any], alone_s: float) -> None:
        self.folder = folder
        (folder / "key").write_bytes(KEY)
        (folder / "claim.0").mkdir()
        (folder / "log.0").touch()
        known = {"engine": "torchrun", "is_ranked": True, "runner": "runner.py", "ranks": 2}
        nodes = [{"name": "n1"}, {"name": "n2"}]
        self._put("launch.json", {**known, "inside": str(folder), **plan})
        self._put("world.0.json", {**known, "nodes": nodes})
        # The engine's program reports its start, and runs until a signal arrives.
        told = "trap 'echo failed >&2; exit 1' USR1; echo begun >&2; sleep 60 & wait"
        self._script("engine", told)
        self._script("scancel", f'echo "$@" >{folder}/cancelled')
        env = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin", "SLURM_JOB_ID": "7"}
        env |= {"SLURM_NODEID": "1", "SLURMD_NODENAME": "n2"}
        with socket.create_server(("127.0.0.1", 0)) as listener:
            argv = ["", str(folder), "0", str(listener.getsockname()[1]), "127.0.0.1"]
            words = [sys.executable, "-Bc", RUN.format(alone_s, argv)]
            self.process = subprocess.Popen(words, cwd=NODE, env=env, stderr=subprocess.PIPE)
            listener.settimeout(30)
            self.sock, _ = listener.accept()
        self.file = self.sock.makefile("rwb", buffering=0)
        assert json.loads(self.file.readline())["name"] == "n2"
        self.tell({"job": "7"})
        self.tell({"go": True})
        assert self.process.stderr is not None
        assert self.process.stderr.readline() == b"begun\n"

    def _put(self, name: str, value: Any) -> None:
        (self.folder / name).write_text(json.dumps(value))

    def _script(self, name: str, text: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.folder / name).chmod(0o755)

    def tell(self, message: dict[str, Any]) -> None:
        self.file.write(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """Close the connection. Wait for the program's end."""
        self.sock.shutdown(socket.SHUT_RDWR)
        self.wait()

    def wait(self) -> None:
        assert self.process.wait(30) == 0

    def fail(self) -> int:
        """Make the engine's program fail with a message. Return the reported exit code."""
        self.process.send_signal(signal.SIGUSR1)
        return int(json.loads(self.file.readline())["ended"])

    @property
    def log(self) -> str:
        return (self.folder / "log.0").read_text()

    def result(self) -> RunnerResult:
        return parse_result((self.folder / "result.0.json").read_bytes(), KEY)

    def exit_code(self) -> int | None:
        path = self.folder / "exit.0.json"
        found = parse_exit(path.read_bytes()) if path.exists() else None
        return None if found is None else found.exit_code


@pytest.fixture
def plan() -> dict[str, Any]:
    return {"in_image": False, "step": None, "pid_file": None, "has_result": True}


@pytest.fixture
def launched(tmp_path: Path, plan: dict[str, Any], request: Any) -> Iterator[Launched]:
    changes = dict(getattr(request, "param", {}))
    alone_s = changes.pop("alone_s", 0.0)
    node = Launched(tmp_path, {**plan, "has_requeue": False, **changes}, alone_s)
    yield node
    node.process.kill()
    node.process.wait()
    if node.process.stderr is not None:
        node.process.stderr.close()
    node.file.close()
    node.sock.close()


@pytest.mark.parametrize(
    ("launched", "name"),
    [({}, "RankLost"), ({"engine": "ray", "is_ranked": False}, "LaunchError")],
    indirect=["launched"],
)
def test_lost_first_node_is_logged_and_ends_the_job(launched: Launched, name: str) -> None:
    launched.close()
    assert launched.log == GONE % "n1"
    result = launched.result()
    assert (result.status, result.ename, result.evalue) == ("error", name, LOST)
    assert launched.exit_code() == 69
    assert (launched.folder / "engine.0.json").read_text() == '{"over": true}'
    assert (launched.folder / "cancelled").read_text() == "7\n"


def test_lost_first_node_ends_the_job_even_if_srun_no_longer_reads_stderr(
    launched: Launched,
) -> None:
    assert launched.process.stderr is not None
    launched.process.stderr.close()
    assert launched.fail() == 1
    launched.close()
    assert launched.exit_code() == 69


def test_lost_first_node_is_reported_once(launched: Launched) -> None:
    """Only the first of the other nodes reports the loss."""
    (launched.folder / "claim.0" / "lost").mkdir()
    launched.close()
    assert (launched.log, launched.exit_code()) == ("", None)


@pytest.mark.parametrize("launched", [{"alone_s": 600.0}], indirect=True)
def test_all_nodes_end_when_one_node_has_reported_the_lost_first_node(launched: Launched) -> None:
    launched.sock.shutdown(socket.SHUT_RDWR)
    (launched.folder / "claim.0" / "lost").mkdir()
    launched.wait()
    assert (launched.log, launched.exit_code()) == ("", None)


@pytest.mark.parametrize("launched", [{"has_requeue": True}], indirect=True)
def test_job_with_requeue_is_not_cancelled_after_a_lost_first_node(launched: Launched) -> None:
    launched.close()
    assert (launched.log, launched.exit_code()) == (GONE % "n1", None)
    assert not (launched.folder / "cancelled").exists()


def test_end_of_the_launcher_is_not_reported_as_a_lost_node(launched: Launched) -> None:
    launched.tell({"over": True})
    launched.close()
    assert (launched.log, launched.exit_code()) == ("", None)


def test_cancelled_job_does_not_report_a_lost_first_node(launched: Launched) -> None:
    launched.process.send_signal(signal.SIGTERM)
    assert "ended" in json.loads(launched.file.readline())
    launched.close()
    assert (launched.log, launched.exit_code()) == ("", None)


@pytest.mark.parametrize("launched", [{"alone_s": 600.0}], indirect=True)
def test_first_node_that_slurm_signals_first_is_not_reported_as_lost(launched: Launched) -> None:
    """Slurm's signal to cancel, preempt or time out a job reaches each node at a different time."""
    launched.sock.shutdown(socket.SHUT_RDWR)
    launched.process.send_signal(signal.SIGTERM)
    launched.wait()
    assert (launched.log, launched.exit_code()) == ("", None)


@pytest.mark.parametrize("launched", [{"alone_s": 0.6}], indirect=True)
def test_first_node_is_lost_even_if_programs_outlive_its_launcher(launched: Launched) -> None:
    """Other programs still write files after the launcher's end."""
    launched.sock.shutdown(socket.SHUT_RDWR)
    with (launched.folder / "usage.0.jsonl").open("wb", buffering=0) as file:
        wait_until(lambda: file.write(b"{}\n") and file.tell() > 150, 30)
    launched.wait()
    assert (launched.log, launched.exit_code()) == (GONE % "n1", 69)


def test_program_ends_even_if_the_folder_of_the_job_is_lost(launched: Launched) -> None:
    shutil.rmtree(launched.folder)
    launched.close()


def test_first_node_that_reports_other_lost_nodes_is_not_lost(launched: Launched) -> None:
    """The network between the nodes is interrupted."""
    (launched.folder / "log.0").write_text(GONE % "n2")
    launched.close()
    assert launched.exit_code() is None


def test_first_node_with_an_exit_file_is_not_lost(launched: Launched) -> None:
    (launched.folder / "exit.0.json").write_text('{"exit_code": 137, "signal": "", "time_s": 1}\n')
    launched.close()
    assert (launched.log, launched.exit_code()) == ("", 137)
