"""A real JupyterHub with its proxy and two users of this machine."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import websocket

from jupyter_slurm.agent.place import SOCKET_VARIABLE
from jupyter_slurm.agent.protocol import calls
from jupyter_slurm.server.calls import RULES
from jupyter_slurm.wire import new_id
from tests.agent.memory_agent import SCRIPT
from tests.cluster.plugin import ROOT
from tests.server.served import AGENT, API, Client
from tests.ssh.accounts import Account, make_account, make_folder
from tests.ssh.kept import Keeper, clean_environment, keeping
from tests.ssh.sshd import free_port
from tests.ssh.waiting import wait_until

PROXY = Path(__file__).parent / "proxy" / "node_modules" / ".bin" / "configurable-http-proxy"
CONFIG = """\
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/secret"
c.JupyterHub.pid_file = ""
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.command = [{node!r}, {proxy!r}]
c.ConfigurableHTTPProxy.pid_file = "{folder}/proxy.pid"
c.LocalProcessSpawner.cmd = [{python!r}, "-m", "jupyterhub.singleuser"]
c.Spawner.environment = {{"PYTHONPATH": {root!r}}}
c.Spawner.http_timeout = c.Spawner.start_timeout = 120
c.Spawner.args = [
    "--ServerApp.allow_unauthenticated_access=False", "--LabApp.news_url=",
    "--ServerApp.jpserver_extensions={{'jupyter_slurm': True, 'jupyterlab': False, "
    "'jupyter_lsp': False, 'notebook': False, 'notebook_shim': False, "
    "'jupyter_server_proxy': False}}",
]
c.JupyterHub.services = [{{"name": "test", "api_token": {token!r}}}]
c.JupyterHub.load_roles = [
    {{"name": "test", "services": ["test"], "scopes": ["admin:users", "admin:servers", "tokens"]}}
]
"""

_PATIENCE_S = 120.0
OF_ONE_JOB = [name for name in RULES if {*calls()[name].arguments.__struct_fields__} == {"job_id"}]
"""Calls whose only argument is a job ID."""
WHERE_IS_THE_AGENT = "from jupyter_slurm.agent import place; print(place.socket_path())"
WHOSE_AGENT = "from jupyter_slurm.client import connect; print(connect().status().pid)"


@dataclass(frozen=True)
class User:
    """A user of the hub with a running server."""

    account: Account
    url: str
    token: str
    agent_pid: int

    def client(self, token: str | None = None) -> Client:
        return Client(self.url, self.token if token is None else token)


def as_user(account: Account, *argv: str) -> list[str]:
    ids = [f"--reuid={account.uid}", f"--regid={account.uid}", "--clear-groups"]
    return ["setpriv", *ids, *argv]


def environment_of(account: Account) -> dict[str, str]:
    ours = {"HOME": str(account.home), "USER": account.name, "PYTHONPATH": str(ROOT)}
    return clean_environment() | ours


@pytest.fixture(scope="module")
def users() -> Iterator[tuple[User, User]]:
    """Yield Ada and Bob, each with an agent in memory."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a hub that starts servers for other users")
    with keeping() as keeper:
        folder = make_folder(keeper, "hub-")
        url, token = start_hub(keeper, folder)
        yield make_user(keeper, folder, url, token), make_user(keeper, folder, url, token)


def start_hub(keeper: Keeper, folder: Path, more: str = "") -> tuple[str, str]:
    """Return the hub's address, and a token that can create users and start servers. `more` is
    appended to the configuration."""
    node = str(Path(sys.executable).with_name("node"))
    assert PROXY.exists(), "`scripts/test` installs JupyterHub's proxy"
    ports = {"public": free_port(), "hub": free_port(), "api": free_port()}
    token = secrets.token_hex(16)
    programs = {"node": node, "proxy": str(PROXY), "python": sys.executable, "root": str(ROOT)}
    config = CONFIG.format(folder=folder, token=token, **programs, **ports)
    (folder / "hub.py").write_text(config + more)
    hub = [sys.executable, "-m", "jupyterhub", "--config", str(folder / "hub.py")]
    keeper.start(hub, folder / "hub.log")
    url = f"http://127.0.0.1:{ports['public']}/"
    wait_until(lambda: answers(Client(url, token)), _PATIENCE_S, (folder / "hub.log").read_text)
    return url, token


