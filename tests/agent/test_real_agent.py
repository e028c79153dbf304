"""`python -m jupyter_slurm.agent` with the real service on a real Slurm."""

from __future__ import annotations

import pytest

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from jupyter_slurm.wire import JobState, ProgramSpec
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.ssh.waiting import wait_until


@pytest.fixture
def api(
    agent_home: AgentHome, slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> AgentClient:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", slurm_cluster.env["JUPYTER_CONFIG_DIR"])
    return AgentClient(agent_home.socket, COMMAND)


def test_job_survives_its_agent(agent_home: AgentHome, api: AgentClient) -> None:
    spec = ProgramSpec(id="outlives", name="t", code="#!/bin/sh\nexec sleep 600")
    slurm_id = api.submit(spec).slurm_id
    agent_home.kill()
    assert api.job(spec.id).slurm_id == slurm_id
    assert api.status().live_jobs == 1
    wait_until(lambda: api.job(spec.id).state is JobState.RUNNING)
    agent_home.kill()
    assert api.submit(spec).slurm_id == slurm_id, "the job was submitted twice"
    api.cancel(spec.id)
    wait_until(lambda: api.job(spec.id).state.final)
