"""Pages on a Jupyter server with the real agent and a real Slurm: what they see, who is asked."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_slurm.agent.connection import AgentConnection
from jupyter_slurm.wire import JobSpec, new_id
from tests.agent.home import AgentHome, ended
from tests.cluster.plugin import SlurmCluster
from tests.server.served import (
    API,
    PATIENCE_S,
    Served,
    Watcher,
    agent_of,
    environment,
    query,
    running_server,
    short_home,
)
from tests.ssh.waiting import wait_until

_POLL_S = 1.0
"""The local cluster's profile says so: one squeue for all who look in that time."""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with short_home() as folder:
        yield folder


def environment_on(slurm_cluster: SlurmCluster, home: Path) -> dict[str, str]:
    config = {"JUPYTER_CONFIG_DIR": slurm_cluster.env["JUPYTER_CONFIG_DIR"]}
    return environment(home) | config


@pytest.fixture(scope="module")
def env(home: Path, slurm_cluster: SlurmCluster) -> dict[str, str]:
    return environment_on(slurm_cluster, home)


@pytest.fixture(scope="module")
def agent(env: dict[str, str]) -> Iterator[AgentHome]:
    """Nobody has started it yet."""
    with agent_of(env) as one:
        yield one


@pytest.fixture(scope="module")
def served(home: Path, env: dict[str, str], agent: AgentHome) -> Iterator[Served]:
    with running_server(env, home) as started:
        yield started


def cell(code: str, **more: object) -> dict[str, object]:
    return {"spec": {"kind": "cell", "id": new_id(), "name": "page", "code": code, **more}}


def sleeper(**options: str) -> dict[str, object]:
    return cell("#!/bin/sh\nexec sleep 600", kind="program", options=options)


def test_the_agent_is_started_by_the_first_who_asks(slurm_cluster: SlurmCluster) -> None:
    with short_home() as home:
        env = environment_on(slurm_cluster, home)
        with agent_of(env) as agent, running_server(env, home) as served:
            assert agent.agent_pid() is None, "the server has started it for nobody"
            assert served.client().get(f"{API}openapi.json").status == 200
            assert agent.agent_pid() is None
            assert served.client().call("status")["pid"] == agent.pid()


def test_a_page_sees_a_job_from_its_submission_to_its_end(served: Served) -> None:
    client = served.client()
    with client.watch() as page:
        page.say(watch=1, call="changes")
        assert page.value(1)["whole"]
        job = client.call("submit", **cell("print('hello, page')"))
        page.say(watch=2, call="logs", args={"job_id": job["id"]})
        page.until(1, id=job["id"], state="COMPLETED")
    with client.watch() as page:
        page.say(watch=1, call="logs", args={"job_id": job["id"]})
        value = page.value(1)
    assert value["end"]
    # print writes twice, and what reads it may come in between.
    told = [one["text"] for one in value["outputs"] if one["type"] == "stream"]
    assert "".join(told) == "hello, page\n"
    kept = client.get(query(f"{API}logfile", job_id=job["id"]))
    assert kept.body == b"hello, page\n"
    assert kept.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert kept.headers["Content-Disposition"].startswith("attachment")
    assert f"page-{job['slurm_id']}.log" in kept.headers["Content-Disposition"]


def test_jobs_follow_notebooks_that_are_renamed_moved_or_below_a_renamed_folder(
    served: Served,
) -> None:
    client = served.client()
    nbformat.write(new_notebook(), served.folder / "Untitled.ipynb")
    (served.folder / "sub").mkdir()

    def path(name: str) -> str:
        return str(served.folder / name)

    job = client.call("submit", **cell("1", notebook=path("Untitled.ipynb"), fingerprint="f"))
    copy = {"copy_from": "Untitled.ipynb"}
    assert client.post("api/contents/sub", copy).status == 201
    renames = (
        ("Untitled.ipynb", "trial.ipynb"),
        ("trial.ipynb", "sub/trial.ipynb"),
        ("sub", "archive"),
    )
    for old, new in renames:
        body = json.dumps({"path": new}).encode()
        assert client.ask("PATCH", f"api/contents/{old}", body).status == 200
    now = path("archive/trial.ipynb")
    wait_until(lambda: client.call("job", job_id=job["id"])["notebook"] == now, PATIENCE_S)


