"""Cancelling, holding, releasing and requeuing many jobs on a real Slurm, and thousands on a fake
Slurm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.control import JobControl
from jupyter_slurm.jobs.records.registry import JobRegistry, Record, Store
from jupyter_slurm.jobs.submission.options import comment_token
from jupyter_slurm.jobs.watching.watcher import Watch
from jupyter_slurm.slurm import squeue
from jupyter_slurm.wire import JobState
from tests.jobs.conftest import Site, spec
from tests.jobs.records.test_registry import record
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0
MANY = 5_000


class FakeSite:
    """Many jobs, every hundredth of them running, and a fake Slurm that records commands."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, count: int = MANY) -> None:
        self.saved: list[Record] = []
        for save in ("save", "save_synced"):  # this creates no file for each job
            monkeypatch.setattr(Store, save, lambda _, one: self.saved.append(one))
        self.registry = JobRegistry(Store(folder))
        self.asked: list[list[str]] = []
        self.ids = [f"{number:08}" for number in range(1, count + 1)]
        for job_id in self.ids:
            state = JobState.RUNNING if job_id.endswith("00") else JobState.PENDING
            told = {"slurm_id": str(int(job_id)), "submitted_s": 1.0, "state": state}
            self.registry.add(record(job_id, **told))
        monkeypatch.setattr(squeue, "parse", lambda _: list(map(self.row, self.ids)))
        transport = SimpleNamespace(user=lambda: "alice")
        access = SimpleNamespace(connection=None)
        storage = SimpleNamespace(erased_s=lambda *_: None)
        profile = SimpleNamespace(poll_s=0.0, exit_grace_s=0.0, storage=storage)
        what = SimpleNamespace(
            name="c", transport=transport, access=access, profile=profile, ask=self.ask
        )
        self.cluster = cast("SlurmCluster", what)
        self.watch = Watch(self.registry, self.cluster)
        self.watch.ask_now = lambda: None  # type: ignore[method-assign]
        clusters: Any = SimpleNamespace(named=lambda _: what, watch=lambda _: self.watch)
        unused: Any = None
        self.control = JobControl(self.registry, clusters, unused, unused, unused)

    def row(self, job_id: str, **fields: object) -> Any:
        state = self.registry.job(job_id).state.value
        told = {"slurm_id": str(int(job_id)), "array_job_id": None, "state": state}
        told["whole_id"] = told["slurm_id"]
        return SimpleNamespace(**told, comment=comment_token(job_id), name="n", **fields)

    def ask(self, argv: Sequence[str]) -> bytes:
        self.asked.append([*argv])
        return b""


def test_cancelling_5000_jobs_takes_one_listing_and_ten_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeSite(tmp_path, monkeypatch)
    assert fake.control.control_jobs("cancel", fake.ids) == []
    assert [argv[0] for argv in fake.asked] == ["squeue", *["scancel"] * 10]
    named = [slurm_id for _, *ids in fake.asked[1:] for slurm_id in ids]
    assert sorted(map(int, named)) == [*range(1, MANY + 1)]
    assert {one[-2:] for one in named[-MANY // 100 :]} == {"00"}
    events = fake.registry.record(fake.ids[0]).events
    assert events[-1].text == "Cancellation requested."
    # When waiting jobs end, no further commands or reads follow.
    for job_id in fake.ids[:99]:
        row = fake.row(job_id, nodelist=None, end_s=9.0)
        row.state = "CANCELLED"
        fake.watch.settle(fake.registry.job(job_id), row)
        job = fake.registry.job(job_id)
        assert (job.state, job.why) == (
            JobState.CANCELLED,
            "Cancelled by you before it started.",
        )
    assert len(fake.asked) == 11
    assert not fake.watch._files_wake.is_set(), "the other files are not read once"


@pytest.mark.parametrize("verb", ["hold", "release", "requeue"])
def test_hold_release_and_requeue_change_500_jobs_per_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Any
) -> None:
    fake = FakeSite(tmp_path, monkeypatch, count=501)
    assert fake.control.control_jobs(verb, fake.ids) == []
    assert [argv[:2] for argv in fake.asked[1:]] == [["scontrol", verb]] * 2
    assert len(fake.asked[1][2].split(",")) == 500


def test_invalid_ids_have_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSite(tmp_path, monkeypatch, count=1)
    with pytest.raises(RequestError, match="--user=alice"):
        fake.control.control_jobs("cancel", fake.ids, ["--user=alice"])
    assert fake.asked == []
    [refusal] = fake.control.control_jobs("hold", ["nojob"], ["7_[1-4]"])
    assert refusal.job == "nojob"
    assert fake.asked[1:] == [["scontrol", "hold", "7_[1-4]"]]


# --- on a real Slurm ---


@pytest.fixture
def commands(site: Site) -> Callable[[str], int]:
    """Count the runs of a command on the cluster."""

    def count(name: str) -> int:
        return site.service.status().commands.get(f"{site.cluster.name} {name}", 0)

    return count


def test_one_scancel_cancels_our_jobs_and_jobs_without_a_record(
    site: Site, commands: Callable[[str], int]
) -> None:
    ours = [site.service.submit(spec("1", options={"hold": ""})).id for _ in range(2)]
    array, alone = (
        site.cluster.submit("--hold", "--output=/dev/null", *options, "--wrap", "true")
        for options in (["--array=1-4"], [])
    )
    before = commands("scancel")
    assert site.service.control_jobs("cancel", ours, [f"{array}_[2-3]", alone]) == []
    assert commands("scancel") == before + 1
    for job_id in ours:
        assert site.wait(job_id).state is JobState.CANCELLED
        assert "Cancelled by you" in str(site.service.job(job_id).why or "")
    left = ("squeue", "-h", "-r", "-o", "%i", "-j", f"{array},{alone}")
    assert set(site.cluster.run(*left).stdout.split()) == {f"{array}_1", f"{array}_4"}
    # An ended job does not affect the others.
    assert site.service.control_jobs("cancel", ours[:1], [alone, array]) == []
    assert site.cluster.run("squeue", "-h", "-o", "%i", "-j", array).stdout == ""


def test_result_of_requeuing_many_jobs_names_the_rejected_job(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)"
    never = site.service.submit(spec(wait, options={"no-requeue": ""})).id
    again = site.service.submit(spec(wait, options={"requeue": ""})).id
    for job_id in (never, again):
        site.wait(job_id, JobState.RUNNING)
    [refusal] = site.service.control_jobs("requeue", [never, again])
    job = site.service.job(never)
    assert (refusal.job, refusal.why) == (job.slurm_id, job.no_requeue)
    wait_until(lambda: site.service.job(again).restarts == 1, PATIENCE_S)
    site.service.control_jobs("cancel", [never, again])
    for job_id in (never, again):
        site.wait(job_id, JobState.CANCELLED)
