import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.slurm import squeue
from jupyter_slurm.slurm.fields import FIELD_END, RECORD_END
from jupyter_slurm.slurm.reasons import explain
from tests.slurm.recorded import RELEASES, job_id, output


def rows(release: str, name: str = "squeue_mine") -> dict[str, squeue.QueueRow]:
    return {row.slurm_id: row for row in squeue.parse(output(release, name))}


each_release = pytest.mark.parametrize("release", RELEASES)


@each_release
def test_every_job_has_a_row(release: str) -> None:
    found = rows(release)
    assert len(found) == 36
    assert {row.user for row in found.values()} == {"alice"}
    assert all(row.submit_s and row.submit_s > 1.7e9 for row in found.values())
    assert {row.account for row in found.values()} == {"physics"}
    assert {row.qos for row in found.values()} == {"normal", "short", "tiny"}


@each_release
def test_a_running_job_with_gpus(release: str) -> None:
    row = rows(release)[job_id(release, "gpu")]
    assert (row.state, row.reason, row.partition) == ("RUNNING", "None", "gpu")
    assert (row.node_count, row.nodelist, row.batch_host) == (1, "node2", "node2")
    assert (row.limit_s, row.array_job_id, row.array_task_id) == (3600, None, None)
    assert row.elapsed_s is not None
    assert row.left_s == 3600 - row.elapsed_s
    assert row.start_s is not None
    assert row.end_s == row.start_s + 3600
    assert row.gres is not None
    assert row.gres.endswith("gpu:a100:2")


@each_release
def test_names_and_comments_come_back_as_they_were_given(release: str) -> None:
    row = rows(release)[job_id(release, "blank")]
    assert row.name == "blank | pipe\nnewline = x  é✓ JobId=7 Reason=none"
    assert row.comment == "c1\nUserId=root(0) é"
    assert row.state == "COMPLETED"
    running = rows(release)[job_id(release, "running")]
    assert running.name == 'my $HOME "quoted" job'
    assert running.comment == "pipe|tab\tnl\nend"
    assert rows(release)[job_id(release, "gpu")].comment is None


@each_release
def test_tasks_of_an_array_have_their_own_rows_and_raw_ids(release: str) -> None:
    array = job_id(release, "array")
    tasks = [row for row in rows(release).values() if row.array_job_id == array]
    assert {row.slurm_id for row in tasks} == {f"{array}_{index}" for index in range(1, 9)}
    assert {row.array_task_id for row in tasks} == {str(index) for index in range(1, 9)}
    started = [row for row in tasks if row.state == "RUNNING"]
    assert len({row.raw_id for row in started}) == len(started) == 2


@each_release
def test_the_waiting_rest_of_an_array_is_one_row_of_the_whole_queue(release: str) -> None:
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
def test_why_a_job_waits(release: str, case: str, reason: str) -> None:
    row = rows(release)[job_id(release, case)]
    assert (row.state, row.reason) == ("PENDING", reason)
    assert (row.nodelist, row.batch_host) == (None, None)
    assert explain(row.reason).known


@each_release
def test_what_a_job_waits_for(release: str) -> None:
    parent, row = job_id(release, "parent"), rows(release)[job_id(release, "dep")]
    assert row.dependency is not None
    assert row.dependency.startswith(f"afterok:{parent}")
    assert rows(release)[job_id(release, "held")].dependency is None


@pytest.mark.parametrize(
    ("case", "state"),
    [
        ("done", "COMPLETED"),
        ("failed3", "FAILED"),
        ("kill9", "FAILED"),
        ("cancelled", "CANCELLED"),
        ("timeout", "TIMEOUT"),
        ("requeue", "RUNNING"),
    ],
)
@each_release
def test_how_a_job_stands(release: str, case: str, state: str) -> None:
    assert rows(release)[job_id(release, case)].state == state


@each_release
def test_a_limit_of_none_is_none(release: str) -> None:
    assert rows(release)[job_id(release, "toolarge")].limit_s is None
    assert rows(release)[job_id(release, "held")].limit_s == 600


@each_release
def test_jobs_are_found_by_name(release: str) -> None:
    found = rows(release, "squeue_names")
    assert {row.name for row in found.values()} == {"plain", "exit137"}


def test_a_name_with_a_comma_cannot_be_looked_up() -> None:
    with pytest.raises(ValueError, match="comma"):
        squeue.names_argv("alice", ["a,b"])


def test_formats_have_no_widths_and_the_users_texts_last() -> None:
    form = squeue.mine_argv("alice")[-1]
    assert form.endswith(f"%j{FIELD_END}%k{RECORD_END}")
    assert all(len(code) == 2 for code in form.removesuffix(RECORD_END).split(FIELD_END))
    assert "%C" not in form


def printed(row: squeue.QueueRow, template: bytes) -> bytes:
    """The recorded record of that id with another name and comment, as squeue would print it."""
    [record] = [part for part in template.decode().split(RECORD_END)
                if part.strip().startswith(row.slurm_id + FIELD_END)]  # fmt: skip
    values = record.removeprefix("\n").split(FIELD_END)
    values[-2:] = [row.name, row.comment or "(null)"]
    return (FIELD_END.join(values) + RECORD_END + "\n").encode("utf-8", "surrogateescape")


NAMES = st.text(st.characters(exclude_characters=FIELD_END + RECORD_END, codec="utf-8"), min_size=1)
COMMENTS = st.text(st.characters(exclude_characters=RECORD_END, codec="utf-8"), min_size=1)


@given(NAMES, COMMENTS.filter(lambda text: text != "(null)"))
def test_any_name_and_comment_survive_without_harm_to_the_next_row(name: str, comment: str) -> None:
    release = RELEASES[0]
    gpu, held = job_id(release, "gpu"), job_id(release, "held")
    before = rows(release)
    hostile = before[gpu]._replace(name=name, comment=comment)
    text = printed(hostile, output(release, "squeue_mine"))
    text += printed(before[held], output(release, "squeue_mine"))
    assert squeue.parse(text) == [hostile, before[held]]
