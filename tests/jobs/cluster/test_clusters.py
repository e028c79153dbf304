"""Connections to clusters: shared, kept while the route is unchanged, and reopened."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jupyter_slurm.errors import TransportError
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.records.changes import changes
from jupyter_slurm.jobs.records.registry import JobRegistry, Store
from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE
from jupyter_slurm.wire import ConnectionState
from tests.ssh.profile import write_profile
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

PATIENCE_S = 120.0


@pytest.fixture
def ssh_config(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty ssh_config."""
    path = tmp_path / "ssh_config"
    path.write_text("")
    monkeypatch.setenv(CONFIG_VARIABLE, str(path))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    return path


@pytest.fixture
def clusters(ssh_config: Path, tmp_path: Path) -> Iterator[Clusters]:
    clusters = Clusters(JobRegistry(Store(tmp_path / "store")))
    yield clusters
    clusters.close()


def test_login_reads_the_current_ssh_config(
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


@pytest.mark.parametrize(("change", "kept"), [({"poll_s": 3.0}, True), ({"port": 1}, False)])
def test_changed_profile_keeps_the_login_if_the_route_is_unchanged(
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


def test_call_does_not_reconnect_after_a_disconnect(
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


def test_new_cluster_wakes_waiting_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    registry = JobRegistry(Store(tmp_path / "store"))
    clusters = Clusters(registry)
    cursor = changes(registry, clusters).cursor
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(changes, registry, clusters, cursor, 2 * PATIENCE_S)
        wait_until(waiting.running)
        write_profile(tmp_path / "config", "new", {"runtime": "none"})
        assert [one.name for one in clusters.listed()] == ["new"]
        found = waiting.result(PATIENCE_S)
    assert [one.cluster for one in found.connections or ()] == ["new"]
    clusters.close()
