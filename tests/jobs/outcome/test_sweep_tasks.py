"""The tasks of a sweep, judged by their files and Slurm."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.outcome.array_tasks import live_arrays
from jupyter_slurm.jobs.outcome.sweep_tasks import SweepTable, count_failures
from jupyter_slurm.jobs.records.registry import JobRegistry, Record, Store, TaskArray
from jupyter_slurm.slurm.squeue import QueueRow
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.wire import JobKind, JobState
from tests.specs import known

JOB = "aaaaaaaa"
LATER_S = 1_000.0


class Sweep:
    """A sweep of five tasks in two arrays, 0 to 2 and 3 to 4. Slurm is a fake."""

    def __init__(self, folder: Path, **fields: Any) -> None:
        self.folder = folder / "job"
        self.folder.mkdir()
        self.registry = JobRegistry(Store(folder / "store"))
        arrays = (
            TaskArray(token=JOB, tasks="0-2", slurm_id="10", submitted_s=1.0, sbatch_calls=1),
            TaskArray(
                token="bbbbbbbb",
                tasks="3-4",
                offset=3,
                slurm_id="20",
                submitted_s=1.0,
                sbatch_calls=1,
            ),
        )
        told: dict[str, Any] = {
            "state": JobState.PENDING,
            "slurm_id": "10",
            "arrays": ("10", "20"),
            "submitted_s": 1.0,
            "tasks": {"PENDING": "0-4"},
            "job_dir": str(self.folder),
            **fields,
        }
        job = known(id=JOB, kind=JobKind.SWEEP, **told)
        self.registry.add(Record(job=job, spec=None, arrays=arrays))
        self.key = self.registry.store.new_key(JOB)
        self.asked: list[str] = []
        storage = SimpleNamespace(erased_s=lambda *_: None)
        self.profile = SimpleNamespace(lost_after_s=0.0, storage=storage)
        self.table = self.restarted()

    def restarted(self) -> SweepTable:
        cluster = SimpleNamespace(
            name="c",
            profile=self.profile,
            transport=LocalTransport(),
            ask=self.ask,
            cancel=lambda _: self.asked.append("scancel"),
        )
        return SweepTable(self.registry, cast("SlurmCluster", cluster), JOB)

    def ask(self, argv: Sequence[str]) -> bytes:
        self.asked.append(argv[0])
        return b""

    @property
    def tasks(self) -> dict[str, str]:
        return self.registry.job(JOB).tasks

    def write(self, task: int, name: str, text: str) -> None:
        path = self.folder / "tasks" / str(task) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def start(self, task: int, attempt: int = 0) -> None:
        fact = {"slurm_id": str(100 + task), "node": "n1", "time_s": 5}
        self.write(task, f"started.{attempt}.json", json.dumps(fact))
        with (self.folder / "news").open("a") as news:
            news.write(f"{task} {attempt}\n")

    def end(
        self, task: int, attempt: int = 0, exit_code: int = 0, signal: str = "", wrote: bool = False
    ) -> None:
        self.start(task, attempt)
        fact = {"exit_code": exit_code, "signal": signal, "time_s": 7}
        self.write(task, f"exit.{attempt}.json", json.dumps(fact))
        result = {
            "status": "error" if exit_code else "ok",
            "exit_code": exit_code,
            "ename": "ValueError" if exit_code else None,
            "traceback": ["ValueError: no"] if exit_code else [],
            "started_s": 5.0,
            "ended_s": 6.5,
            "peak_rss_mib": 10.0 * task,  # 0 means not measured
            "cpu_s": 1.0,
            "python": [3, 11, 2],
        }
        body = json.dumps(result).encode() + b"\n"
        signature = hmac.new(self.key, body, hashlib.sha256).hexdigest()
        if not signal or wrote:
            self.write(task, f"result.{attempt}.json", f"{signature}\n{body.decode()}")

    def listed(self, **states: str) -> None:
        """List the tasks as squeue does. With `t0="RUNNING"`, task 0 is listed as running."""
        rows = []
        for name, state in states.items():
            task = int(name[1:])
            array, index, token = ("10", task, JOB) if task < 3 else ("20", task - 3, "bbbbbbbb")
            fields = dict.fromkeys(QueueRow._fields)
            told = {
                "slurm_id": f"{array}_{index}",
                "array_job_id": array,
                "array_task_id": str(index),
                "state": state,
                "reason": "Priority" if state == "PENDING" else "None",
                "partition": "p",
                "name": f"n.{token}",
                "comment": f"jslurm:{token}",
                "user": "u",
            }
            rows.append(QueueRow(**cast("Any", {**fields, **told})))
        self.table.listed(rows, LATER_S)


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path)


def test_task_files_report_starts_and_ends(sweep: Sweep) -> None:
    sweep.start(0)
    sweep.end(3)
    sweep.table.news()
    assert sweep.tasks == {"COMPLETED": "3", "PENDING": "1-2,4", "RUNNING": "0"}
    assert sweep.registry.job(JOB).state is JobState.RUNNING
    for task in (0, 1, 2):
        sweep.end(task)
    sweep.end(4, exit_code=1)
    sweep.table.news()
    job = sweep.registry.job(JOB)
    assert (job.state, job.tasks) == (JobState.FAILED, {"COMPLETED": "0-3", "FAILED": "4"})
    told = sweep.table.tasks()
    assert told.nodes == {"n1": "0-4"}
    assert told.elapsed_s == (1.5,) * 5
    assert told.peak_mib == (None, 10.0, 20.0, 30.0, 40.0)
    assert [(one.ename, one.tasks) for one in told.failures] == [("ValueError", "4")]
    assert sweep.asked == []


def test_started_task_has_no_reason_for_waiting(sweep: Sweep) -> None:
    sweep.listed(t0="PENDING", t1="PENDING", t2="PENDING", t3="PENDING", t4="PENDING")
    assert list(sweep.table.tasks().reasons.values()) == ["0-4"]
    sweep.start(1)
    sweep.table.news()
    assert list(sweep.table.tasks().reasons.values()) == ["0,2-4"]


def test_task_end_missing_from_the_news_file_is_read_from_the_listing(sweep: Sweep) -> None:
    sweep.end(1)
    (sweep.folder / "news").unlink()
    sweep.listed(t0="PENDING", t1="COMPLETED", t2="PENDING", t3="PENDING", t4="PENDING")
    assert sweep.tasks == {"COMPLETED": "1", "PENDING": "0,2-4"}


def test_slurm_names_the_cause_of_a_signal(sweep: Sweep) -> None:
    sweep.end(0, exit_code=143, signal="TERM", wrote=True)
    sweep.table.news()
    assert sweep.tasks["RUNNING"] == "0"
    rest = {"t1": "PENDING", "t2": "PENDING", "t3": "PENDING", "t4": "CANCELLED"}
    sweep.listed(t0="TIMEOUT", **rest)
    assert sweep.tasks == {"CANCELLED": "4", "PENDING": "1-3", "TIMEOUT": "0"}
    reasons = sweep.table.tasks().reasons
    assert {"0", "4", "1-3"} <= set(reasons.values())
    assert sweep.table.tasks().failures == (), "the code is not the cause"


def test_unlisted_task_without_files_is_lost(sweep: Sweep) -> None:
    for task in range(4):
        sweep.end(task)
    sweep.table.news()
    sweep.listed(t4="RUNNING")
    sweep.listed()
    assert sweep.tasks == {"COMPLETED": "0-3", "LOST": "4"}
    assert sweep.asked == ["scontrol", "sacct"]
    assert sweep.registry.job(JOB).state is JobState.FAILED


def test_slurm_state_alone_does_not_prove_success(sweep: Sweep) -> None:
    for task in range(4):
        sweep.end(task)
    sweep.profile.lost_after_s = 1e9
    sweep.listed(t4="COMPLETED")
    assert sweep.tasks["RUNNING"] == "4", "its files may still arrive"
    sweep.profile.lost_after_s = 0.0
    sweep.listed(t4="COMPLETED")
    assert sweep.tasks["LOST"] == "4"


def test_message_in_shared_output_applies_to_one_task(sweep: Sweep) -> None:
    for task in (0, 1):
        sweep.start(task)
    said = "slurmstepd: error: StepId=101.batch exceeded memory limit (2 > 1), being killed\n"
    (sweep.folder / "slurm.out").write_text(said)
    rest = {"t2": "PENDING", "t3": "PENDING", "t4": "PENDING"}
    sweep.listed(t0="FAILED", t1="FAILED", **rest)
    assert (sweep.tasks["FAILED"], sweep.tasks["OUT_OF_MEMORY"]) == ("0", "1")


def test_requeued_task_counts_by_its_last_attempt(sweep: Sweep) -> None:
    sweep.end(0, exit_code=143, signal="TERM")
    sweep.end(0, attempt=1)
    sweep.table.news()
    assert sweep.tasks["COMPLETED"] == "0"
    assert sweep.table.attempts(0) == 2
    assert sweep.table.ends()[0].attempt == 1


def test_ends_are_read_again_after_a_restart(sweep: Sweep) -> None:
    sweep.end(0)
    sweep.listed(t1="CANCELLED", t2="PENDING", t3="PENDING", t4="PENDING")
    sweep.table.news()
    before = sweep.table.tasks()
    assert before.states == {"CANCELLED": "1", "COMPLETED": "0", "PENDING": "2-4"}
    ends = sweep.restarted().ends()
    assert {task: end.state for task, end in ends.items()} == {0: "COMPLETED", 1: "CANCELLED"}
    assert ends[0].elapsed_s == 1.5


def test_retried_task_has_no_end_until_it_ends_again(sweep: Sweep) -> None:
    for task in range(5):
        sweep.end(task, exit_code=int(task == 4))
    sweep.table.news()
    record = sweep.registry.record(JOB)
    again = TaskArray(token="cccccccc", tasks="4", offset=3, base=1)
    sweep.registry.note(JOB, arrays=(*record.arrays, again))
    tasks = {"COMPLETED": "0-3", "PENDING": "4"}
    sweep.registry.change(JOB, state=JobState.PENDING, tasks=tasks)
    sweep.table.news()
    assert sweep.tasks == tasks
    assert live_arrays(sweep.registry.record(JOB)) == []
    sweep.end(4, attempt=1)
    sweep.table.news()
    assert sweep.registry.job(JOB).state is JobState.COMPLETED


def test_max_fails_cancels_the_remaining_tasks_once(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, max_fails=2)
    for task in (0, 1):
        sweep.end(task, exit_code=1)
        sweep.table.news()
    sweep.end(2, exit_code=1)
    sweep.table.news()
    assert sweep.asked == ["scancel"]


@pytest.mark.parametrize("text", ['{"lr": ["1", "2"]}', '{"lr": 3}', "[", None])
def test_parameters_are_shown_as_submitted(tmp_path: Path, text: str | None) -> None:
    sweep = Sweep(tmp_path, names_params=("lr",))
    if text is not None:
        (sweep.folder / "params.json").write_text(text)
    known = {"lr": ("1", "2")} if text and "2" in text else {}
    assert sweep.table.tasks().params == known


def test_failures_are_counted_by_state() -> None:
    assert count_failures({"COMPLETED": "0-9", "FAILED": "10"}) == "1 of 11 tasks failed."
    told = count_failures({"COMPLETED": "0", "OUT_OF_MEMORY": "1-2", "CANCELLED": "3"})
    assert told.startswith("3 of 4 tasks failed (")
