"""`jupyter slurm session` and `submit --session` on a real Slurm."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_slurm.wire import JobKind, JobState
from tests.agent.home import AgentHome
from tests.cli.test_cluster import Shell
from tests.cluster.plugin import ROOT, SlurmCluster
from tests.ssh.waiting import wait_until

PATIENCE_S = 120.0


@pytest.fixture
def shell(
    slurm_cluster: SlurmCluster,
    agent_home: AgentHome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shell]:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", slurm_cluster.env["JUPYTER_CONFIG_DIR"])
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("SLURM_CONF", raising=False)
    shell = Shell(dict(os.environ), tmp_path)
    yield shell
    for session in listed(shell):
        if not JobState(session["state"]).final:
            shell.ok("session", "stop", session["id"])
    wait_until(lambda: all(JobState(one["state"]).final for one in listed(shell)), PATIENCE_S)


def listed(shell: Shell) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(shell.ok("session", "list", "--json"))
    assert all(one["kind"] == JobKind.SESSION for one in found)
    return found


def test_files_run_in_the_session_in_order(shell: Shell) -> None:
    assert "No sessions" in shell.ok("session", "list")
    session_id = shell.ok("session", "start", "--runtime", "none", "--name", "mine").strip()
    shell.write("one.py", "import builtins, sys\nbuiltins.kept = sys.argv[1:]\nprint('one')\n")
    shell.write("two.py", "print(kept)\nraise SystemExit(3)\n")
    assert shell.ok("submit", "one.py", "--session", "--", "a b").endswith("one\n")
    code, out, _ = shell.run("submit", "two.py", "--session", "mine")
    assert (code, out) == (3, "['a b']\n")
    assert [one["id"] for one in listed(shell)] == [session_id]
    assert "mine" in shell.ok("session", "list")
    assert session_id in shell.ok("session", "stop", "mine")
