"""Those who look at a real cluster's queue and nodes: how often Slurm is asked, what they see."""

from __future__ import annotations

import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.wire import (
    JobKind,
    JobState,
    Node,
    NodeChanges,
    QueueChanges,
    QueueEntry,
)
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import IMPATIENT, QUICK, Site, spec
from tests.ssh.profile import SshSlurm, write_profile
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0
A_MOMENT_S = 1.0
POLL_S = QUICK["poll_s"]

MakeSite = Callable[..., Site]


def sleeper(site: Site) -> str:
    """The id of a job that runs until it is cancelled."""
    asked = spec("#!/bin/sh\nexec sleep 600", kind=JobKind.PROGRAM)
    return site.service.submit(asked).id


def times_run(site: Site, program: str = "squeue") -> int:
    """How often it was run over there."""
    return site.service.status().commands.get(f"{site.cluster.name} {program}", 0)


def seen(
    site: Site, true: Callable[[dict[str, QueueEntry]], bool], *, everyone: bool = False
) -> dict[str, QueueEntry]:
    """The queue by our ids, once it is so; followed as a page does."""
    entries: dict[str, QueueEntry] = {}
    cursor, give_up_s = "", time.monotonic() + PATIENCE_S
    while True:
        told = site.service.queue_changes(None, cursor, PATIENCE_S, everyone)
        entries = _followed({} if told.whole else entries, told)
        by_id = {entry.id: entry for entry in entries.values() if entry.id is not None}
        if true(by_id):
            return by_id
        assert time.monotonic() < give_up_s, told
        cursor = told.cursor


def _followed(entries: dict[str, QueueEntry], told: QueueChanges) -> dict[str, QueueEntry]:
    left = {name: entry for name, entry in entries.items() if name not in told.gone}
    return left | {entry.slurm_id: entry for entry in told.entries}


@contextmanager
def lookers(site: Site, count: int) -> Iterator[None]:
    """So many look at the queue, every other one at everyone's."""
    over = threading.Event()

    def look(everyone: bool) -> None:
        cursor = ""
        while not over.is_set():
            cursor = site.service.queue_changes(None, cursor, POLL_S, everyone).cursor

    with ThreadPoolExecutor(count or 1) as pool:
        looks = [pool.submit(look, number % 2 == 1) for number in range(count)]
        try:
            yield
        finally:
            over.set()
        for one in looks:
            one.result()


# --- how often Slurm is asked ---
@pytest.mark.parametrize("count", [0, 1, 5, 20])
def test_squeue_is_run_once_an_interval_however_many_look(site: Site, count: int) -> None:
    job_id = sleeper(site)
    with lookers(site, count):
        began_s, before = time.monotonic(), times_run(site)
        wait_until(lambda: times_run(site) - before >= 8, PATIENCE_S)
        run, passed_s = times_run(site) - before, time.monotonic() - began_s
    # More at most: one under way, and for the first who looks at all, and at everyone's.
    assert run <= passed_s / POLL_S + 3
    site.service.cancel(job_id)


def test_nobody_who_looks_and_no_job_is_no_squeue_and_no_sinfo(site: Site) -> None:
    site.service.queue_changes(wait_s=PATIENCE_S)
    site.service.node_changes(wait_s=PATIENCE_S)
    cursor = site.service.changes().cursor

    def quiet() -> bool:
        before = times_run(site), times_run(site, "sinfo")
        assert before[0]
        assert before[1]
        site.service.changes(cursor, A_MOMENT_S)
        return (times_run(site), times_run(site, "sinfo")) == before

    wait_until(quiet, PATIENCE_S)


def test_who_looks_and_who_waits_for_a_job_are_told_by_the_same_squeue(site: Site) -> None:
    job_id = sleeper(site)
    found = seen(site, lambda queue: job_id in queue and queue[job_id].state == "RUNNING")
    assert found[job_id].nodes
    assert site.wait(job_id, JobState.RUNNING).state is JobState.RUNNING
    site.service.cancel(job_id)
    seen(site, lambda queue: job_id not in queue)


def test_everyones_queue_has_ours_by_our_ids(site: Site) -> None:
    job_id = sleeper(site)
    seen(site, lambda queue: job_id in queue, everyone=True)
    site.service.cancel(job_id)
    seen(site, lambda queue: job_id not in queue, everyone=True)
    site.wait(job_id)


def test_an_array_that_waits_is_one_row(site: Site) -> None:
    options = {"array": "1-5", "hold": ""}
    job = site.service.submit(spec("#!/bin/sh\n", kind=JobKind.SCRIPT, options=options))
    row = seen(site, lambda queue: job.id in queue)[job.id]
    assert (row.slurm_id, row.array_id) == (f"{job.slurm_id}_[1-5]", job.slurm_id)
    assert row.reason == "JobHeldUser"
    assert row.why == "On hold (by you)."
    wait_until(lambda: site.service.job(job.id).why is not None, PATIENCE_S)
    assert str(site.service.job(job.id).why) == "On hold (by you)."
    site.service.cancel(job.id)
    assert site.wait(job.id).state is JobState.CANCELLED


