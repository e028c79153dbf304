"""The client and the real agent process: started, met, killed, replaced, refused."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm import client as client_module
from jupyter_slurm.agent import connection, link
from jupyter_slurm.api import Api
from jupyter_slurm.client import AgentClient, connect, find
from jupyter_slurm.errors import (
    AgentError,
    JupyterSlurmError,
    NotFoundError,
    RequestError,
    SubmitError,
)
from jupyter_slurm.wire import CellSpec, Changes, Job
from tests.agent.home import ROOT, AgentHome, ended
from tests.agent.memory_agent import BROKEN_VARIABLE
from tests.ssh.waiting import wait_until


def spec(**changes: Any) -> CellSpec:
    fields: dict[str, Any] = {"id": "abcdefgh", "name": "cell", "code": "1 + 1"}
    return CellSpec(**{**fields, **changes})


@pytest.fixture
def api(agent_home: AgentHome) -> AgentClient:
    return agent_home.client()


# --- the Api, all of it ---
@pytest.mark.parametrize("name", [name for name in vars(Api) if not name.startswith("_")])
def test_every_call_of_api_has_the_same_signature_in_the_client(name: str) -> None:
    assert inspect.signature(getattr(AgentClient, name)) == inspect.signature(getattr(Api, name))


def test_arguments_that_a_call_does_not_take_are_refused_before_it_is_made() -> None:
    client: Any = AgentClient(Path("/no/agent"), None)
    for wrong in (client.job, lambda: client.job("a", "b"), lambda: client.job(nr="a")):
        with pytest.raises(TypeError, match="argument"):
            wrong()


def test_importing_the_client_loads_nothing_heavy() -> None:
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
def test_the_first_call_starts_an_agent_and_others_meet_it(agent_home: AgentHome) -> None:
    first = agent_home.client().status()
    assert first.pid == agent_home.agent_pid()
    assert first.socket == str(agent_home.socket)
    assert agent_home.client().status().pid == first.pid


def test_the_agent_leaves_the_session_and_the_folder_of_who_started_it(api: AgentClient) -> None:
    pid = api.status().pid
    assert os.getsid(pid) != os.getsid(0)
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert pid not in _children()


def test_twenty_clients_at_once_start_one_agent(agent_home: AgentHome) -> None:
    programs = [agent_home.python("print(client.status().pid)") for _ in range(20)]
    pids = {program.communicate()[0] for program in programs}
    assert pids == {f"{agent_home.agent_pid()}\n"}
    assert agent_home.log.read_text().count(" serves ") == 1


def test_a_stale_socket_and_lock_of_a_dead_agent_are_no_hindrance(agent_home: AgentHome) -> None:
    agent_home.lock.write_text("1\n")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(agent_home.socket))
    assert agent_home.client().status().pid == agent_home.agent_pid()


def test_an_agent_that_cannot_start_says_why(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BROKEN_VARIABLE, "1")
    with pytest.raises(AgentError, match=r"clusters\.toml, line 3") as caught:
        agent_home.client().check()
    assert str(agent_home.log) in str(caught.value)
    monkeypatch.delenv(BROKEN_VARIABLE)
    agent_home.client().check()


def test_a_program_that_is_no_agent_gives_its_own_words(agent_home: AgentHome) -> None:
    absent = AgentClient(agent_home.socket, (sys.executable, "-m", "no_such_module"))
    with pytest.raises(AgentError, match="No module named no_such_module"):
        absent.check()


def test_a_program_that_is_not_there_is_named(agent_home: AgentHome) -> None:
    with pytest.raises(AgentError, match="/no/such/python"):
        AgentClient(agent_home.socket, ("/no/such/python",)).check()


def test_a_folder_that_was_removed_is_made_again(agent_home: AgentHome, api: AgentClient) -> None:
    api.check()
    agent_home.kill()
    shutil.rmtree(agent_home.socket.parent)
    assert api.status().pid == agent_home.agent_pid()
    assert stat.S_IMODE(agent_home.socket.parent.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made_is_named(agent_home: AgentHome) -> None:
    (agent_home.folder / "file").touch()
    with pytest.raises(AgentError, match="JUPYTER_RUNTIME_DIR"):
        AgentClient(agent_home.folder / "file" / "agent.sock", agent_home.command).check()


def test_a_path_too_long_for_a_socket_is_named(agent_home: AgentHome) -> None:
    folder = agent_home.folder / ("x" * 120)
    with pytest.raises(AgentError, match=r"cannot listen at .*x{120}.*too long"):
        AgentClient(folder / "agent.sock", agent_home.command).check()


def test_an_agent_that_always_dies_at_once_is_given_up(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_RECOVERY_S", 0.5)
    with pytest.raises(AgentError, match="No agent has answered"):
        AgentClient(agent_home.socket, ("/bin/true",)).check()


# --- finding ---
def test_find_starts_nothing(agent_home: AgentHome) -> None:
    assert find() is None
    assert agent_home.agent_pid() is None


def test_find_gives_the_agent_that_runs_and_starts_none_later(agent_home: AgentHome) -> None:
    agent_home.client().check()
    found = find()
    assert found is not None
    assert found.status().pid == agent_home.kill()
    with pytest.raises(AgentError, match="No agent is running"):
        found.status()


def test_a_socket_named_by_the_environment_is_used(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_home.client().check()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(agent_home.folder / "other"))
    monkeypatch.setenv("JUPYTER_SLURM_AGENT", str(agent_home.socket))
    assert connect().status().pid == agent_home.agent_pid()


def test_without_unix_sockets_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    for get in (connect, find):
        with pytest.raises(AgentError, match="WSL"):
            get()


# --- trust ---
def test_a_folder_open_to_others_is_refused(agent_home: AgentHome) -> None:
    agent_home.client().check()
    agent_home.socket.parent.chmod(0o755)
    with pytest.raises(AgentError, match="0755"):
        agent_home.client().check()


def test_a_file_that_is_no_socket_is_refused(agent_home: AgentHome) -> None:
    agent_home.socket.write_text("")
    with pytest.raises(AgentError, match="not a socket"):
        agent_home.client().check()


# --- the agent goes away ---
def test_an_idle_agent_that_was_killed_is_replaced_at_the_next_call(
    agent_home: AgentHome, api: AgentClient
) -> None:
    assert len(api.clusters()) == 2
    dead = agent_home.kill()
    assert agent_home.socket.exists(), "a killed agent removes nothing"
    assert api.status().pid not in {dead, None}


def test_a_long_poll_survives_the_death_of_its_agent(
    agent_home: AgentHome, api: AgentClient
) -> None:
    with ThreadPoolExecutor() as pool:
        poll = _poll(api, pool)
        dead = agent_home.kill()
        job = api.submit(spec())
        assert poll.result().jobs == (job,)
        assert api.status().pid != dead


def test_a_submission_survives_the_death_of_its_agent(
    agent_home: AgentHome, api: AgentClient
) -> None:
    gate = agent_home.folder / "gate"
    with ThreadPoolExecutor() as pool:
        submission = pool.submit(api.submit, spec(options={"gate": str(gate)}))
        wait_until(gate.exists)
        agent_home.kill()
        gate.with_suffix(".open").touch()
        assert submission.result() == api.job("abcdefgh")


def test_an_orderly_end_of_the_agent_lets_polls_return(
    agent_home: AgentHome, api: AgentClient
) -> None:
    with ThreadPoolExecutor() as pool:
        poll = _poll(api, pool)
        agent_home.kill(signal.SIGTERM)
        assert poll.result() == Changes(cursor="0", whole=False, jobs=())
    assert "cut off" not in agent_home.log.read_text()


def test_a_call_that_kills_every_agent_is_given_up_and_the_next_one_works(
    agent_home: AgentHome, api: AgentClient
) -> None:
    with pytest.raises(AgentError, match="ended 3 times"):
        api.job("dies")
    assert agent_home.log.read_text().count(" serves ") == 3
    assert api.jobs() == []


def test_a_call_that_must_not_be_done_twice_is_made_once(
    agent_home: AgentHome, api: AgentClient
) -> None:
    with pytest.raises(AgentError, match="may have been done"):
        api.cancel("dies")
    assert agent_home.log.read_text().count(" serves ") == 1
    with pytest.raises(NotFoundError):  # by another agent, whose connection was not lost in between
        api.cancel("none")
    agent_home.kill()
    with pytest.raises(NotFoundError):
        api.cancel("none")


def test_an_agent_that_hangs_is_an_error_that_names_it(
    agent_home: AgentHome, api: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = api.status().pid
    os.kill(pid, signal.SIGSTOP)
    with monkeypatch.context() as impatient:
        impatient.setattr(client_module, "_ANSWER_S", 0.2)
        with pytest.raises(AgentError, match=rf"pid {pid}\) has not answered jobs"):
            api.jobs()
        impatient.setattr(connection, "_HELLO_TIMEOUT_S", 0.2)
        with pytest.raises(AgentError, match="Something listens"):
            api.jobs()
    os.kill(pid, signal.SIGCONT)
    assert api.jobs() == []


# --- versions ---
def test_a_newer_client_takes_over_and_the_call_under_way_is_finished(
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
        assert poll.result().jobs == ()  # a call that waits for news is answered at once
        assert not old_ends(0), "the old agent left a call behind"
        gate.with_suffix(".open").touch()
        assert submission.result().slurm_id == "1"
        assert takeover.result().pid != old
    assert "agent ends: retired" in agent_home.log.read_text()


def test_a_newer_client_replaces_an_agent_once_only(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "version", lambda: "99.1")
    newer = agent_home.client()
    newer.check()
    newer.close()  # it must connect again, to an agent that is as old as the first
    assert newer.status().pid == agent_home.agent_pid()
    assert agent_home.log.read_text().count(" serves ") == 2


def test_a_client_that_starts_nothing_replaces_nothing(
    agent_home: AgentHome, api: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = api.status().pid
    monkeypatch.setattr(link, "version", lambda: "99.1")
    found = find()
    assert found is not None
    assert found.status().pid == pid


@pytest.mark.parametrize("protocol", [0, 99])
def test_another_protocol_asks_for_a_restart_of_the_kernel(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    monkeypatch.setattr(link, "PROTOCOL", protocol)
    with pytest.raises(AgentError, match="Restart the kernel"):
        agent_home.client().check()


# --- one client, many users ---
def test_threads_get_their_own_answers(api: AgentClient) -> None:
    words = [f"ä {number}\n$HOME" for number in range(200)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda word: api.command(["squeue", word]).stdout, words))
    assert answers == [f"squeue\t{word}" for word in words]


def test_an_interrupted_call_leaves_the_client_usable(agent_home: AgentHome) -> None:
    watcher = agent_home.client()
    program = agent_home.python(
        "try:\n    client.changes(client.changes().cursor, 60.0)\n"
        "except KeyboardInterrupt:\n    print(client.command(['squeue']).stdout)\n"
    )
    wait_until(lambda: watcher.status().clients == 2)
    program.send_signal(signal.SIGINT)
    assert program.communicate()[0] == "squeue\n"


def test_both_sides_of_a_fork_can_go_on(agent_home: AgentHome) -> None:
    program = agent_home.python(
        "import os\nclient.check()\nchild = os.fork()\n"
        "for number in range(50):\n"
        "    word = f'{child} {number}'\n"
        "    assert client.command([word]).stdout == word\n"
        "if child:\n    print(os.waitpid(child, 0)[1])\n"
    )
    assert program.communicate()[0] == "0\n"
    assert program.returncode == 0


# --- what cannot be ---
def test_an_error_of_the_service_arrives_as_it_was(api: AgentClient) -> None:
    with pytest.raises(SubmitError) as caught:
        api.submit(spec(options={"time": "never"}))
    assert (
        caught.value.problem()
        == SubmitError(
            "sbatch refused the job.", hint="Give a time.", detail="sbatch: no"
        ).problem()
    )


def test_a_bug_in_the_service_points_to_the_log_which_does_not_quote_the_cell(
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
def test_a_cell_that_cannot_travel_is_refused_before_it_is_sent(
    api: AgentClient, code: str, words: str
) -> None:
    with pytest.raises(RequestError, match=words):
        api.submit(spec(code=code))


def test_a_cell_of_thirty_megabytes_travels_unchanged(api: AgentClient) -> None:
    code = "é\n" * (10 * 2**20)
    assert api.preview(spec(code=code)).script == code


def _poll(api: AgentClient, pool: ThreadPoolExecutor) -> Future[Changes]:
    """A long poll that has arrived in the agent."""
    poll = pool.submit(api.changes, api.changes().cursor, 60.0)
    wait_until(lambda: api.status().clients == 2)
    return poll


def _children() -> list[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in path.read_text().split()]


def _typed(api: Api) -> Job:
    """Type checkers fail here when AgentClient is no Api any more."""
    return api.job("")


def test_the_client_is_an_api(api: AgentClient) -> None:
    with pytest.raises(JupyterSlurmError, match="no job ''"):
        _typed(api)


def test_two_threads_may_close_what_is_idle(tmp_path: Path) -> None:
    class Taken(deque[Any]):
        """Another thread takes the last one after this one has looked."""

        def __len__(self) -> int:
            return 1

    one = link.Link(tmp_path / "agent.sock", None)
    one._idle = Taken()
    one.close()