def test_a_page_has_a_terminal_of_jupyters_own_on_a_node_of_a_job(served: Served) -> None:
    client = served.client()
    with client.watch() as watcher:
        watcher.say(watch=1, call="changes")
        watcher.value(1)
        job = client.call("submit", **sleeper(nodes="2"))
        slurm_id = watcher.until(1, id=job["id"], state="RUNNING")["slurm_id"]
        made = client.call("terminal", job_id=job["id"], node="n2")
        with client.terminal(made["name"]) as page:
            page.say("set_size", 31, 97, 600, 800)
            page.until(f"{job['name']} · n2")  # the title of its tab
            page.until("$ ", "# ")
            page.say("stdin", "echo =$SLURM_JOB_ID= $SLURMD_NODENAME $(stty size) ü\r")
            page.until(f"={slurm_id}= n2 31 97 ü")
            page.say("set_size", 20, 60, 600, 800)
            resized = "while [ \"$(stty size)\" != '20 60' ]; do sleep 0.1; done; echo s''o\r"
            page.say("stdin", resized)
            page.until("so\r\n")
            page.say("stdin", "exit 0\r")
            assert page.is_disconnected()
        with client.terminal(client.call("terminal", job_id=job["id"])["name"]) as page:
            page.say("set_size", 24, 80)
            page.until("$ ", "# ")
            page.say("stdin", "echo here $((6 * 7))\r")
            page.until("here 42")
            client.call("cancel", job_id=job["id"])
            page.until("Enter closes the terminal")
            page.say("stdin", "\r")
            assert page.is_disconnected()
        watcher.until(1, id=job["id"], state="CANCELLED")
    late = client.post(f"{API}terminal", {"job_id": job["id"]})
    assert (late.status, late.problem.code) == (400, "request")
    assert "has ended" in str(late.problem.message)


def test_a_server_without_terminals_says_so(
    env: dict[str, str], home: Path, agent: AgentHome
) -> None:
    place = home / "bare"
    place.mkdir()
    with running_server(env, place, "c.ServerApp.terminals_enabled = False\n") as bare:
        answer = bare.client().post(f"{API}terminal", {"job_id": "abcdefgh"})
    assert (answer.status, answer.problem.code) == (400, "config")


def test_a_whole_long_log_is_a_file(served: Served) -> None:
    client = served.client()
    code = "for n in range(40_000):\n    print(f'{n:060d}')\nraise SystemError('at the end')"
    job = client.call("submit", **cell(code))
    with client.watch() as page:
        page.say(watch=1, call="changes")
        page.until(1, id=job["id"], state="FAILED")
    text = client.get(query(f"{API}logfile", job_id=job["id"])).body.decode()
    lines = text.splitlines()
    assert lines[:40_000] == [f"{n:060d}" for n in range(40_000)]
    assert "SystemError" in lines[-1]


def test_a_line_and_a_text_become_what_the_magic_would_submit(served: Served) -> None:
    client = served.client()
    line = "--gpus 1 --time 5m --name 'a-job'"
    told = client.call("spec", line=line, code="print(1)", notebook="lab/x.ipynb")
    spec = msgspec.convert(told, JobSpec)
    assert spec.options == {"gpus": "1", "time": "00:05:00"}
    assert (spec.name, spec.kind) == ("a-job", "cell")
    assert spec.notebook == str(served.folder / "lab" / "x.ipynb")
    assert spec.cwd == str(served.folder / "lab")
    assert client.call("preview", spec=told)["cluster"] == "local"
    session = client.call("spec", line="--idle 1h", code="", kind="session")
    assert (session["kind"], session["idle_s"]) == ("session", 3600)


def test_a_form_is_told_in_one_step_what_would_become_of_a_text_and_of_a_file(
    served: Served,
) -> None:
    client = served.client()
    name = "r\u00e9sum\u00e9 'of' \N{SNAKE}.sh"
    (served.folder / name).write_text("#!/bin/sh\n#SBATCH --time=5\necho went\n")
    of_text = client.call("outlook", line="--time 5m", code="print(1)")
    of_file = client.call("outlook", line="", path=name)
    for told in (of_text, of_file):
        assert told["start_estimate_s"]
        assert not [one for one in told["checks"] if one["ok"] is False]
    assert client.call("spec", line="", path=name)["kind"] == "script"
    problem = client.post(f"{API}outlook", {"line": "--module x", "path": name}).problem
    assert "module" in str(problem.message)
    cell = {"line": "--in data", "code": "data", "notebook": "x.ipynb"}
    assert client.call("spec", **cell)["names_in"] == ["data"]
    assert client.call("outlook", **cell)["script"]


