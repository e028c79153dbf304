"""`jupyter slurm lab` on a real Slurm.

The browser is a program that records its arguments."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.wire import JobState
from tests.agent.home import AgentHome
from tests.cli.test_cluster import Shell
from tests.cluster.plugin import ROOT, SlurmCluster
from tests.ssh.profile import write_profile
from tests.ssh.waiting import wait_until

PATIENCE_S = 120.0
BROWSER = """#!/bin/sh
printf '%s' "$1" >{told}
"""


@pytest.fixture
def shell(
    slurm_cluster: SlurmCluster,
    agent_home: AgentHome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shell]:
    profile = tomllib.loads(slurm_cluster.profile_path.read_text(encoding="utf-8"))
    config = tmp_path / "config"
    write_profile(config, slurm_cluster.name, {**profile, "python": sys.executable})
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(told=tmp_path / "told"), encoding="utf-8")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(config))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("SLURM_CONF", raising=False)
    shell = Shell(dict(os.environ), tmp_path)
    yield shell
    for lab in listed(shell):
        if not JobState(lab["state"]).final:
            shell.ok("lab", "stop", lab["id"])
    wait_until(lambda: all(JobState(one["state"]).final for one in listed(shell)), PATIENCE_S)


def listed(shell: Shell) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(shell.ok("lab", "list", "--json"))
    assert all(one["kind"] == "lab" for one in found)
    return found


def test_lab_is_started_opened_listed_and_stopped(shell: Shell, tmp_path: Path) -> None:
    assert "No labs" in shell.ok("lab", "list")
    code, out, err = shell.run("lab", "start", "--runtime", "none", "--name", "mine", "--idle=2h")
    assert code == 0, err
    [job] = listed(shell)
    assert out == f"{job['lab']['url']}\n"
    assert job["idle_s"] == 7200
    assert "JupyterLab is starting." in err
    told = tmp_path / "told"
    wait_until(lambda: told.exists() and told.stat().st_size > 0)
    page = Path(told.read_text(encoding="utf-8").removeprefix("file://"))
    text = page.read_text(encoding="utf-8")
    assert page.stat().st_mode & 0o777 == 0o600
    assert f'action="{out.strip()}login?next=%2Flab"' in text
    [token] = set(re.findall(r'value="([0-9a-f]{64})"', text))
    assert token not in out + err + told.read_text(encoding="utf-8")

    told.unlink()
    assert shell.ok("lab", "open", "mine", "--no-browser") == out
    assert not told.exists()
    assert out.strip() in shell.ok("lab", "list")
    assert job["id"] in shell.ok("lab", "stop", "mine")
    wait_until(lambda: JobState(listed(shell)[0]["state"]).final, PATIENCE_S)
    assert listed(shell)[0]["why"] == "Shut down."
    wait_until(lambda: not page.exists())
