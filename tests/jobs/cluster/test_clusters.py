"""The ways to clusters: shared, kept while they lead to the same place, and made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.errors import TransportError
from jupyter_slurm.jobs.actions import Actions
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.records.changes import changes
from jupyter_slurm.jobs.records.store import Store
from jupyter_slurm.profiles.reading import Profiles
from jupyter_slurm.transport.shell import far_shell
from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE
from jupyter_slurm.wire import ConnectionState
from tests.ssh.odd_users import Person
from tests.ssh.profile import write_profile
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

PATIENCE_S = 120.0


@pytest.fixture
def ssh_config(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One in which nothing stands yet."""
    path = tmp_path / "ssh_config"
    path.write_text("")
    monkeypatch.setenv(CONFIG_VARIABLE, str(path))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    return path


@pytest.fixture
def clusters(ssh_config: Path, tmp_path: Path) -> Iterator[Clusters]:
    clusters = Clusters(Book(Store(tmp_path / "store")))
    yield clusters
    clusters.close()


def test_a_login_goes_by_the_ssh_configuration_as_it_is_by_then(
    clusters: Clusters, sshd: Sshd, ssh_config: Path, tmp_path: Path
) -> None:
    write_profile(tmp_path / "config", "far", {"host": "far"})
    ssh_config.write_text("Host far\n  HostName 127.0.0.1\n  Port 1\n")
    with pytest.raises(TransportError):
        clusters.connect("far", "me", PATIENCE_S)
    ssh_config.write_text(sshd.stanza("far"))
    found = clusters.connect("far", "me", PATIENCE_S)
    assert found.state is ConnectionState.OPEN
    assert found.hosts == (f"{sshd.user}@127.0.0.1:{sshd.port}",)


def test_a_logout_ends_a_login_that_is_asking_and_the_next_one_takes_its_answer(
    clusters: Clusters,
    ssh_config: Path,
    tmp_path: Path,
    gateway: Callable[..., Sshd],
    person: Person,
) -> None:
    write_profile(tmp_path / "config", "far", {"host": "far"})
    ssh_config.write_text(gateway("password").stanza("far", "IdentityFile none"))
    dead = clusters.connect("far", "a terminal", PATIENCE_S).question
    assert dead is not None
    assert clusters.disconnect("far").state is ConnectionState.LOGIN_NEEDED
    assert clusters.answer(dead.id, person.password).state is ConnectionState.LOGIN_NEEDED
    question = clusters.connect("far", "another", PATIENCE_S).question
    assert question is not None
    found = clusters.answer(question.id, person.password, PATIENCE_S)
    assert found.state is ConnectionState.OPEN


def test_a_login_whose_shell_becomes_another_program_is_not_called_connected(
    clusters: Clusters,
    ssh_config: Path,
    tmp_path: Path,
    make_sshd: Callable[..., Sshd],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sshd = make_sshd(shell="/usr/bin/bash")
    write_profile(tmp_path / "config", "far", {"host": "far"})
    ssh_config.write_text(sshd.stanza("far"))
    sshd.account.write(".bashrc", "exec cat\n")
    with monkeypatch.context() as hurried:
        hurried.setattr(far_shell, "_START_S", 3.0)
        with pytest.raises(TransportError, match="gives no shell") as caught:
            clusters.connect("far", "me", PATIENCE_S)
    assert "exec another program" in str(caught.value.hint)
    assert caught.value.detail is None
    sshd.account.write(".bashrc", "")
    assert clusters.connect("far", "me", PATIENCE_S).state is ConnectionState.OPEN


def test_a_connection_that_stands_is_kept_whatever_the_configuration_says_by_now(
    clusters: Clusters, sshd: Sshd, ssh_config: Path, tmp_path: Path
) -> None:
    write_profile(tmp_path / "config", "far", {"host": "far"})
    ssh_config.write_text(sshd.stanza("far"))
    clusters.connect("far", "me", PATIENCE_S)
    access = clusters.named("far").access
    ssh_config.write_text("Host far\n  HostName 127.0.0.1\n  Port 1\n")
    clusters.connect("far", "me", PATIENCE_S)
    assert clusters.named("far").access is access


@pytest.mark.parametrize(("change", "kept"), [({"poll_s": 3.0}, True), ({"port": 1}, False)])
def test_a_changed_profile_keeps_the_login_where_the_way_is_the_same(
    clusters: Clusters,
    sshd: Sshd,
    ssh_config: Path,
    tmp_path: Path,
    change: dict[str, float],
    kept: bool,
) -> None:
    write_profile(tmp_path / "config", "far", {"host": "far"})
    ssh_config.write_text(sshd.stanza("far"))
    clusters.connect("far", "me", PATIENCE_S)
    old = clusters.named("far").access.connection
    assert old is not None
    write_profile(tmp_path / "config", "far", {"host": "far"} | change)
    assert (clusters.named("far").access.connection is old) is kept
    assert (old.state is ConnectionState.OPEN) is kept


def test_who_has_read_an_older_profile_does_not_bring_it_back(
    clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_profile(tmp_path / "config", "here", {"poll_s": 2.0})
    load = clusters._profiles.load

    def changed_meanwhile() -> Profiles:
        monkeypatch.setattr(clusters._profiles, "load", load)
        old = load()
        write_profile(tmp_path / "config", "here", {"poll_s": 3.0})
        clusters.named("here")  # another thread's, which is quicker
        return old

    monkeypatch.setattr(clusters._profiles, "load", changed_meanwhile)
    assert clusters.named("here").profile.poll_s == 3.0


def test_who_holds_a_cluster_of_before_has_the_one_of_now_watched(
    clusters: Clusters, tmp_path: Path
) -> None:
    write_profile(tmp_path / "config", "here", {"poll_s": 2.0})
    old = clusters.named("here")
    write_profile(tmp_path / "config", "here", {"poll_s": 3.0})
    new = clusters.named("here")
    assert clusters.watch(old)._cluster is new


def test_a_person_who_disconnects_is_not_reconnected_behind_their_back(
    clusters: Clusters, sshd: Sshd, ssh_config: Path, tmp_path: Path
) -> None:
    write_profile(tmp_path / "config", "far", {"host": "far"})
    ssh_config.write_text(sshd.stanza("far"))
    clusters.connect("far", "me", PATIENCE_S)
    assert clusters.disconnect("far").state is ConnectionState.LOGIN_NEEDED
    with pytest.raises(TransportError, match="log in"):
        clusters.named("far").transport.run(["true"])
    assert clusters.connect("far", "me", PATIENCE_S).state is ConnectionState.OPEN
    assert clusters.named("far").transport.run(["true"])


def test_who_waits_for_news_hears_of_a_new_cluster_once_anybody_lists_the_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    book = Book(Store(tmp_path / "store"))
    clusters = Clusters(book)
    nobody: Any = None
    actions = Actions(book, clusters, nobody)
    cursor = changes(book, clusters, actions).cursor
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(changes, book, clusters, actions, cursor, 2 * PATIENCE_S)
        wait_until(waiting.running)
        write_profile(tmp_path / "config", "new", {"runtime": "none"})
        assert [one.name for one in clusters.listed()] == ["new"]
        found = waiting.result(PATIENCE_S)
    assert [one.cluster for one in found.connections or ()] == ["new"]
    clusters.close()
