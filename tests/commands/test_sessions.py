"""Options at the start of a session, and look-up of sessions by name."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_slurm.commands import sessions
from jupyter_slurm.commands.arguments import job_spec, read_arguments
from jupyter_slurm.commands.parsing import split
from jupyter_slurm.commands.submitting import SESSION_START
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.wire import Job, JobKind, JobState, SessionSpec
from tests.specs import known

NOW_S = 1_790_000_000.0


def session(**fields: Any) -> Job:
    told: dict[str, Any] = {
        "id": "s2s2s2s2",
        "cluster": "arandu",
        "name": "fit",
        "kind": JobKind.SESSION,
        "state": JobState.RUNNING,
        "notebook": "/n/fit.ipynb",
        "created_s": NOW_S - 200,
        "state_since_s": NOW_S - 125,
        "started_s": NOW_S - 100,
        **({"idle_s": 1800} if "kind" not in fields else {}),
    }
    return known(**{**told, **fields})


def start(words: str) -> SessionSpec:
    args = read_arguments(SESSION_START, split(words))
    return job_spec(SessionSpec, args, job_id="s2s2s2s2", notebook="/n/fit.ipynb")[1]


@pytest.mark.parametrize(
    ("words", "idle_s"),
    [("", 1800), ("--idle 2h", 7200), ("--idle=90s", 90), ("--idle 5 --idle 10", 600)],
)
def test_idle_option_sets_the_idle_time(words: str, idle_s: int) -> None:
    assert start(words).idle_s == idle_s


def test_session_accepts_the_options_of_a_cell() -> None:
    spec = start(
        "--gpus 1 --image pytorch:22.11 --env A=1 --mount /d --time 2h --name big --push ."
    )
    assert (spec.kind, spec.name, spec.code) == (JobKind.SESSION, "big", "")
    assert spec.options == {"gpus": "1", "time": "02:00:00"}
    assert (spec.image, spec.env, spec.mounts, spec.push) == (
        "pytorch:22.11",
        {"A": "1"},
        ("/d",),
        ".",
    )
    assert start("").name == "fit"


@pytest.mark.parametrize("word", ["--idle", "--idle soon", "--idle 0", "--idle UNLIMITED"])
def test_invalid_idle_time_is_rejected(word: str) -> None:
    with pytest.raises(RequestError, match="--idle"):
        start(word)


HERE = sessions.Owner("/n/fit.ipynb")
TERMINAL = sessions.Owner(None)


def test_session_is_found_by_name_owner_and_cluster() -> None:
    mine, there = session(id="a"), session(id="b", cluster="dgx")
    theirs = session(id="c", notebook="/n/other.ipynb")
    of_terminal = session(id="d", notebook=None)
    jobs = [theirs, of_terminal, there, mine]
    assert sessions.named(jobs, "fit", HERE, "arandu") is mine
    assert sessions.named(jobs, "fit", HERE, "dgx") is there
    assert sessions.named(jobs, "fit", TERMINAL) is of_terminal
    assert sessions.named([theirs], "fit", sessions.Owner("kernel 1", frozenset("c"))) is theirs
    for job in jobs:
        assert sessions.named(jobs, job.id, TERMINAL, "arandu") is job
    of_executor = session(id="e", notebook=None, for_executor=True)
    assert sessions.named([of_executor, of_terminal], "fit", TERMINAL) is of_terminal
    assert sessions.named([of_executor], "e", TERMINAL) is of_executor
    with pytest.raises(NotFoundError, match="no session `fit` on dgx") as caught:
        sessions.named([theirs, mine], "fit", HERE, "dgx")
    assert "session c of /n/other.ipynb on arandu, session a of this notebook on arandu" in str(
        caught.value
    )
    with pytest.raises(NotFoundError, match="no session `fit` outside of notebooks"):
        sessions.named([theirs, mine], "fit", TERMINAL)
    with pytest.raises(RequestError, match="session b of this notebook on dgx, session a of"):
        sessions.named(jobs, "fit", HERE)


def test_newest_session_of_a_notebook_is_used() -> None:
    mine, older = session(id="a"), session(id="b")
    theirs = session(id="c", notebook="/n/other.ipynb", name="theirs")
    assert sessions.newest([theirs, mine, older], HERE) is mine
    assert sessions.newest([session(id="d", cluster="dgx"), mine], HERE, "arandu") is mine
    of_executor = session(id="e", name="calls", notebook=None, for_executor=True)
    older = session(id="d", notebook=None)
    assert sessions.newest([of_executor, older], TERMINAL) is older
    with pytest.raises(NotFoundError, match="`calls` is session e of an Executor"):
        sessions.newest([of_executor], TERMINAL)
    with pytest.raises(NotFoundError, match="`theirs` is session c of /n/other"):
        sessions.newest([theirs], HERE)
    with pytest.raises(NotFoundError, match="Found no session outside of notebooks"):
        sessions.newest([theirs, mine], TERMINAL)