def answers(client: Client) -> bool:
    try:
        return client.get("hub/api/").status == 200
    except ConnectionError:
        return False


def make_user(keeper: Keeper, folder: Path, url: str, token: str) -> User:
    account = make_account(keeper, folder)
    # The user's Python reports the path. The socket is outside of their home if its path would be
    # too long.
    place = Path(as_kernel(account, environment_of(account), WHERE_IS_THE_AGENT).stdout.strip())
    keeper.at_end("rm", "-rf", str(place.parent))
    log = folder / f"{account.name}.log"
    agent = as_user(account, sys.executable, str(SCRIPT))
    agent_pid = keeper.start(agent, log, environment_of(account))
    # A server that starts earlier would start its own agent.
    wait_until(place.is_socket, _PATIENCE_S, log.read_text)
    hub, path = Client(url, token), f"hub/api/users/{account.name}"
    assert hub.ask("POST", path, b"{}").status == 201
    assert hub.ask("POST", f"{path}/server", b"{}").status in {201, 202}

    def ready() -> bool:
        return bool(hub.get(path).value["servers"].get("", {}).get("ready"))

    wait_until(ready, _PATIENCE_S, (folder / "hub.log").read_text)
    own = json.loads(hub.ask("POST", f"{path}/tokens", b"{}").body)["token"]
    return User(account, f"{url}user/{account.name}/", own, agent_pid)


def test_hub_users_cannot_see_each_others_jobs(users: tuple[User, User]) -> None:
    ada, bob = users
    assert ada.client().call("status")["pid"] == ada.agent_pid
    assert bob.client().call("status")["pid"] == bob.agent_pid
    spec = {"kind": "cell", "id": new_id(), "name": "secret", "code": "1"}
    with ada.client().watch() as hers, bob.client().watch() as his:
        hers.say(watch=1, call="changes")
        his.say(watch=1, call="changes")
        his.value(1)
        ada.client().call("submit", spec=spec)
        hers.until(1, id=spec["id"])
        mine = bob.client().call("submit", spec=spec | {"id": new_id(), "name": "other"})
        seen = his.value(1)["jobs"]
    assert [one["id"] for one in seen] == [mine["id"]]
    assert spec["id"] not in {job["id"] for job in bob.client().call("jobs")}
    # Bob cannot use her job's ID at his own server,
    assert len(OF_ONE_JOB) > 10
    for name in OF_ONE_JOB:
        answer = bob.client().post(API + name, {"job_id": spec["id"]})
        assert (name, answer.status) == (name, 404)
    for path in (f"{API}logfile?job_id={spec['id']}", f"{API}job?job_id={spec['id']}"):
        assert bob.client().get(path).status == 404
    with bob.client().watch() as his:
        for name in ("logs", "usage"):
            his.say(watch=1, call=name, args={"job_id": spec["id"]})
            assert his.hear()["problem"]["code"] == "not-found"
            his.say(unwatch=1)
    # nor his own token at her server,
    thief = ada.client(bob.token)
    assert thief.get(f"{API}jobs").status == 403
    assert thief.post(f"{API}submit", {}).status == 403
    assert thief.post(f"{AGENT}jobs", {}).status == 403
    with pytest.raises(websocket.WebSocketBadStatusException):
        thief.watch()
    # nor her socket.
    address = ada.client().call("status")["socket"]
    knock = f"import socket; socket.socket(socket.AF_UNIX).connect({address!r})"
    assert "PermissionError" in as_kernel(bob.account, environment_of(bob.account), knock).stderr
    stolen = {SOCKET_VARIABLE: address}
    done = as_kernel(bob.account, environment_of(bob.account) | stolen)
    assert done.stdout.strip() != str(ada.agent_pid)


def as_kernel(
    account: Account, env: Mapping[str, str], code: str = WHOSE_AGENT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        as_user(account, sys.executable, "-c", code),
        env=env,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