def test_a_file_that_is_sent_twice_under_one_id_is_one_job(served: Served) -> None:
    client = served.client()
    (served.folder / "twice.py").write_text("print('once')")
    wish = {"path": "twice.py", "id": new_id()}
    first, second = client.call("notebook", **wish), client.call("notebook", **wish)
    assert first["id"] == second["id"] == wish["id"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--gups 1", "`--gpus`"),
        ("--in data", "--in belongs to cells"),
        ("--time {minutes}", "no variable `minutes`"),
        ("--name 'a", "cannot be split"),
        ("--session nobody", "no session `nobody`"),
    ],
)
def test_a_line_that_cannot_be_is_a_problem(served: Served, line: str, words: str) -> None:
    problem = served.client().post(f"{API}spec", {"line": line, "code": "1"}).problem
    assert words in f"{problem.message} {problem.hint}"


def test_a_notebook_runs_headless_and_its_executed_copy_lies_beside_it(served: Served) -> None:
    client = served.client()
    (served.folder / "lab é").mkdir()
    source = new_notebook(cells=[new_code_cell("print(6 * 7)"), new_code_cell("6 * 9")])
    nbformat.write(source, served.folder / "lab é" / "sum.ipynb")
    job = client.call("notebook", path="lab é/sum.ipynb", line="--time 5")
    assert job["name"] == "sum"
    with client.watch() as page:
        page.say(watch=1, call="changes")
        page.until(1, id=job["id"], state="COMPLETED")
    path = client.call("executed", job_id=job["id"])["path"]
    assert path == f"lab é/sum.slurm-{job['slurm_id']}.ipynb"
    cells = nbformat.read(served.folder / path, as_version=4).cells
    assert [one.outputs[0].get("text") or one.outputs[0].data["text/plain"] for one in cells] == [
        "42\n",
        "54",
    ]
    told = client.get(f"{API}job?job_id={job['id']}").value
    assert told["notebook"].endswith("sum.ipynb")
    assert told["delivered"]


def test_a_script_and_python_run_by_their_path(served: Served) -> None:
    client = served.client()
    (served.folder / "go.slurm").write_text("#!/bin/sh\n#SBATCH --time=5\necho went\n")
    (served.folder / "go.py").write_text("import os; print(os.getcwd())")
    script = client.call("notebook", path="go.slurm")
    python = client.call("notebook", path="go.py")
    assert (script["kind"], python["kind"]) == ("script", "cell")
    with client.watch() as page:
        page.say(watch=1, call="changes")
        page.until(1, id=python["id"], state="COMPLETED")
    kept = client.get(query(f"{API}logfile", job_id=python["id"])).body.decode()
    assert kept == f"{served.folder}\n"
    for job, name in [(script, "go.slurm"), (python, "go.py")]:
        asked = client.call("details", job_id=job["id"])["asked"]
        assert asked["file"] == str(served.folder / name)


@pytest.mark.parametrize(
    ("path", "status"),
    [("none.py", 404), ("../../etc/passwd", 404), ("", 400), (".secret.py", 404)],
)
def test_a_file_that_this_server_does_not_show_is_not_run(
    served: Served, path: str, status: int
) -> None:
    (served.folder / ".secret.py").write_text("1")
    assert served.client().post(f"{API}notebook", {"path": path}).status == status


def test_a_job_of_no_notebook_has_no_executed_copy(served: Served) -> None:
    job = served.client().call("submit", **cell("1"))
    problem = served.client().post(f"{API}executed", {"job_id": job["id"]}).problem
    assert problem.code == "request"


def test_state_changes_are_on_the_event_bus_while_somebody_watches(served: Served) -> None:
    client = served.client()
    with client.watch() as page, client.subscribe() as bus:
        page.say(watch=1, call="changes")
        page.value(1)
        job = client.call("submit", **cell("1"))
        page.until(1, id=job["id"], state="COMPLETED")
        states = []
        while "COMPLETED" not in states:
            event = bus.hear()
            if event.get("id") == job["id"]:
                states.append(event["state"])
        assert len(states) == len(set(states))


