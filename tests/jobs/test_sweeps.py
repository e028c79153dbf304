"""Sweeps on a real Slurm: many tasks, one record, one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy
import pytest

from jupyter_slurm import places
from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from jupyter_slurm.errors import (
    CellFailed,
    RequestError,
    SignatureError,
    SubmitError,
    SweepError,
)
from jupyter_slurm.job import read_outcome
from jupyter_slurm.slurm.units import indices
from jupyter_slurm.variables import write_variables
from jupyter_slurm.wire import After, JobKind, JobSpec, JobState, Stream, SweepJob, SweepSpec
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, over_ssh, spec
from tests.ssh.waiting import wait_until

Rows = list[dict[str, Any]]


def sweep(code: str, params: Sequence[Mapping[str, object]], **changes: Any) -> JobSpec:
    """Return a sweep of these parameters."""
    tasks = f"0-{len(params) - 1}"
    made = spec(code, kind=JobKind.SWEEP, tasks=tasks, names_params=tuple(params[0]), **changes)
    by_task = {str(task): dict(one) for task, one in enumerate(params)}
    path = places.spool_dir() / f"{made.id}.params.vars"
    write_variables(path, tuple(by_task), by_task)
    assert isinstance(made, SweepSpec)
    return msgspec.structs.replace(made, params=str(path))


def table(site: Site, job_id: str) -> tuple[Rows, CellFailed | None]:
    """Return the rows of an ended sweep, and its error."""
    not_come: dict[str, str] = {}
    variables, failed = read_outcome(site.service, site.service.result(job_id), not_come)
    frame: Any = variables["results"]
    assert not not_come
    rows = [{name: frame[name].iloc[at] for name in frame} for at in range(len(frame))]
    return rows, failed


def column(rows: Rows, name: str) -> list[object]:
    return [row[name] for row in rows]


def of_task(site: Site, job_id: str) -> SweepJob:
    job = site.service.job(job_id)
    assert isinstance(job, SweepJob)
    return job


@over_ssh
def test_parameters_arrive_unchanged_and_return_in_a_table(site: Site) -> None:
    values = ['it\'s "my" $HOME `id`', "a\nb\r\n", "Grüße ✓", math.nan, -0.0, None]
    values += [numpy.float32(0.1), numpy.int64(2**40), numpy.array([1, 2])]
    made = sweep("y = x", [{"x": value} for value in values], names_out=("y",))
    job = site.wait(site.service.submit(made).id)
    assert job.state is JobState.COMPLETED, site.service.sweep(job.id)
    rows, failed = table(site, job.id)
    assert failed is None
    assert column(rows, "task") == [*range(len(values))]
    for row, value in zip(rows, values, strict=True):
        for there in (row["x"], row["y"]):
            assert type(there) is type(value)
            assert repr(there) == repr(value)
    assert {*column(rows, "state")} == {"COMPLETED"}
    assert all(row["node"] and row["elapsed_s"] is not None for row in rows)
    assert all(row["peak_mib"] > 0 for row in rows)


def test_array_has_slurms_indices_and_a_log_per_task(site: Site) -> None:
    code = "import os\nindex = int(os.environ['SLURM_ARRAY_TASK_ID'])\nprint('I am', index)"
    made = spec(code, kind=JobKind.SWEEP, tasks="3,5-6", names_out=("index",))
    job = site.wait(site.service.submit(made).id)
    assert isinstance(job, SweepJob)
    assert job.tasks == {"COMPLETED": "3,5-6"}
    assert len(job.arrays) == 1
    rows, failed = table(site, job.id)
    assert (column(rows, "task"), column(rows, "index"), failed) == ([3, 5, 6], [3, 5, 6], None)
    chunk = site.service.logs(job.id, task=5)
    assert [one.text for one in chunk.outputs if isinstance(one, Stream)] == ["I am 5\n"]
    assert site.service.logs(job.id).outputs == ()
    with pytest.raises(RequestError):
        site.service.logs(job.id, task=4)


FAILING = """
import os, time
if how == "raise":
    raise ValueError(how)
if how == "memory" and not os.path.exists(gate):
    data = b"x" * (400 << 20)
    time.sleep(60)
if how == "wait":
    while not os.path.exists(gate):
        time.sleep(0.05)
