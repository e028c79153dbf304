"""Those who look at a real cluster's queue and nodes: how often Slurm is asked, what they see."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_slurm.wire import JobKind, JobState, Node, NodeChanges, QueueChanges, QueueEntry
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import QUICK, Site, spec
from tests.ssh.profile import SshSlurm
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


def seen(site: Site, true: Callable[[dict[str, QueueEntry]], bool]) -> dict[str, QueueEntry]:
    """The queue by our ids, once it is so; followed as a page does."""
    entries: dict[str, QueueEntry] = {}
    cursor, give_up_s = "", time.monotonic() + PATIENCE_S
    while True:
        told = site.service.queue_changes(None, cursor, PATIENCE_S)
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

    with ThreadPoolExecutor(count) as pool:
        looks = [pool.submit(look, number % 2 == 1) for number in range(count)]
        try:
            yield
        finally:
            over.set()
        for one in looks:
            one.result()


# --- how often Slurm is asked ---
def test_squeue_is_run_once_an_interval_however_many_look(site: Site) -> None:
    job_id = sleeper(site)
    with lookers(site, 20):
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
