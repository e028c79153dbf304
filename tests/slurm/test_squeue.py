import pytest

from jupyter_slurm.slurm import squeue
from jupyter_slurm.slurm.reasons import explain
from tests.slurm.recorded import RELEASES, job_id, output


def rows(release: str, name: str = "squeue_mine") -> dict[str, squeue.QueueRow]:
    return {row.slurm_id: row for row in squeue.parse(output(release, name))}


each_release = pytest.mark.parametrize("release", RELEASES)


@each_release
def test_running_gpu_job_is_parsed(release: str) -> None:
    row = rows(release)[job_id(release, "gpu")]
    assert (row.state, row.reason, row.partition) == ("RUNNING", "None", "gpu")
    assert (row.node_count, row.nodelist) == (1, "node2")
    assert (row.limit_s, row.array_job_id, row.array_task_id) == (3600, None, None)
    assert row.start_s is not None
    assert row.end_s == row.start_s + 3600
    assert row.gres is not None
    assert row.gres.endswith("gpu:a100:2")


@each_release
def test_names_and_comments_round_trip(release: str) -> None:
    row = rows(release)[job_id(release, "blank")]
    assert row.name == "blank | pipe\nnewline = x  é✓ JobId=7 Reason=none"
    assert row.comment == "c1\nUserId=root(0) é"
    assert row.state == "COMPLETED"
    running = rows(release)[job_id(release, "running")]
    assert running.name == 'my $HOME "quoted" job'
    assert running.comment == "pipe|tab\tnl\nend"
    assert rows(release)[job_id(release, "gpu")].comment is None


@each_release
def test_array_tasks_have_their_own_rows(release: str) -> None:
    array = job_id(release, "array")
    tasks = [row for row in rows(release).values() if row.array_job_id == array]
    assert {row.slurm_id for row in tasks} == {f"{array}_{index}" for index in range(1, 9)}
    assert {row.array_task_id for row in tasks} == {str(index) for index in range(1, 9)}
    assert len([row for row in tasks if row.state == "RUNNING"]) == 2


@each_release
def test_waiting_tasks_of_an_array_are_one_row(release: str) -> None:
    found = rows(release, "squeue_all")
    array = job_id(release, "array")
    assert found[f"{array}_[3-8%2]"].array_task_id == "3-8%2"
    assert {row.user for row in found.values()} == {"alice", "bob"}
    assert "COMPLETED" not in {row.state for row in found.values()}


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("held", "JobHeldUser"),
        ("dep", "Dependency"),
        ("never", "DependencyNeverSatisfied"),
        ("begin", "BeginTime"),
        ("toolong", "PartitionTimeLimit"),
        ("lic2", "Licenses"),
        ("closed", "PartitionDown"),
        ("qosshort", "QOSMaxWallDurationPerJobLimit"),
        ("qostiny", "QOSMaxCpuPerUserLimit"),
        ("toolarge", "Resources"),
    ],
)
@each_release
def test_waiting_job_has_a_known_reason(release: str, case: str, reason: str) -> None:
    row = rows(release)[job_id(release, case)]
    assert (row.state, row.reason) == ("PENDING", reason)
    assert row.nodelist is None
    assert explain(row.reason).known
