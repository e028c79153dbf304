"""Pages on a Jupyter server with the real agent and a real Slurm."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_notebook

from jupyter_slurm.wire import new_id
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.server.served import (
    API,
    PATIENCE_S,
    Served,
    agent_of,
    environment,
    query,
    running_server,
)
from tests.ssh.waiting import wait_until

_POLL_S = 1.0
"""The interval between calls of squeue in the local cluster's profile."""


def environment_on(slurm_cluster: SlurmCluster, home: Path) -> dict[str, str]:
    config = {"JUPYTER_CONFIG_DIR": slurm_cluster.env["JUPYTER_CONFIG_DIR"]}
    return environment(home) | config


@pytest.fixture(scope="module")
def env(home: Path, slurm_cluster: SlurmCluster) -> dict[str, str]:
    return environment_on(slurm_cluster, home)


@pytest.fixture(scope="module")
def agent(env: dict[str, str]) -> Iterator[AgentHome]:
    """Yield the home of an agent that has not started."""
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


def test_page_follows_a_job_from_submission_to_end(served: Served) -> None:
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
    # print writes twice, and a read may happen in between.
    told = [one["text"] for one in value["outputs"] if one["type"] == "stream"]
    assert "".join(told) == "hello, page\n"
    kept = client.get(query(f"{API}logfile", job_id=job["id"]))
    assert kept.body == b"hello, page\n"
    assert kept.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert kept.headers["Content-Disposition"].startswith("attachment")
    assert f"page-{job['slurm_id']}.log" in kept.headers["Content-Disposition"]


def test_jobs_follow_renamed_and_moved_notebooks(
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


def test_file_submitted_twice_under_one_id_creates_one_job(served: Served) -> None:
    client = served.client()
    (served.folder / "twice.py").write_text("print('once')")
    wish = {"path": "twice.py", "id": new_id()}
    first, second = client.call("notebook", **wish), client.call("notebook", **wish)
    assert first["id"] == second["id"] == wish["id"]


def squeues(served: Served) -> int:
    commands = served.client().call("status")["commands"]
    return sum(count for name, count in commands.items() if name.endswith(" squeue"))


def assert_that_one_squeue_serves_all(served: Served) -> None:
    """Assert how often squeue runs, even on a slow machine."""
    before, began_s = squeues(served), time.monotonic()
    wait_until(lambda: squeues(served) >= before + 4)
    asked = squeues(served) - before
    assert asked <= (time.monotonic() - began_s) / _POLL_S + 2


def test_many_pages_cause_as_many_queries_as_one_page(served: Served) -> None:
    """Requests of the agent and runs of squeue are equal with 1 and 10 pages."""
    client = served.client()
    job = client.call("submit", **sleeper())
    with client.watch() as page:
        page.say(watch=1, call="changes")
        page.until(1, id=job["id"], state="RUNNING")
    clusters = [one["name"] for one in client.call("clusters")]
    for count in (1, 10):
        with ExitStack() as stack:
            pages = [stack.enter_context(served.client().watch()) for _ in range(count)]
            for one in pages:
                one.say(watch=1, call="changes")
                one.say(watch=2, call="changes", args={"look": clusters, "everyone": True})
                one.say(watch=3, call="logs", args={"job_id": job["id"]})
            for one in pages:
                one.value(2)
            # There are three polls, and the call that measures. A poll is repeated soon after its
            # answer.
            wait_until(lambda: client.call("status")["clients"] == 4)
            assert_that_one_squeue_serves_all(served)
            assert client.call("status")["clients"] <= 4
    client.call("cancel", job_id=job["id"])


def test_pages_continue_with_a_new_agent(served: Served, agent: AgentHome) -> None:
    """The watch stays open. The first value of the next agent is complete."""
    client = served.client()
    job = client.call("submit", **sleeper())
    with client.watch() as page:
        page.say(watch=1, call="changes")
        page.until(1, id=job["id"], state="RUNNING")
        first = agent.pid()
        agent.kill()
        value = page.value(1)
        while not value["whole"]:
            value = page.value(1)
        assert job["id"] in {one["id"] for one in value["jobs"]}
        assert client.call("status")["pid"] == agent.pid() != first
        client.call("cancel", job_id=job["id"])
        page.until(1, id=job["id"], state="CANCELLED")
