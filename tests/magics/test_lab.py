"""`%slurm lab`: a real kernel, the real agent, a real Slurm.

The browser is a program that says what it was told to open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from jupyter_slurm.wire import Job, JobKind
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.magics.kernel import LOAD, Kernel, Reply, running_kernel
from tests.ssh.waiting import wait_until

PATIENCE_S = 120.0


@pytest.fixture
def api(agent_home: AgentHome, slurm_cluster: SlurmCluster) -> Iterator[AgentClient]:
    api = AgentClient(agent_home.socket, COMMAND)
    yield api
    for job in labs(api):
        api.cancel(job.id)
    wait_until(lambda: all(job.state.final for job in labs(api)), PATIENCE_S)
    api.close()


@pytest.fixture
def kernel(
    agent_home: AgentHome,
    slurm_cluster: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Kernel]:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", slurm_cluster.env["JUPYTER_CONFIG_DIR"])
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\nprintf '%s' \"$1\" >{tmp_path / 'told'}\n", encoding="utf-8")
    browser.chmod(0o755)
    env = {**os.environ, "BROWSER": str(browser)}
    with running_kernel(env, agent_home.folder) as kernel:
        assert kernel.run(LOAD).content["status"] == "ok"
        yield kernel


def labs(api: AgentClient) -> list[Job]:
    return [job for job in api.jobs() if job.kind is JobKind.LAB]


def text_of(reply: Reply) -> str:
    assert reply.content["status"] == "ok", (reply.content, reply.text)
    return reply.text


def test_a_lab_is_started_from_a_cell_and_opened_in_the_browser(
    api: AgentClient, kernel: Kernel, tmp_path: Path
) -> None:
    text = text_of(kernel.run("%slurm lab start --runtime none --name mine --idle 2h"))
    [job] = labs(api)
    assert job.lab is not None
    assert "It is open in the browser." in text
    assert job.lab.url not in text + text_of(kernel.run("%slurm lab list"))
    told = tmp_path / "told"
    wait_until(lambda: told.exists() and told.stat().st_size > 0)
    page = Path(told.read_text(encoding="utf-8").removeprefix("file://"))
    assert api.lab_entry(job.id).token in page.read_text(encoding="utf-8")
    assert api.lab_entry(job.id).token not in text
    assert job.id in text_of(kernel.run("%slurm lab stop mine"))
    wait_until(lambda: labs(api)[0].state.final, PATIENCE_S)
    assert "there is no such word" in kernel.run("%slurm lab begin").content["evalue"]
