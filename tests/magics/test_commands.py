"""`%slurm …` and Slurm's own commands."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from IPython.core.error import UsageError

from jupyter_slurm.errors import CommandError, NotFoundError
from jupyter_slurm.job import JobHandle
from jupyter_slurm.magics.commands import COMMANDS
from jupyter_slurm.magics.extension import SLURM_COMMANDS
from jupyter_slurm.magics.table import SlurmText, Table
from jupyter_slurm.wire import (
    CommandOutput,
    JobPriority,
    JobState,
    LabSpec,
    ProgramSpec,
    Quota,
    SessionSpec,
    Spending,
    Spent,
)
from tests.magics.fake import FakeApi
from tests.magics.shell import Shell

SPENT = Spending(
    cluster="",
    since_s=0.0,
    asked_s=1.8e9,
    accounting=True,
    unit="UA",
    spent=(
        Spent(
            account="lab", user="ana", jobs=3, cpu_hours=3, gpu_hours=0, billing_hours=1, unpriced=2
        ),
        Spent(
            account="lab",
            user="",
            jobs=1200,
            cpu_hours=12345.6,
            gpu_hours=0,
            billing_hours=1,
            units=160,
        ),
    ),
    quotas=(Quota(account="lab", user="", tres="cpu", limit_hours=1000, used_hours=250),),
)


def start(shell: Shell, api: FakeApi, code: str = "linger()") -> str:
    shell.run(f"%%slurm --detach --fresh\n{code}")
    return api.jobs()[0].id


def table(shell: Shell, line: str) -> Table:
    shown = shell.run(line).outcome.result
    assert isinstance(shown, Table)
    return shown


def test_jobs_lists_ours_with_what_to_do_about_those_that_ended(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api, "1")
    api.until(lambda a: a.job(job_id).state.final)
    (row,) = table(shell, "%slurm jobs").rows
    assert row["ID"] == job_id
    assert "done" in row["State"]
    assert row["Note"] == "not fetched"


def test_jobs_names_one_way_to_output_that_was_not_fetched(shell: Shell, api: FakeApi) -> None:
    ran, cancelled = start(shell, api, "1"), start(shell, api, "2")
    api.until(lambda a: all(job.state.final for job in a.jobs()))
    api.change(cancelled, state=JobState.CANCELLED, started_s=None)
    told = str(table(shell, "%slurm jobs"))
    assert (told.count("attach"), f"attach {ran}" in told) == (1, True)
    api.change(ran, delivered=True)
    assert "attach" not in str(table(shell, "%slurm jobs"))


def test_jobs_says_why_a_job_was_refused_which_has_no_outcome(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api, "1")
    api.until(lambda a: a.job(job_id).state.final)
    api.change(job_id, state=JobState.REJECTED, why="There is no such partition.")
    (row,) = table(shell, "%slurm jobs").rows
    assert row["Note"] == "There is no such partition."


def test_jobs_says_how_far_an_array_is(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api, "1")
    api.until(lambda a: a.job(job_id).state.final)
    api.change(job_id, state=JobState.RUNNING, tasks={"COMPLETED": "1-3", "RUNNING": "4"})
    (row,) = table(shell, "%slurm jobs").rows
    assert row["Note"] == "3 of 4 done, task 4 running"


def test_the_program_of_an_image_is_run_as_a_cell_is(shell: Shell, api: FakeApi) -> None:
    shell.run("%slurm use fake --time 10m --image other")
    shell.run("rate = 0.1")
    handle = shell.run("%slurm run hello --detach -- {rate} 'a b'").outcome.result
    assert isinstance(handle, JobHandle)
    spec = api.specs[handle.id]
    assert isinstance(spec, ProgramSpec)
    assert (spec.code, spec.image, spec.arguments) == ("", "hello", ("0.1", "a b"))
    assert spec.options == {"time": "00:10:00"}
    api.kill(handle.id, JobState.FAILED, "It has failed.")
    again = shell.run("%slurm run hello --detach").outcome.result
    assert again.id != handle.id
    api.kill(again.id, JobState.FAILED, "It has failed.")
    api.refuse = "There is no such image."
    assert "no such image" in str(shell.run("%slurm run hello").error)


def test_a_wrong_word_gets_the_nearest_right_one(shell: Shell) -> None:
    error = shell.run("%slurm cancle x").error
    assert isinstance(error, UsageError)
    assert "`%slurm cancel`" in str(error)


@pytest.mark.parametrize(
    "line",
    ["cancel", "why", "logs", "use", "jobs x", "attach a b", "logs a -n x", "logs a b", "use nope"],
)
def test_words_that_cannot_be_are_one_line(shell: Shell, line: str) -> None:
    error = shell.run(f"%slurm {line}").error
    assert isinstance(error, UsageError)
    assert "\n" not in str(error)


def test_cancel_takes_several_and_one_that_fails_keeps_none(shell: Shell, api: FakeApi) -> None:
    first, second = start(shell, api), start(shell, api, "linger() # other")
    ran = shell.run(f"%slurm cancel {first} nope {second}")
    assert isinstance(ran.error, NotFoundError)
    assert all(api.job(one).cancel_requested_s for one in (first, second))
    assert api.calls.count("steer_many") == 1


def test_hold_release_and_forget_reach_the_job(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api)
    shell.run(f"%slurm hold {job_id}")
    assert api.job(job_id).reason == "JobHeldUser"
    shell.run(f"%slurm release {job_id}")
    assert api.job(job_id).reason is None
    shell.run(f"%slurm forget {job_id}")
    assert api.jobs() == []


def test_forget_keeps_output_that_was_not_fetched(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api, "1")
    api.until(lambda a: a.job(job_id).state.final)
    assert isinstance(shell.run(f"%slurm forget {job_id}").error, UsageError)
    assert [job.id for job in api.jobs()] == [job_id]
    shell.run(f"%slurm forget --yes {job_id}")
    assert api.jobs() == []


def test_requeue_says_what_it_has_ended(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api)
    api.change(job_id, state=JobState.RUNNING, started_s=time.time() - 3690, nodes=("n1",))
    told = shell.run(f"%slurm requeue {job_id}").out
    assert "its run of 1 h 1 min on n1 was ended" in told
    assert "what it had not saved is lost" in told
    assert told.endswith("it is in the queue again\n")


def test_a_labs_name_means_the_lab_of_the_cluster_that_is_asked_for(
    shell: Shell, api: FakeApi
) -> None:
    here, there = (
        api.submit(LabSpec(name="mine", cluster=cluster)).id for cluster in ("fake", "there")
    )
    error = shell.run("%slurm lab stop mine").error
    assert f"lab {there} on there, lab {here} on fake" in str(error)
    assert "cancel" not in api.calls
    shell.run("%slurm use fake")
    assert here in shell.run("%slurm lab stop mine").out
    assert here in shell.run("%slurm lab extend mine --time +1h").out
    assert there in shell.run("%slurm lab extend mine --cluster there --time +1h").out
    assert there in shell.run(f"%slurm lab stop {there}").out
    assert "`%slurm lab start [OPTIONS]` starts one." in str(shell.run("%slurm lab stop x").error)


def test_why_shows_the_card_with_the_reason(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api)
    ran = shell.run(f"%slurm why {job_id}")
    assert "It waits for a node." in ran.last(f"slurm-card-{job_id}").data["text/plain"]


def test_logs_shows_the_last_lines_or_writes_the_whole(
    shell: Shell, api: FakeApi, tmp_path: Path
) -> None:
    job_id = start(shell, api, "for n in range(100):\n    print('line', n)")
    api.until(lambda a: a.job(job_id).state.final)
    assert shell.run(f"%slurm logs {job_id} -n 2").out == "line 98\nline 99\n"
    path = tmp_path / "a log.txt"
    shell.run(f"%slurm logs {job_id} --to '{path}'")
    assert len(path.read_text().splitlines()) == 100


def test_logs_never_floods_the_notebook(shell: Shell, api: FakeApi) -> None:
    shell.state.settings.output_limit_bytes = 1000
    job_id = start(shell, api, "for n in range(1000):\n    print('line', n)")
    api.until(lambda a: a.job(job_id).state.final)
    ran = shell.run(f"%slurm logs {job_id}")
    assert len(ran.out) <= 1001
    assert ran.out.endswith("line 999\n")
    assert "--to FILE" in ran.err


def test_logs_takes_slurms_number(shell: Shell, api: FakeApi) -> None:
    start(shell, api, "print('hello')")
    api.until(lambda a: a.jobs()[0].state.final)
    old = api.jobs()[0]
    ran = shell.run(f"%slurm logs {old.slurm_id}")
    assert ran.out == "hello\n"
    said = f"{old.slurm_id} was the Slurm id of job {old.id}, "
    assert said in ran.err
    for line in (f"why {old.slurm_id}", f"attach {old.slurm_id}"):
        assert said in shell.run(f"%slurm {line}").err
    assert said in shell.run(f"%slurm cancel {old.slurm_id}").out


def test_queue_info_clusters_and_doctor_tell_what_the_cluster_says(shell: Shell) -> None:
    assert table(shell, "%slurm queue").rows[0]["Node or reason"] == "It waits for free nodes."
    assert table(shell, "%slurm info").rows[0]["Partition"] == "gpu (default)"
    assert table(shell, "%slurm clusters").rows[0]["Cluster"] == "fake (default)"
    assert shell.run("%slurm doctor").out == "✔ fake answers.\n✖ No GPUs.\n  Ask for some.\n"
    for line in ("%slurm doctor other", "%slurm doctor --cluster other"):
        assert shell.run(line).out.startswith("✔ other answers.\n")


def test_use_is_for_every_later_line(shell: Shell, api: FakeApi) -> None:
    shell.run("%slurm use other --gpus 2")
    start(shell, api)
    (spec,) = api.specs.values()
    assert (spec.cluster, spec.options) == ("other", {"gpus": "2"})


def test_in_a_terminal_slurm_alone_is_the_table_of_jobs(terminal: Shell, api: FakeApi) -> None:
    terminal.run("%%slurm\n1")
    assert isinstance(terminal.run("%slurm").outcome.result, Table)


def test_in_a_terminal_the_card_is_printed_at_new_states_only(
    terminal: Shell, api: FakeApi
) -> None:
    ran = terminal.run("%%slurm\nfor n in range(5):\n    print(n)")
    assert ran.out == "0\n1\n2\n3\n4\n"
    assert 1 <= len(ran.shown) <= 2


def test_a_slurm_command_runs_as_written_and_gives_a_table(shell: Shell, api: FakeApi) -> None:
    api.command_output = CommandOutput(argv=(), returncode=0, stdout="A|B\n1|2\n", stderr="")
    ran = shell.run("%squeue -o '%i|%j %T' --me")
    assert api.calls == ["squeue -o %i|%j %T --me"]
    assert isinstance(ran.outcome.result, SlurmText)
    assert ran.outcome.result.rows == [{"A": "1", "B": "2"}]


def test_sprio_alone_shows_my_jobs_and_with_arguments_runs_as_written(
    shell: Shell, api: FakeApi
) -> None:
    api.priority_rows = (
        JobPriority(
            slurm_id="12",
            partition="gpu",
            priority=900,
            before=2,
            waiting=5,
            given={"age": 400.0, "fairshare": 500.4},
            id="abcdefgh",
            name="fit",
        ),
        JobPriority(
            slurm_id="13", partition="gpu", priority=1, before=4, waiting=5, given={"nice": -9}
        ),
    )
    shown = table(shell, "%sprio")
    factors = ("age", "fairshare", "nice")
    assert shown.columns == ("ID", "Slurm", "Name", "Partition", "Priority", *factors, "Before it")
    assert shown.values == (
        ("abcdefgh", "12", "fit", "gpu", "900", "400", "500", "0", "2 of 4"),
        ("", "13", "", "gpu", "1", "0", "0", "-9", "4 of 4"),
    )
    shell.run("%sprio -w")
    assert api.calls == ["sprio -w"]
    assert "your waiting jobs" in asked_about(shell, "%sprio")


def test_what_was_spent_is_a_table_with_what_is_left_below(shell: Shell, api: FakeApi) -> None:
    api.spent = SPENT
    shown = table(shell, "%slurm usage --cluster fake --since 2026-01-31")
    assert shown.columns == ("Account", "Who", "Jobs", "CPU-hours", "GPU-hours", "UA")
    assert shown.values[1] == ("lab", "all who are shown", "1,200", "12,346", "0", "160")
    assert "since 2026-01-31 00:00" in shown.caption
    assert "no price for the partitions of 2 of the jobs" in shown.caption
    assert "Account lab: 750 of 1,000 CPU-hours are left" in shown.caption
    assert "such as 7d" in str(shell.run("%slurm usage --since yesterday").error)
    api.spent = msgspec.structs.replace(SPENT, accounting=False, spent=())
    assert "keeps no accounting" in table(shell, "%slurm usage").caption


def test_why_a_job_has_its_priority_is_said_in_sentences(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api)
    assert shell.run(f"%slurm why {job_id} --priority").out == f"Job {job_id} is next.\n"


def test_a_slurm_command_that_fails_raises_with_slurms_words(shell: Shell, api: FakeApi) -> None:
    api.command_output = CommandOutput(
        argv=(), returncode=1, stdout="", stderr="scontrol: error: Invalid job id specified\n"
    )
    error = shell.run("%scontrol show job 1").error
    assert isinstance(error, CommandError)
    assert "Invalid job id specified" in str(error)


def test_what_a_command_says_beside_its_output_is_shown(shell: Shell, api: FakeApi) -> None:
    api.command_output = CommandOutput(argv=(), returncode=0, stdout="", stderr="warned\n")
    ran = shell.run("%scancel 5")
    assert ran.err == "warned\n"
    assert ran.outcome.result is None


def test_salloc_names_what_is_an_allocation_here(shell: Shell) -> None:
    for line in ("%salloc --nodelist n2", "%slurm salloc --nodelist n2"):
        error = shell.run(line).error
        assert isinstance(error, UsageError)
        assert "%slurm shell OPTIONS" in str(error)
        assert "%slurm session start OPTIONS" in str(error)


def test_help_names_every_word_and_every_option(shell: Shell) -> None:
    told = shell.run("%slurm help").out
    assert [name for name in COMMANDS if f"%slurm {name}" not in told] == []
    cell_help = asked_about(shell, "%%slurm")
    for part in ("--image", "--in NAMES", "-p, --partition", "Examples", "{name}"):
        assert part in cell_help
    assert cell_help.count("    %%slurm") >= 4
    assert "--output" not in cell_help
    for command in SLURM_COMMANDS:
        assert f"%{command}" in asked_about(shell, f"%{command}")
    assert "#SBATCH" in asked_about(shell, "%%sbatch")
    assert "pip install" in asked_about(shell, "%%slurm_image")


def asked_about(shell: Shell, name: str) -> str:
    """What `name?` shows."""
    return str(shell.ip.object_inspect_mime(name)["text/plain"])


def test_loading_imports_what_registers_the_magics_and_no_more() -> None:
    code = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = set(sys.modules)
shell.run_line_magic("load_ext", "jupyter_slurm")
print(*sorted(set(sys.modules) - before))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[-3:] == [
        "jupyter_slurm",
        "jupyter_slurm.magics",
        "jupyter_slurm.magics.extension",
    ]
    assert len(ran.stdout.split()) < 10


def test_loading_twice_keeps_the_session_and_unloading_takes_all_away(shell: Shell) -> None:
    before = shell.state
    shell.run("%load_ext jupyter_slurm")
    shell.run("%reload_ext jupyter_slurm")
    assert shell.ip.find_cell_magic("slurm") is not None
    assert type(shell.state) is type(before)


def test_shell_in_a_notebook_is_what_to_type_in_a_terminal(shell: Shell, api: FakeApi) -> None:
    ran = shell.run("%slurm shell --gpus 1 --name look -- top -d 1")
    assert "`jupyter slurm shell --gpus 1 --name look -- top -d 1`" in ran.out
    ran = shell.run("%slurm shell --job abcdefgh --node n2")
    assert "`jupyter slurm shell --job abcdefgh --node n2`" in ran.out
    assert api.jobs() == []


@pytest.mark.parametrize("line", ["shell --in x", "shell --job", "shell --job a --gpus 1"])
def test_shell_takes_only_what_means_something_for_a_terminal(shell: Shell, line: str) -> None:
    assert isinstance(shell.run(f"%slurm {line}").error, UsageError)


def test_a_session_is_used_and_stopped_on_the_cluster_that_is_named(
    shell: Shell, api: FakeApi
) -> None:
    started = {
        cluster: api.submit(
            SessionSpec(
                id=job_id,
                name="fit",
                idle_s=600,
                cluster=cluster,
                notebook=shell.state.notebook,
            )
        )
        for cluster, job_id in (("fake", "aaaaaaaa"), ("other", "bbbbbbbb"))
    }
    assert isinstance(shell.run("%slurm session use fit").error, UsageError)
    assert "bbbbbbbb" in shell.run("%slurm session use fit --cluster other").out
    assert shell.state.used_session == started["other"].id
    assert isinstance(shell.run("%slurm session stop fit --cluster none").error, NotFoundError)
    shell.run("%slurm session stop fit --cluster fake")
    assert [api.job(job.id).state for job in started.values()] == ["CANCELLED", "RUNNING"]
    shell.run("%slurm session stop --cluster=other")
    assert api.job(started["other"].id).state is JobState.CANCELLED