def squeues(served: Served) -> int:
    commands = served.client().call("status")["commands"]
    return sum(count for name, count in commands.items() if name.endswith(" squeue"))


def assert_that_one_squeue_serves_all(served: Served) -> None:
    """However slow this machine is at the moment."""
    before, began_s = squeues(served), time.monotonic()
    wait_until(lambda: squeues(served) >= before + 4)
    asked = squeues(served) - before
    assert asked <= (time.monotonic() - began_s) / _POLL_S + 2


def test_many_pages_ask_slurm_no_more_than_one(served: Served) -> None:
    """As many requests at the agent, and as many squeue in the same time, with 1, 5, 20 pages."""
    client = served.client()
    job = client.call("submit", **sleeper())
    with client.watch() as page:
        page.say(watch=1, call="changes")
        page.until(1, id=job["id"], state="RUNNING")
    for count in (1, 5, 20):
        with ExitStack() as stack:
            pages = [stack.enter_context(served.client().watch()) for _ in range(count)]
            for one in pages:
                one.say(watch=1, call="changes")
                one.say(watch=2, call="queue_changes", args={"everyone": True})
                one.say(watch=3, call="logs", args={"job_id": job["id"]})
            for one in pages:
                one.value(2)
            # Three polls, and the question itself; a poll that was answered is soon asked again.
            wait_until(lambda: client.call("status")["clients"] == 4)
            assert_that_one_squeue_serves_all(served)
            assert client.call("status")["clients"] <= 4
    client.call("cancel", job_id=job["id"])


def killed(agent: AgentHome) -> None:
    agent.kill()


def retired(agent: AgentHome) -> None:
    """As by a client of a newer version."""
    with ended(agent.pid()) as wait:
        AgentConnection(agent.socket).retire()
        assert wait(PATIENCE_S)


@pytest.mark.parametrize("end", [killed, retired])
def test_an_agent_that_has_ended_is_followed_by_another(
    served: Served, agent: AgentHome, end: Callable[[AgentHome], None]
) -> None:
    """Nobody has to come back, and the first value of the next one is whole."""
    client = served.client()
    job = client.call("submit", **sleeper())
    with client.watch() as page:
        page.say(watch=1, call="changes")
        page.until(1, id=job["id"], state="RUNNING")
        first = agent.pid()
        end(agent)
        value = page.value(1)
        while not value["whole"]:
            value = page.value(1)
        assert job["id"] in {one["id"] for one in value["jobs"]}
        assert client.call("status")["pid"] == agent.pid() != first
        client.call("cancel", job_id=job["id"])
        page.until(1, id=job["id"], state="CANCELLED")


def test_a_server_that_was_killed_takes_nothing_with_it(
    home: Path, env: dict[str, str], agent: AgentHome
) -> None:
    """The agent goes on, and a page comes back with its cursor to the next server."""
    folder = home / "again"
    folder.mkdir()
    with running_server(env, folder, token="kept") as first:
        client = first.client()
        job = client.call(
            "submit",
            **cell(
                "import time\nprint('one', flush=True)\nwhile not "
                f"__import__('os').path.exists({str(home / 'go')!r}):\n"
                "    time.sleep(0.1)\nprint('two')"
            ),
        )
        with client.watch() as page:
            page.say(watch=1, call="changes")
            page.until(1, id=job["id"], state="RUNNING")
            page.say(watch=2, call="logs", args={"job_id": job["id"]})
            text, cursor = read(page, 2, "one\n")
        pid = agent.pid()
        os.kill(first.pid, signal.SIGKILL)
    with running_server(env, folder, token="kept") as second, second.client().watch() as page:
        page.say(watch=2, call="logs", args={"job_id": job["id"]}, cursor=cursor)
        (home / "go").touch()
        text, _ = read(page, 2, "two\n")
        assert text == "two\n"
        assert second.client().call("status")["pid"] == pid == agent.pid()


def read(page: Watcher, number: int, wanted: str) -> tuple[str, str]:
    """A job's text up to `wanted`, and the cursor there."""
    text = ""
    while wanted not in text:
        value = page.value(number)
        text += "".join(one["text"] for one in value["outputs"] if one["type"] == "stream")
    return text, value["cursor"]