acc = how
"""


def test_failed_tasks_have_reasons_and_are_retried(site: Site, tmp_path: Path) -> None:
    """One task raises, one uses too much memory, and one is cancelled by its Slurm ID."""
    hows = ["fine"] * 17 + ["raise", "memory", "wait"]
    gate = tmp_path / "gate"
    params = [{"how": how, "gate": str(gate)} for how in hows]
    made = sweep(FAILING, params, names_out=("acc",), options={"mem": "100M"})
    job = site.service.submit(made)
    wait_until(lambda: "19" in site.service.job(job.id).tasks.get("RUNNING", ""))
    site.service.control_jobs("cancel", [], [f"{job.slurm_id}_19"])
    ended = site.wait(job.id)
    assert ended.state is JobState.FAILED
    rows, failed = table(site, job.id)
    assert [row["state"] for row in rows[17:]] == ["FAILED", "OUT_OF_MEMORY", "CANCELLED"]
    assert {row["state"] for row in rows[:17]} == {"COMPLETED"}
    assert all(row["reason"] for row in rows[17:])
    assert column(rows, "acc")[:17] == ["fine"] * 17
    assert isinstance(failed, SweepError)
    assert "3 of 20 tasks" in failed.message
    assert any("ValueError" in line for line in failed.traceback)
    gate.touch()
    again = site.service.retry(job.id, {"mem": "2x"})
    assert not again.state.final
    assert site.wait(job.id).tasks == {"COMPLETED": "0-16,18-19", "FAILED": "17"}
    rows, failed = table(site, job.id)
    assert column(rows, "acc")[:17] == ["fine"] * 17
    assert column(rows, "acc")[18:] == ["memory", "wait"]
    assert failed is not None
    assert "1 of 20 tasks" in failed.message
    arrays = of_task(site, job.id).arrays
    assert len(arrays) == 2
    told = site.cluster.run("scontrol", "show", "job", "-o", arrays[1]).stdout
    assert "200M" in told
    assert site.service.logs(job.id, task=18).outputs is not None


def test_refused_retry_is_an_error_and_can_be_repeated(site: Site) -> None:
    job = site.wait(site.service.submit(sweep("1 / n", [{"n": 0}, {"n": 1}])).id)
    with pytest.raises(SubmitError, match="partition") as refused:
        site.service.retry(job.id, {"partition": "nowhere"})
    assert refused.value.option == "partition"
    ended = site.wait(job.id)
    assert (ended.state, ended.tasks) == (JobState.FAILED, {"COMPLETED": "1", "FAILED": "0"})
    site.service.retry(job.id)
    assert site.wait(job.id).tasks == {"COMPLETED": "1", "FAILED": "0"}
    assert len(of_task(site, job.id).arrays) == 2


def test_retry_multiplies_the_partitions_limit_for_unlisted_tasks(site: Site) -> None:
    job = site.service.submit(sweep("1 / n", [{"n": 0}, {"n": 1}]))
    site.wait(job.id)
    site.service.retry(job.id, {"time": "2x"})
    site.wait(job.id)
    arrays = of_task(site, job.id).arrays
    first, again = (site.cluster.run("scontrol", "show", "job", "-o", one).stdout for one in arrays)
    assert "TimeLimit=01:00:00" in first
    assert "TimeLimit=02:00:00" in again


COUNTED = """
import os, time
def note(word):
    line = f"{i} {word} {time.time()}\\n".encode()
    file = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)
