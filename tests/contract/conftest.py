"""Every Api there is: the Service through the agent, and over SSH; and the tests' own fakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.api import Api
from jupyter_slurm.client import AgentClient
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.magics.fake import FakeApi
from tests.ssh.profile import SshSlurm

REAL = ["through the agent", "over ssh, through the agent"]
"""What runs through the agent has run in its process: a Service alone is what tests/jobs are of."""
FAKE = ["the front ends' fake", "the agent's fake"]


def _params(*names: str) -> list[Any]:
    """All but the front ends' fake start a real agent."""
    real = [pytest.mark.real]
    return [pytest.param(name, marks=[] if name == FAKE[0] else real) for name in names]


@pytest.fixture(params=_params(*REAL))
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    with _real(request) as api:
        yield api


class AnyApi(NamedTuple):
    api: Api
    real: bool
    lingers: str
    """The code of a cell that runs until it is cancelled."""


@pytest.fixture(params=_params(*REAL, *FAKE))
def any_api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyApi]:
    """With what each of them can do."""
    if request.param in REAL:
        with _real(request) as api:
            yield AnyApi(api, True, "import time; time.sleep(600)")
    elif request.param == FAKE[0]:
        fake = FakeApi(tmp_path)
        yield AnyApi(fake, False, "linger()")
        fake.close()
    else:
        home: AgentHome = request.getfixturevalue("agent_home")
        client = home.client()
        yield AnyApi(client, False, "")
        client.close()


@contextmanager
def _real(request: pytest.FixtureRequest) -> Iterator[Api]:
    slurm: SlurmCluster = request.getfixturevalue("slurm_cluster")
    home: AgentHome = request.getfixturevalue("agent_home")
    folder: Path = request.getfixturevalue("tmp_path")
    setenv: Callable[[str, str], None] = request.getfixturevalue("monkeypatch").setenv
    setenv("JUPYTER_CONFIG_DIR", slurm.env["JUPYTER_CONFIG_DIR"])
    if "ssh" in request.param:
        far: SshSlurm = request.getfixturevalue("ssh_slurm")
        far.write_profile(folder / "config")
        setenv("JUPYTER_CONFIG_DIR", str(folder / "config"))
        for name, value in far.env.items():
            setenv(name, value)
    client = AgentClient(home.socket, COMMAND)
    yield client
    client.close()
