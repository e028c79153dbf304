"""Changes of jobs and connections, reported once for each cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.records.changes import changes
from jupyter_slurm.jobs.records.registry import JobRegistry, Store
from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE
from jupyter_slurm.wire import Changes, Connection, ConnectionState, JobState
from tests.jobs.cluster.test_logins import ScriptedWay
from tests.jobs.records.test_registry import record
from tests.ssh.profile import write_profile
from tests.ssh.sshd import Sshd

PATIENCE_S = 60.0
A_MOMENT_S = 0.5


class Told:
    """A caller that polls for changes."""

    def __init__(self, registry: JobRegistry, clusters: Clusters, caller: str = "") -> None:
        self.look: Callable[[float], Changes] = lambda wait_s: changes(
            registry, clusters, self.cursor, wait_s, caller
        )
        self.cursor = ""

    def now(self, wait_s: float = 0.0) -> Changes:
        told = self.look(wait_s)
        self.cursor = told.cursor
        return told


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sshd: Sshd) -> Path:
    """Return the home of a user with two clusters, one of them over SSH."""
    config = tmp_path / "ssh_config"
    config.write_text(sshd.stanza("far"))
    monkeypatch.setenv(CONFIG_VARIABLE, str(config))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    write_profile(tmp_path / "config", "far", {"host": "far"})
    write_profile(tmp_path / "config", "here", {})
    return tmp_path


@pytest.fixture
def registry(home: Path) -> JobRegistry:
    return JobRegistry(Store(home / "store"))


@pytest.fixture
def clusters(registry: JobRegistry) -> Iterator[Clusters]:
    clusters = Clusters(registry)
    yield clusters
    clusters.close()


@pytest.fixture
def told(registry: JobRegistry, clusters: Clusters) -> Told:
    return Told(registry, clusters)


def of(told: Changes, cluster: str) -> Connection:
    [found] = [one for one in told.connections or () if one.cluster == cluster]
    return found


# --- jobs ---
def test_first_answer_is_complete_and_immediate(told: Told, registry: JobRegistry) -> None:
    registry.add(record("aaaaaaaa"))
    first = told.now(PATIENCE_S)
    assert (first.whole, [job.id for job in first.jobs]) == (True, ["aaaaaaaa"])
    assert [one.cluster for one in first.connections or ()] == ["far", "here"]


def test_later_answers_have_only_changed_and_forgotten_jobs(
    told: Told, registry: JobRegistry
) -> None:
    for job_id in ("aaaaaaaa", "bbbbbbbb", "cccccccc"):
        registry.add(record(job_id))
    told.now()
    registry.change("bbbbbbbb", state=JobState.RUNNING)
    registry.change("aaaaaaaa", reason="Priority")
    registry.remove("cccccccc")
    news = told.now(PATIENCE_S)
    assert [job.id for job in news.jobs] == ["bbbbbbbb", "aaaaaaaa"]
    assert (news.whole, news.gone, news.connections) == (False, ("cccccccc",), None)
    again = told.now(A_MOMENT_S)
    assert (again.whole, again.jobs, again.gone, again.connections) == (False, (), (), None)


def test_cursor_of_another_agent_starts_over(
    told: Told, registry: JobRegistry, home: Path, clusters: Clusters
) -> None:
    registry.add(record())
    told.cursor = "junk"
    assert told.now(PATIENCE_S).whole
    after_a_restart = Told(JobRegistry(Store(home / "store")), clusters)
    after_a_restart.cursor = told.cursor
    news = after_a_restart.now(PATIENCE_S)
    assert (news.whole, [job.id for job in news.jobs]) == (True, ["aaaaaaaa"])


# --- connections ---
def test_opened_and_closed_connections_are_reported_as_changes(
    told: Told, clusters: Clusters, sshd: Sshd
) -> None:
    first = told.now()
    assert of(first, "far").state is ConnectionState.CLOSED
    assert of(first, "here").state is ConnectionState.LOCAL
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(told.now, PATIENCE_S)
        clusters.connect("far", "me", PATIENCE_S)
        news = waiting.result()
    while of(news, "far").state is not ConnectionState.OPEN:
        news = told.now(PATIENCE_S)
    assert of(news, "far").hosts == (f"{sshd.user}@127.0.0.1:{sshd.port}",)
    clusters.disconnect("far")
    while of(news, "far").state is not ConnectionState.LOGIN_NEEDED:
        news = told.now(PATIENCE_S)
        assert news.jobs == ()


def test_question_is_shown_only_to_its_caller(
    registry: JobRegistry, clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = clusters.logins.of("far", ScriptedWay("Password: "))
    monkeypatch.setattr(clusters, "login", lambda known: login if known.name == "far" else None)
    clusters.named("far")
    mine, others = Told(registry, clusters, "me"), Told(registry, clusters, "somebody else")
    mine.now()
    others.now()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(mine.now, PATIENCE_S)
        login.connect("me", 0.0)
        news = waiting.result()
    while of(news, "far").state is not ConnectionState.ASKING:
        news = mine.now(PATIENCE_S)
    question = of(news, "far").question
    assert question is not None
    assert question.prompt == "Password: "
    seen = others.now()
    assert (of(seen, "far").state, of(seen, "far").question) == (ConnectionState.ASKING, None)
    login.answer(question.id, "right", PATIENCE_S)
    while of(news, "far").state is not ConnectionState.OPEN:
        news = mine.now(PATIENCE_S)
    assert of(news, "far").question is None


def test_new_cluster_and_unreadable_profile_are_reported_as_changes(told: Told, home: Path) -> None:
    told.now()
    write_profile(home / "config", "another", {})
    news = told.now()
    assert [one.cluster for one in news.connections or ()] == ["another", "far", "here"]
    broken = home / "config" / "jupyter-slurm" / "clusters.d" / "another.toml"
    broken.write_text("poll_s = [")
    news = told.now()
    assert [one.cluster for one in news.connections or ()] == ["far", "here", "another"]
    problem = of(news, "another").problem
    assert problem is not None
    assert str(broken) in str(problem.message)
    broken.unlink()
    assert [one.cluster for one in told.now().connections or ()] == ["far", "here"]


def test_polling_does_not_open_a_connection(told: Told) -> None:
    told.now()
    told.now(A_MOMENT_S)
    told.cursor = ""
    assert of(told.now(), "far").state is ConnectionState.CLOSED
