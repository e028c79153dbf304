"""The client and the real agent process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm import client as client_module
from jupyter_slurm.agent import link
from jupyter_slurm.client import AgentClient, connect, find
from jupyter_slurm.errors import (
    AgentError,
    JupyterSlurmError,
    NotFoundError,
    RequestError,
    SubmitError,
)
from jupyter_slurm.wire import CellSpec, Changes
from tests.agent.home import ROOT, AgentHome, ended
from tests.agent.memory_agent import BROKEN_VARIABLE
from tests.ssh.waiting import wait_until


def spec(**changes: Any) -> CellSpec:
    fields: dict[str, Any] = {"id": "abcdefgh", "name": "cell", "code": "1 + 1"}
    return CellSpec(**{**fields, **changes})


@pytest.fixture
def api(agent_home: AgentHome) -> AgentClient:
    return agent_home.client()


# --- the whole Api ---


def test_importing_the_client_does_not_load_heavy_modules() -> None:
    heavy = [
        "tornado",
        "asyncio",
        "http.client",
        "ssl",
        "IPython",
        "paramiko",
        "importlib.metadata",
    ]
    code = f"import jupyter_slurm.client, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=-1, text=True)
    assert done.stdout == "[]\n"


# --- starting ---
def test_first_call_starts_the_agent_for_later_clients(agent_home: AgentHome) -> None:
    first = agent_home.client().status()
    assert first.pid == agent_home.agent_pid()
    assert first.socket == str(agent_home.socket)
    assert agent_home.client().status().pid == first.pid


def test_agent_runs_in_its_own_session_and_in_the_root_folder(api: AgentClient) -> None:
    pid = api.status().pid
    assert os.getsid(pid) != os.getsid(0)
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert pid not in _children()


def test_simultaneous_clients_start_one_agent(agent_home: AgentHome) -> None:
    programs = [agent_home.python("print(client.status().pid)") for _ in range(4)]
    pids = {program.communicate()[0] for program in programs}
    assert pids == {f"{agent_home.agent_pid()}\n"}
    assert agent_home.log.read_text().count(" serves ") == 1


def test_stale_socket_and_lock_are_replaced(agent_home: AgentHome) -> None:
    agent_home.lock.write_text("1\n")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(agent_home.socket))
    assert agent_home.client().status().pid == agent_home.agent_pid()


def test_agent_that_cannot_start_is_explained(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BROKEN_VARIABLE, "1")
    with pytest.raises(AgentError, match=r"clusters\.toml, line 3") as caught:
        agent_home.client().check()
    assert str(agent_home.log) in str(caught.value)
    monkeypatch.delenv(BROKEN_VARIABLE)
    agent_home.client().check()


def test_too_long_socket_path_is_reported(agent_home: AgentHome) -> None:
    folder = agent_home.folder / ("x" * 120)
    with pytest.raises(AgentError, match=r"cannot listen at .*x{120}.*too long"):
        AgentClient(folder / "agent.sock", agent_home.command).check()


# --- finding ---


def test_find_returns_the_running_agent_and_does_not_start_one(agent_home: AgentHome) -> None:
    agent_home.client().check()
    found = find()
    assert found is not None
    assert found.status().pid == agent_home.kill()
    with pytest.raises(AgentError, match="No agent is running"):
        found.status()


def test_socket_named_by_the_environment_is_used(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_home.client().check()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(agent_home.folder / "other"))
    monkeypatch.setenv("JUPYTER_SLURM_AGENT", str(agent_home.socket))
    assert connect().status().pid == agent_home.agent_pid()


def test_missing_unix_sockets_are_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    for get in (connect, find):
        with pytest.raises(AgentError, match="WSL"):
            get()


# --- trust ---
def test_folder_open_to_others_is_rejected(agent_home: AgentHome) -> None:
    agent_home.client().check()
    agent_home.socket.parent.chmod(0o755)
    with pytest.raises(AgentError, match="0755"):
        agent_home.client().check()


# --- the agent ends ---
def test_next_call_replaces_a_killed_agent(agent_home: AgentHome, api: AgentClient) -> None:
    assert len(api.clusters()) == 2
    dead = agent_home.kill()
    assert agent_home.socket.exists(), "a killed agent removes no files"
    assert api.status().pid not in {dead, None}


def test_submission_survives_a_killed_agent(agent_home: AgentHome, api: AgentClient) -> None:
    gate = agent_home.folder / "gate"
    with ThreadPoolExecutor() as pool:
        submission = pool.submit(api.submit, spec(options={"gate": str(gate)}))
        wait_until(gate.exists)
        agent_home.kill()
        gate.with_suffix(".open").touch()
        assert submission.result() == api.job("abcdefgh")


def test_unsafe_call_is_not_repeated(agent_home: AgentHome, api: AgentClient) -> None:
    with pytest.raises(AgentError, match="may have succeeded"):
        api.cancel("dies")
    assert agent_home.log.read_text().count(" serves ") == 1
    with pytest.raises(NotFoundError):  # another agent answers over a new connection
        api.cancel("none")
    agent_home.kill()
    with pytest.raises(NotFoundError):
        api.cancel("none")


def test_error_names_hanging_agent(
    agent_home: AgentHome, api: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = api.status().pid
    os.kill(pid, signal.SIGSTOP)
    with monkeypatch.context() as impatient:
        impatient.setattr(client_module, "_ANSWER_S", 0.2)
        with pytest.raises(AgentError, match=rf"pid {pid}\) did not answer jobs"):
            api.jobs()
        impatient.setattr(link, "_HELLO_TIMEOUT_S", 0.2)
        with pytest.raises(AgentError):
            api.jobs()
    os.kill(pid, signal.SIGCONT)
    assert api.jobs() == []


# --- versions ---
def test_newer_client_replaces_the_agent_after_running_calls(
    agent_home: AgentHome, api: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = api.status().pid
    gate = agent_home.folder / "gate"
    with ThreadPoolExecutor() as pool, ended(old) as old_ends:
        poll = _poll(api, pool)
        submission = pool.submit(api.submit, spec(options={"gate": str(gate)}))
        wait_until(gate.exists)
        monkeypatch.setattr(link, "version", lambda: "99.1")
        newer = agent_home.client()
        takeover = pool.submit(newer.status)
        wait_until(lambda: not agent_home.socket.exists())
        assert poll.result().jobs == ()  # a long poll is answered at once
        assert not old_ends(0), "the old agent did not answer a call"
        gate.with_suffix(".open").touch()
        assert submission.result().slurm_id == "1"
        assert takeover.result().pid != old
    assert "agent ends: retired" in agent_home.log.read_text()


def test_error_for_another_protocol_version_suggests_a_kernel_restart(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PROTOCOL", 99)
    with pytest.raises(AgentError, match="Restart the kernel"):
        agent_home.client().check()


# --- one client, many users ---
def test_threads_get_their_own_answers(api: AgentClient) -> None:
    words = [f"ä {number}\n$HOME" for number in range(20)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda word: api.command(["squeue", word]).stdout, words))
    assert answers == [f"squeue\t{word}" for word in words]


def test_client_stays_usable_after_an_interrupted_call(agent_home: AgentHome) -> None:
    watcher = agent_home.client()
    program = agent_home.python(
        "try:\n    client.changes(client.changes().cursor, 60.0)\n"
        "except KeyboardInterrupt:\n    print(client.command(['squeue']).stdout)\n"
    )
    wait_until(lambda: watcher.status().clients == 2)
    program.send_signal(signal.SIGINT)
    assert program.communicate()[0] == "squeue\n"


def test_parent_and_child_can_both_call_the_agent_after_a_fork(agent_home: AgentHome) -> None:
    program = agent_home.python(
        "import os\nclient.check()\nchild = os.fork()\n"
        "for number in range(50):\n"
        "    word = f'{child} {number}'\n"
        "    assert client.command([word]).stdout == word\n"
        "if child:\n    print(os.waitpid(child, 0)[1])\n"
    )
    assert program.communicate()[0] == "0\n"
    assert program.returncode == 0


# --- errors ---
def test_error_of_the_service_arrives_unchanged(api: AgentClient) -> None:
    with pytest.raises(SubmitError) as caught:
        api.submit(spec(options={"time": "never"}))
    assert (
        caught.value.problem()
        == SubmitError(
            "sbatch refused the job.", hint="Give a time.", detail="sbatch: no"
        ).problem()
    )


def test_internal_error_points_to_the_log_without_quoting_the_cell(
    agent_home: AgentHome, api: AgentClient
) -> None:
    with pytest.raises(JupyterSlurmError, match=re.escape(str(agent_home.log))) as caught:
        api.job("a bug")
    assert type(caught.value) is JupyterSlurmError
    log = agent_home.log.read_text()
    assert "memory_agent.py" in log
    assert "ZeroDivisionError" in log
    assert "running a bug" not in log


@pytest.mark.parametrize(
    ("code", "words"), [("x" * (64 * 2**20), "64 MiB"), ("\ud800", "surrogate")]
)
def test_unsendable_cell_is_rejected_before_the_call(
    api: AgentClient, code: str, words: str
) -> None:
    with pytest.raises(RequestError, match=words):
        api.submit(spec(code=code))


def _poll(api: AgentClient, pool: ThreadPoolExecutor) -> Future[Changes]:
    """Start a long poll, and wait until the agent has received it."""
    poll = pool.submit(api.changes, api.changes().cursor, 60.0)
    wait_until(lambda: api.status().clients == 2)
    return poll


def _children() -> list[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in path.read_text().split()]
