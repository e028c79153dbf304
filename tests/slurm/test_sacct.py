import pytest

from jupyter_slurm.slurm import sacct
from tests.slurm.recorded import RELEASES, job_id, output

each_release = pytest.mark.parametrize("release", RELEASES)


def rows(release: str, case: str) -> list[sacct.AcctRow]:
    wanted = job_id(release, case)
    return [row for row in sacct.parse(output(release, "sacct")) if row.slurm_id == wanted]


@each_release
def test_steps_of_a_job_are_parsed(release: str) -> None:
    job, *steps = rows(release, "steps")
    assert (job.step, job.state, job.name) == (None, "COMPLETED", "steps")
    assert [step.step for step in steps] == ["batch", "0", "1"]
    assert [step.exit_code for step in steps] == [0, 0, 5]
    assert (job.account, job.qos, job.user, job.nodelist) == ("physics", "normal", "alice", "node1")


@each_release
def test_job_name_with_newlines_is_parsed(release: str) -> None:
    job, batch = rows(release, "blank")
    assert job.name.startswith("blank | pipe\nnewline = x  é")
    assert job.name.endswith(" JobId=7 Reason=none")  # before 24.11 the database lost one character
    assert batch.name == "batch"


@each_release
def test_cancelling_user_is_parsed(release: str) -> None:
    job = rows(release, "cancelled")[0]
    assert (job.state, job.cancelled_by) == ("CANCELLED", 1001)


@each_release
def test_requeued_job_has_a_row_per_attempt(release: str) -> None:
    attempts = [row for row in rows(release, "requeue") if row.step is None]
    assert len(attempts) == 2
    assert attempts[-1].state == "RUNNING"


@each_release
def test_usage_is_summarised(release: str) -> None:
    usage = sacct.summarise(rows(release, "memeff"))
    assert usage is not None
    assert (usage.requested_memory_mib, usage.cpus, usage.gpus) == (2048, 2, 0)
    assert usage.peak_memory_mib is not None
    assert 190 < usage.peak_memory_mib < 400
    assert usage.cpu_efficiency is not None
    assert 0 < usage.cpu_efficiency < 0.5
    assert 3 <= usage.elapsed_s < 20


def test_start_time_is_independent_of_the_time_zone() -> None:
    assert "uts1795200000" in sacct.mine_argv("alice", 1795200000.7)
    with pytest.raises(ValueError, match="comma"):
        sacct.names_argv("alice", ["a,b"], 0)


def test_disabled_accounting_is_not_a_failure() -> None:
    assert sacct.is_disabled("Slurm accounting storage is disabled\n")
    assert not sacct.is_disabled("sacct: error: Problem talking to the database")


def test_spent_resources_are_parsed_in_old_and_new_releases() -> None:
    lines = (
        "ana|lab|gpu|3600|billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=4G,node=1",
        "ana|lab|gpu|0|",
        "bob|lab|cpu|7|cpu=2,mem=4096M,node=1",
    )
    said = "\n".join(lines).replace("|", "\x1f")
    first, waits, old = sacct.parse_spent(said)
    assert (first.tres["gres/gpu"], first.tres["mem"], first.elapsed_s) == (2, 4096, 3600)
    assert (waits.elapsed_s, dict(waits.tres)) == (0, {})
    assert (old.user, old.tres["cpu"]) == ("bob", 2)