# --- what goes wrong ---
def test_a_controller_that_is_silent_is_part_of_the_answer(private_site: MakeSite) -> None:
    site = private_site(nodes=1, **IMPATIENT)
    told = site.service.queue_changes(wait_s=PATIENCE_S)
    nodes = site.service.node_changes(wait_s=PATIENCE_S)
    site.cluster.stop_controller()
    silent = site.service.queue_changes(None, told.cursor, PATIENCE_S)
    assert silent.problem is not None
    assert (silent.problem.code, silent.whole, silent.entries) == ("controller", False, ())
    assert silent.asked_s is not None
    no_nodes = site.service.node_changes(None, nodes.cursor, PATIENCE_S)
    assert no_nodes.problem is not None
    assert no_nodes.nodes == nodes.nodes
    site.cluster.cont_controller()
    assert site.service.queue_changes(None, silent.cursor, PATIENCE_S).problem is None


def test_a_cluster_that_is_no_more_is_not_found(site: Site, tmp_path: Path) -> None:
    name = site.cluster.name
    told = site.service.queue_changes(name, wait_s=PATIENCE_S)
    _profile(site, tmp_path).unlink()
    with pytest.raises(NotFoundError, match=name):
        site.service.queue_changes(name, told.cursor)
    with pytest.raises(NotFoundError, match=name):
        site.service.node_changes(name)
    with pytest.raises(NotFoundError, match=name):
        site.service.history(name)


def test_whoever_waits_while_the_profile_changes_begins_anew(site: Site, tmp_path: Path) -> None:
    told = site.service.queue_changes(wait_s=PATIENCE_S)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(site.service.queue_changes, None, told.cursor, PATIENCE_S)
        settings = tomllib.loads(_profile(site, tmp_path).read_text(encoding="utf-8"))
        write_profile(tmp_path / "config", site.cluster.name, {**settings, "poll_s": 0.4})
        site.service.connections()  # whoever asks for the cluster finds it changed
        waiting.result()
    again = site.service.queue_changes(None, told.cursor, PATIENCE_S)
    assert (again.whole, again.problem) == (True, None)


def _profile(site: Site, home: Path) -> Path:
    return home / "config" / "jupyter-slurm" / "clusters.d" / f"{site.cluster.name}.toml"


def test_a_look_does_not_log_in_and_waits_for_who_does(
    slurm_cluster: SlurmCluster,
    ssh_slurm: SshSlurm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(slurm_cluster, tmp_path, monkeypatch, sshd=ssh_slurm.sshd)
    service = site.service
    told = service.queue_changes(wait_s=PATIENCE_S)
    nodes = service.node_changes(wait_s=PATIENCE_S)
    service.disconnect()
    closed = service.queue_changes(None, told.cursor, PATIENCE_S)
    while not _needs_login(closed):  # one had been under way
        closed = service.queue_changes(None, closed.cursor, PATIENCE_S)
    while not _needs_login(nodes):
        nodes = service.node_changes(None, nodes.cursor, PATIENCE_S)
    with ThreadPoolExecutor(2) as pool:
        queue = pool.submit(_until_logged_in, service.queue_changes, closed)
        there = pool.submit(_until_logged_in, service.node_changes, nodes)
        service.connect(wait_s=PATIENCE_S)
        queue.result()
        there.result()
    service.close()


def _until_logged_in(
    look: Callable[[None, str, float], QueueChanges | NodeChanges], told: QueueChanges | NodeChanges
) -> None:
    """As a page looks on: what is old is told again when it was asked for in vain once more."""
    give_up_s = time.monotonic() + PATIENCE_S
    while told.problem is not None:
        assert _needs_login(told)
        assert time.monotonic() < give_up_s, told
        told = look(None, told.cursor, PATIENCE_S)


def _needs_login(told: QueueChanges | NodeChanges) -> bool:
    return told.problem is not None and told.problem.code == "login-needed"


# --- nodes ---
def test_nodes_and_partitions_are_told_whole_whenever_one_changes(private_site: MakeSite) -> None:
    site = private_site(nodes=2)
    told = site.service.node_changes(wait_s=PATIENCE_S)
    assert sorted(node.name for node in told.nodes) == ["n1", "n2"]
    assert {partition.name for partition in told.partitions} >= {"debug"}
    site.cluster.run(
        "scontrol", "update", "nodename=n2", "state=drain", "reason=the disk is bröken"
    )
    node = _node(site, told, "n2", lambda node: node.reason is not None)
    assert (node.state, node.reason) == ("drained", "the disk is bröken")
    assert (node.cpus_used, node.cpus) == (0, told.nodes[1].cpus)


def _node(site: Site, told: NodeChanges, name: str, true: Callable[[Node], bool]) -> Node:
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        [node] = [one for one in told.nodes if one.name == name]
        if true(node):
            return node
        assert time.monotonic() < give_up_s, told
        told = site.service.node_changes(None, told.cursor, PATIENCE_S)