note("begin")
time.sleep(0.3)
note("end")
square = i * i
"""


@pytest.mark.long
def test_limits_split_a_sweep_and_killed_agents_do_not_repeat_tasks(
    agent_home: AgentHome,
    private_cluster: Callable[..., SlurmCluster],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conf = ("MaxArraySize=20", "AccountingStorageEnforce=associations,limits")
    cluster = private_cluster(accounting=True, extra_conf=conf, cpus=16)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", cluster.env["JUPYTER_CONFIG_DIR"])
    user = cluster.run("id", "-un").stdout.strip()
    cluster.run("sacctmgr", "-i", "modify", "user", user, "set", "MaxSubmitJobs=30")
    profile = cluster.profile_path.read_text(encoding="utf-8")
    quick = "lookup_gap_s = 1.0\nlost_after_s = 4.0\n[env]"
    cluster.profile_path.write_text(profile.replace("[env]", quick, 1), encoding="utf-8")
    api = AgentClient(agent_home.socket, COMMAND)
    notes = agent_home.folder / "notes"
    params = [{"i": i, "notes": str(notes)} for i in range(100)]
    job = api.submit(sweep(COUNTED, params, names_out=("square",), max_running=8))

    def done() -> int:
        return len(indices(api.job(job.id).tasks.get("COMPLETED")))

    wait_until(lambda: done() > 10)
    agent_home.kill()
    wait_until(lambda: done() > 40)
    agent_home.kill()
    wait_until(lambda: done() > 60)
    cluster.stop_controller()
    agent_home.kill()
    assert api.job(job.id).state is JobState.RUNNING
    cluster.cont_controller()
    wait_until(lambda: api.job(job.id).state.final, 240)
    calls = api.status().commands
    ended = api.job(job.id)
    assert isinstance(ended, SweepJob)
    assert ended.tasks == {"COMPLETED": "0-99"}
    assert set(ended.offsets.values()) == {20, 40, 60, 80}
    lines = [line.split() for line in notes.read_text().splitlines()]
    assert sorted(int(i) for i, word, _ in lines if word == "begin") == [*range(100)]
    running = most = 0
    for _, word, _ in sorted(lines, key=lambda one: float(one[2])):
        running += 1 if word == "begin" else -1
        most = max(most, running)
    assert 1 < most <= 8
    assert calls.get("local sbatch", 0) < 20
    variables, failed = read_outcome(api, api.result(job.id), {})
    frame: Any = variables["results"]
    assert failed is None
    assert frame["square"].tolist() == [i * i for i in range(100)]


def test_cancelled_sweep_ends_with_all_tasks_cancelled(site: Site) -> None:
    made = sweep("import time; time.sleep(600)", [{"i": i} for i in range(50)], max_running=2)
    job = site.service.submit(made)
    site.wait(job.id, JobState.RUNNING)
    site.service.cancel(job.id)
    ended = site.wait(job.id)
    assert ended.state is JobState.CANCELLED
    assert ended.tasks == {"CANCELLED": "0-49"}


def test_max_fails_cancels_the_remaining_tasks(site: Site) -> None:
    made = sweep("1 / 0", [{"i": i} for i in range(40)], max_running=2, max_fails=3)
    ended = site.wait(site.service.submit(made).id)
    assert ended.state is JobState.FAILED
    failed, cancelled = (len(indices(ended.tasks.get(s))) for s in ("FAILED", "CANCELLED"))
    assert 3 <= failed < 20
    assert failed + cancelled == 40


def test_requeued_task_counts_once_by_its_last_attempt(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    code = (
        "import os, time\n"
        "attempt = os.environ.get('SLURM_RESTART_COUNT', '0')\n"
        f"while i == 1 and not os.path.exists({str(gate)!r}): time.sleep(0.05)"
    )
    made = sweep(
        code, [{"i": i} for i in range(3)], names_out=("attempt",), options={"requeue": ""}
    )
    job = site.service.submit(made)
    wait_until(lambda: site.service.job(job.id).tasks == {"COMPLETED": "0,2", "RUNNING": "1"})
    site.service.control_jobs("requeue", [], [f"{job.slurm_id}_1"])
    folder = Path(site.service.job(job.id).job_dir, "tasks", "1")
    wait_until((folder / "started.1.json").exists)
    gate.touch()
    ended = site.wait(job.id, limit_s=240)
    assert ended.tasks == {"COMPLETED": "0-2"}
    assert column(table(site, job.id)[0], "attempt") == ["0", "1", "0"]


def test_table_is_complete_after_a_restart_of_the_agent(site: Site) -> None:
    made = sweep("y = i", [{"i": i} for i in range(5)], names_out=("y",))
    job = site.wait(site.service.submit(made).id)
    site.restart()
    rows, failed = table(site, job.id)
    assert (column(rows, "y"), failed) == ([*range(5)], None)
    assert all(row["elapsed_s"] is not None for row in rows)


def test_changed_parameters_in_the_folder_are_rejected(site: Site) -> None:
    made = sweep("1", [{"i": i} for i in range(2)])
    job = site.wait(site.service.submit(made).id)
    path = Path(job.job_dir, "params.vars")
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(SignatureError):
        site.service.result(job.id)


def test_sweep_is_found_again_by_its_parameters(site: Site) -> None:
    asked = {"fingerprint": "f", "notebook": "/n.ipynb"}
    made = sweep("1", [{"i": 1}, {"i": 2}], params_digest="a", **asked)
    job = site.service.submit(made)
    again = sweep("1", [{"i": 1}, {"i": 2}], params_digest="a", **asked)
    found = site.service.attachable(again)
    assert found is not None
    assert (found.job.id, found.differs) == (job.id, ())
    other = sweep("1", [{"i": 1}, {"i": 3}], params_digest="b", **asked)
    found = site.service.attachable(other)
    assert found is not None
    assert found.differs == ("in",)
    site.wait(job.id)


def test_sweep_after_a_sweep_starts_task_by_task(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    code = f"import os, time\nwhile i == 1 and not os.path.exists({str(gate)!r}): time.sleep(0.05)"
    params = [{"i": i} for i in range(3)]
    first = site.service.submit(sweep(f"{code}\nassert i < 2", params, name="first"))
    after = (After(job="first"),)
    second = site.service.submit(sweep("1", params, after=after))
    last = site.service.submit(spec("1", after=(After(job=second.id, ends="any"),)))
    wait_until(lambda: "0" in site.service.job(second.id).tasks.get("COMPLETED", ""))
    assert not site.service.job(first.id).state.final
    assert not site.service.job(last.id).state.final
    gate.touch()
    assert site.wait(first.id).tasks == {"COMPLETED": "0-1", "FAILED": "2"}
    assert site.wait(second.id).tasks == {"CANCELLED": "2", "COMPLETED": "0-1"}
    assert site.wait(last.id).state is JobState.COMPLETED
    with pytest.raises(RequestError, match="never start"):
        site.service.submit(spec("1", after=after))
