"""`%slurm …`, and the magics for Slurm's own commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from IPython.core.error import UsageError

from jupyter_slurm.errors import CommandError, NotFoundError
from jupyter_slurm.magics.commands import COMMANDS
from jupyter_slurm.magics.extension import SLURM_COMMANDS
from jupyter_slurm.magics.table import SlurmText
from jupyter_slurm.wire import (
    CommandOutput,
    LabSpec,
)
from tests.magics.fake import FakeApi
from tests.magics.shell import Shell


def start(shell: Shell, api: FakeApi, code: str = "linger()") -> str:
    shell.run(f"%%slurm --detach --fresh\n{code}")
    return api.jobs()[0].id


def test_jobs_command_lists_our_jobs_and_marks_unfetched_output(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api, "1")
    api.until(lambda a: a.job(job_id).state.final)
    (row,) = shell.table("%slurm jobs").rows
    assert row["ID"] == job_id
    assert "done" in row["State"]
    assert row["Note"] == "not fetched"


def test_cancel_continues_after_an_unknown_job(shell: Shell, api: FakeApi) -> None:
    first, second = start(shell, api), start(shell, api, "linger() # other")
    ran = shell.run(f"%slurm cancel {first} nope {second}")
    assert isinstance(ran.error, NotFoundError)
    assert all(api.job(one).cancel_requested_s for one in (first, second))
    assert api.calls.count("control_jobs") == 1


def test_hold_release_and_forget_act_on_the_job(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api)
    shell.run(f"%slurm hold {job_id}")
    assert api.job(job_id).reason == "JobHeldUser"
    shell.run(f"%slurm release {job_id}")
    assert api.job(job_id).reason is None
    shell.run(f"%slurm forget {job_id}")
    assert api.jobs() == []


def test_forget_command_does_not_delete_unfetched_output(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api, "1")
    api.until(lambda a: a.job(job_id).state.final)
    assert isinstance(shell.run(f"%slurm forget {job_id}").error, UsageError)
    assert [job.id for job in api.jobs()] == [job_id]
    shell.run(f"%slurm forget --yes {job_id}")
    assert api.jobs() == []


def test_lab_name_is_resolved_on_the_current_cluster(shell: Shell, api: FakeApi) -> None:
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
    assert "Start one with `%slurm lab start [OPTIONS]`." in str(
        shell.run("%slurm lab stop x").error
    )


def test_why_command_shows_the_card_with_the_reason(shell: Shell, api: FakeApi) -> None:
    job_id = start(shell, api)
    ran = shell.run(f"%slurm why {job_id}")
    assert "It waits for a node." in ran.last(f"slurm-card-{job_id}").data["text/plain"]


def test_logs_command_shows_the_last_lines_or_writes_a_file(
    shell: Shell, api: FakeApi, tmp_path: Path
) -> None:
    job_id = start(shell, api, "for n in range(100):\n    print('line', n)")
    api.until(lambda a: a.job(job_id).state.final)
    assert shell.run(f"%slurm logs {job_id} -n 2").out == "line 98\nline 99\n"
    path = tmp_path / "a log.txt"
    shell.run(f"%slurm logs {job_id} --to '{path}'")
    assert len(path.read_text().splitlines()) == 100


def test_logs_command_limits_output_in_the_notebook(shell: Shell, api: FakeApi) -> None:
    shell.state.settings.output_limit_bytes = 1000
    job_id = start(shell, api, "for n in range(1000):\n    print('line', n)")
    api.until(lambda a: a.job(job_id).state.final)
    ran = shell.run(f"%slurm logs {job_id}")
    assert len(ran.out) <= 1001
    assert ran.out.endswith("line 999\n")
    assert "--to FILE" in ran.err


def test_queue_info_clusters_and_doctor_commands_show_the_cluster(shell: Shell) -> None:
    assert shell.table("%slurm queue").rows[0]["Note"] == "It waits for free nodes."
    assert shell.table("%slurm info").rows[0]["Partition"] == "gpu (default)"
    assert shell.table("%slurm clusters").rows[0]["Cluster"] == "fake (default)"
    assert shell.run("%slurm doctor").out == "✔ fake answers.\n✖ No GPUs.\n    Request one.\n"
    for line in ("%slurm doctor other", "%slurm doctor --cluster other"):
        assert shell.run(line).out.startswith("✔ other answers.\n")


def test_slurm_use_applies_to_later_lines(shell: Shell, api: FakeApi) -> None:
    shell.run("%slurm use other --gpus 2")
    start(shell, api)
    (spec,) = api.specs.values()
    assert (spec.cluster, spec.options) == ("other", {"gpus": "2"})


def test_slurm_command_runs_unchanged_and_returns_a_table(shell: Shell, api: FakeApi) -> None:
    api.command_output = CommandOutput(argv=(), returncode=0, stdout="A|B\n1|2\n", stderr="")
    ran = shell.run("%squeue -o '%i|%j %T' --me")
    assert api.calls == ["squeue -o %i|%j %T --me"]
    assert isinstance(ran.outcome.result, SlurmText)
    assert ran.outcome.result.rows == [{"A": "1", "B": "2"}]


def test_failed_slurm_command_raises_its_error_text(shell: Shell, api: FakeApi) -> None:
    api.command_output = CommandOutput(
        argv=(), returncode=1, stdout="", stderr="scontrol: error: Invalid job id specified\n"
    )
    error = shell.run("%scontrol show job 1").error
    assert isinstance(error, CommandError)
    assert "Invalid job id specified" in str(error)


def test_help_lists_every_command_and_its_options(shell: Shell) -> None:
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
    """Return the text of `name?`."""
    return str(shell.ip.object_inspect_mime(name)["text/plain"])


def test_loading_the_extension_imports_few_modules() -> None:
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


def test_shell_in_a_notebook_prints_the_terminal_command(shell: Shell, api: FakeApi) -> None:
    ran = shell.run("%slurm shell --gpus 1 --name look -- top -d 1")
    assert "`jupyter slurm shell --gpus 1 --name look -- top -d 1`" in ran.out
    ran = shell.run("%slurm shell --job abcdefgh --node n2")
    assert "`jupyter slurm shell --job abcdefgh --node n2`" in ran.out
    assert api.jobs() == []
