import dataclasses

import pytest

from jupyter_slurm.slurm import sacct
from jupyter_slurm.slurm.versions import SlurmVersion, parse_version
from tests.slurm.recorded import RELEASES, job_id, output

each_release = pytest.mark.parametrize("release", RELEASES)


def rows(release: str, case: str) -> list[sacct.AcctRow]:
    wanted = job_id(release, case)
    return [row for row in sacct.parse(output(release, "sacct")) if row.slurm_id == wanted]


def version(release: str) -> SlurmVersion:
    found = parse_version(release)
    assert found is not None
    return found


@each_release
def test_a_job_comes_with_its_steps(release: str) -> None:
    job, *steps = rows(release, "steps")
    assert (job.step, job.state, job.name) == (None, "COMPLETED", "steps")
    assert [step.step for step in steps] == ["batch", "0", "1"]
    assert [step.exit_code for step in steps] == [0, 0, 5]
    assert (job.account, job.qos, job.user, job.nodelist) == ("physics", "normal", "alice", "node1")


@each_release
def test_names_with_newlines_are_put_together_again(release: str) -> None:
    job, batch = rows(release, "blank")
    assert job.name.startswith("blank | pipe\nnewline = x  é")
    assert job.name.endswith(" JobId=7 Reason=none")  # before 24.11 the database lost a character
    assert batch.name == "batch"


def test_old_releases_print_137_as_9_and_new_ones_do_not() -> None:
    printed = {release: rows(release, "exit137")[0].exit_code for release in RELEASES}
    assert printed == {"20.11.4": 9, "22.05.8": 9, "24.11.5": 9, "26.05.5": 137}


@each_release
def test_who_cancelled(release: str) -> None:
    job = rows(release, "cancelled")[0]
    assert (job.state, job.cancelled_by) == ("CANCELLED", 1001)


@each_release
def test_a_requeued_job_has_a_row_for_each_attempt(release: str) -> None:
    attempts = [row for row in rows(release, "requeue") if row.step is None]
    assert len(attempts) == 2
    assert attempts[-1].state == "RUNNING"


@each_release
def test_what_a_job_used_of_what_it_held(release: str) -> None:
    usage = sacct.summarise(rows(release, "memeff"))
    assert usage is not None
    assert (usage.requested_memory_mib, usage.cpus, usage.nodes, usage.gpus) == (2048, 2, 1, 0)
    assert usage.peak_memory_mib is not None
    assert 190 < usage.peak_memory_mib < 400
    assert usage.cpu_efficiency is not None
    assert 0 < usage.cpu_efficiency < 0.5
    assert usage.wait_s is not None
    assert 5 <= usage.wait_s < 60
    assert 3 <= usage.elapsed_s < 20


@each_release
def test_gpus_are_known(release: str) -> None:
    usage = sacct.summarise(rows(release, "gpu"))
    assert usage is not None
    assert usage.gpus == 2


@each_release
def test_a_waiting_job_has_used_nothing(release: str) -> None:
    usage = sacct.summarise(rows(release, "held"))
    assert usage is not None
    assert (usage.elapsed_s, usage.wait_s, usage.cpu_efficiency, usage.peak_memory_mib) == (
        0, None, None, None,
    )  # fmt: skip
    assert usage.requested_memory_mib == 100


@each_release
def test_of_several_attempts_the_last_is_summed_up(release: str) -> None:
    requeued = rows(release, "requeue")
    usage = sacct.summarise(requeued)
    last = [row for row in requeued if row.step is None][-1]
    assert usage is not None
    assert usage.elapsed_s == last.elapsed_s


def test_steps_alone_are_no_job() -> None:
    steps = [row for row in rows(RELEASES[0], "steps") if row.step is not None]
    assert sacct.summarise(steps) is None
    assert sacct.summarise([]) is None


@each_release
def test_requested_memory_is_the_total_in_every_release(release: str) -> None:
    assert rows(release, "memeff")[0].requested_mib == 2048
    assert rows(release, "held")[0].requested_mib == 100


def test_memory_asked_for_by_cpu_is_multiplied() -> None:
    line = output("20.11.4", "sacct").decode().splitlines()
    wanted = f"{job_id('20.11.4', 'twonodes')}\x1f"
    [record] = [text for text in line if text.startswith(wanted)]
    [row] = sacct.parse(record.replace("1048576Kn", "4194304Kc"))
    assert (row.alloc_cpus, row.node_count) == (4, 2)
    assert row.requested_mib == 4 * 4096
    [row] = sacct.parse(record)
    assert row.requested_mib == 2 * 1024


@each_release
def test_jobs_are_found_by_name(release: str) -> None:
    found = sacct.parse(output(release, "sacct_names"))
    assert {row.name for row in found if row.step is None} == {"plain", "exit137"}


@each_release
def test_tasks_of_an_array_keep_their_ids(release: str) -> None:
    array = job_id(release, "array")
    found = [row for row in sacct.parse(output(release, "sacct")) if row.slurm_id == f"{array}_1"]
    assert [row.step for row in found] == [None, "batch"]
    assert found[0].raw_id != array
    assert found[0].limit_s == 600


def test_the_time_does_not_depend_on_the_clusters_time_zone() -> None:
    assert "uts1795200000" in sacct.mine_argv("alice", 1795200000.7)
    with pytest.raises(ValueError, match="comma"):
        sacct.names_argv("alice", ["a,b"], 0)


def test_a_site_without_accounting_is_told_from_a_failure() -> None:
    assert sacct.is_disabled("Slurm accounting storage is disabled\n")
    assert not sacct.is_disabled("sacct: error: Problem talking to the database")


def test_extern_steps_do_not_count_as_work() -> None:
    job, batch = rows(RELEASES[0], "memeff")
    extern = dataclasses.replace(batch, step="extern", cpu_time_s=1e6)
    assert sacct.summarise([job, batch, extern]) == sacct.summarise([job, batch])


def test_what_jobs_have_held_is_asked_for_accounts_or_else_for_oneself() -> None:
    assert "-a -A lab,kurs -S uts12 -o" in " ".join(sacct.spent_argv("ana", ["lab", "kurs"], 12.5))
    assert "-u ana -S uts12 -o" in " ".join(sacct.spent_argv("ana", [], 12.5))


def test_what_jobs_have_held_is_read_of_old_and_new_releases() -> None:
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
