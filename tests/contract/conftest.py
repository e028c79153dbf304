"""Every implementation of Api: the Service over SSH and through the agent, and the tests' fakes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.api import Api
from jupyter_slurm.client import AgentClient
from tests.agent.home import AgentHome
from tests.agent.plugin import new_home
from tests.magics.fake import FakeApi
from tests.ssh.profile import SshSlurm
from tests.ssh.waiting import wait_until

REAL = "over ssh, through the agent"
"""The longest access path. tests/jobs tests the Service alone, on this machine."""
FAKE = ["the front ends' fake", "the agent's fake"]
HOMES = ("DATA", "RUNTIME", "CONFIG")


class Agents:
    """An agent for each access path, shared by all tests. The jobs of each test are removed after
    it."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path, stack: ExitStack) -> None:
        self._request = request
        self._folder = folder
        self._stack = stack
        self._homes: dict[str, tuple[AgentHome, dict[str, str]]] = {}

    @contextmanager
    def client(self, way: str) -> Iterator[AgentClient]:
        """Yield a client of this access path's agent. This process uses the agent's home during the
        context."""
        if way not in self._homes:
            self._homes[way] = self._new(way)
        home, env = self._homes[way]
        with pytest.MonkeyPatch.context() as here:
            here.delenv("JUPYTER_SLURM_AGENT", raising=False)
            here.delenv("PYTHONPATH", raising=False)
            for name, value in env.items():
                here.setenv(name, value)
            client = AgentClient(home.socket, COMMAND if way == REAL else home.command)
            try:
                yield client
            finally:
                _forget_all(client)
                client.close()

    def _new(self, way: str) -> tuple[AgentHome, dict[str, str]]:
        # This context restores the environment at its end, so `client` sets it again for each test.
        with pytest.MonkeyPatch.context() as here:
            home = self._stack.enter_context(new_home(here))
            env = {f"JUPYTER_{name}_DIR": str(home.folder / name.lower()) for name in HOMES}
        if way == REAL:
            far: SshSlurm = self._request.getfixturevalue("ssh_slurm")
            far.write_profile(self._folder)
            env |= far.env | {"JUPYTER_CONFIG_DIR": str(self._folder)}
        return home, env


def _forget_all(api: Api) -> None:
    for job in api.jobs():
        if not job.state.final:
            api.cancel(job.id)
    for job in api.jobs():
        wait_until(lambda id_=job.id: api.job(id_).state.final)  # type: ignore[misc]
        api.forget(job.id)


@pytest.fixture(scope="session")
def agents(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Agents]:
    with ExitStack() as stack:
        yield Agents(request, tmp_path_factory.mktemp("over-ssh"), stack)


@pytest.fixture
def api(agents: Agents) -> Iterator[Api]:
    with agents.client(REAL) as api:
        yield api


class AnyApi(NamedTuple):
    api: Api
    real: bool
    lingers: str
    """The code of a cell that runs until it is cancelled."""


@pytest.fixture(
    params=[FAKE[0], *(pytest.param(name, marks=pytest.mark.real) for name in (REAL, FAKE[1]))]
)
def any_api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyApi]:
    """Yield each Api with its capabilities."""
    if request.param == FAKE[0]:
        fake = FakeApi(tmp_path)
        yield AnyApi(fake, False, "linger()")
        fake.close()
        return
    real = request.param == REAL
    agents: Agents = request.getfixturevalue("agents")
    with agents.client(request.param) as api:
        yield AnyApi(api, real, "import time; time.sleep(600)" if real else "")
