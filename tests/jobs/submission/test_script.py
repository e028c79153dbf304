"""The batch script, run by a real bash like slurmd's."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_slurm.jobs.submission.script import ScriptPlan, render_environment, render_script
from tests.ssh.waiting import wait_until

HOSTILE = ['it\'s "my" $HOME', "`id` $(id)", "a\nb", "ünï a\\b"]


def run(
    folder: Path, plan: ScriptPlan, *, attempt: str | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "SLURM_JOB_ID": "4711",
        "SLURMD_NODENAME": "n1",
        **({"SLURM_RESTART_COUNT": attempt} if attempt else {}),
        **(env or {}),
    }
    script = folder / "job.sh"
    script.write_text(render_script(plan))
    return subprocess.run(
        ["/bin/bash", script], env=environment, text=True, capture_output=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / 'it\'s "my" $HOME ünï'
    path.mkdir()
    return path


def read(folder: Path, name: str) -> dict[str, object]:
    found = json.loads((folder / name).read_text())
    assert isinstance(found, dict)
    return found


def test_script_records_start_and_exit_code(folder: Path) -> None:
    done = run(folder, ScriptPlan("t", str(folder), ["sh", "-c", "echo out; echo err >&2; exit 3"]))
    assert done.returncode == 3
    assert read(folder, "exit.0.json")["exit_code"] == 3
    started = read(folder, "started.0.json")
    assert (started["slurm_id"], started["node"]) == ("4711", "n1")
    assert (folder / "log.0").read_text() == "out\nerr\n"
    assert not done.stdout


def test_start_file_has_partition_and_user_without_odd_characters(tmp_path: Path) -> None:
    env = {"SLURM_JOB_PARTITION": "gpu", "SLURM_JOB_USER": 'a"n\\a\n'}
    run(tmp_path, ScriptPlan("t", str(tmp_path), ["true"]), env=env)
    started = read(tmp_path, "started.0.json")
    assert (started["partition"], started["user"]) == ("gpu", "ana")


@pytest.mark.parametrize("word", HOSTILE)
def test_command_arguments_arrive_unchanged(tmp_path: Path, word: str) -> None:
    run(tmp_path, ScriptPlan("t", str(tmp_path), ["printf", "%s", word]))
    assert (tmp_path / "log.0").read_text() == word


@settings(max_examples=25)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50))
def test_environment_values_arrive_unchanged(value: str) -> None:
    text = render_environment({"VALUE": value}) + 'printf %s "$VALUE"'
    done = subprocess.run(["sh"], input=text.encode(), capture_output=True, check=True)
    assert done.stdout == value.encode()


def test_duplicate_of_an_attempt_succeeds_without_running(tmp_path: Path) -> None:
    plan = ScriptPlan("t", str(tmp_path), ["sh", "-c", "echo ran"])
    run(tmp_path, plan)
    twin = run(tmp_path, plan, env={"SLURM_JOB_ID": "4712"})
    assert twin.returncode == 0
    assert (tmp_path / "log.0").read_text() == "ran\n"
    assert read(tmp_path, "started.0.json")["slurm_id"] == "4711"


def test_requeued_job_has_separate_files(tmp_path: Path) -> None:
    plan = ScriptPlan("t", str(tmp_path), ["echo", "{attempt}"])
    run(tmp_path, plan)
    run(tmp_path, plan, attempt="1")
    assert (tmp_path / "log.0").read_text() == "0\n"
    assert (tmp_path / "log.1").read_text() == "1\n"
    assert read(tmp_path, "exit.1.json")["exit_code"] == 0


def test_missing_folder_is_an_error_and_not_a_duplicate(tmp_path: Path) -> None:
    done = run(tmp_path, ScriptPlan("t", str(tmp_path / "gone"), ["true"]))
    assert done.returncode == 74
    assert "cannot write to" in done.stderr


def test_missing_program_exits_with_127(tmp_path: Path) -> None:
    done = run(tmp_path, ScriptPlan("t", str(tmp_path), ["/no/such/program"]))
    assert done.returncode == 127
    assert "/no/such/program: No such file" in (tmp_path / "log.0").read_text()
    assert read(tmp_path, "exit.0.json")["exit_code"] == 127


def test_signal_is_added_to_128_in_the_exit_code(tmp_path: Path) -> None:
    run(tmp_path, ScriptPlan("t", str(tmp_path), ["sh", "-c", "kill -SEGV $$"]))
    assert read(tmp_path, "exit.0.json")["exit_code"] == 128 + signal.SIGSEGV
    # bash must not print messages about lines of this script.
    assert (tmp_path / "log.0").read_text() == ""


Start = Callable[[Path, ScriptPlan], subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Yield a function that starts a script and waits for its program at `ready`."""
    with ExitStack() as stack:

        def begin(folder: Path, plan: ScriptPlan) -> subprocess.Popen[bytes]:
            script = folder / "job.sh"
            script.write_text(render_script(plan))
            env = {"PATH": os.environ["PATH"], "HOME": str(folder), "SLURM_JOB_ID": "1"}
            process = subprocess.Popen(["/bin/bash", script], env=env, start_new_session=True)
            stack.enter_context(process)
            stack.callback(_kill_all_of, process)
            (folder / "ready").read_text()  # this blocks until the program opens it
            return process

        yield begin


def _kill_all_of(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


SAVES = """
trap 'echo saved; exit 7' {name}
echo "$$" >"$1/pid"
echo ready >"$1/ready"
while :; do sleep 0.05; done
"""


@pytest.mark.parametrize(
    ("sent", "asked", "seen"),
    [
        (signal.SIGTERM, None, "TERM"),
        (signal.SIGHUP, ("HUP", "USR1"), "USR1"),
    ],
)
def test_program_gets_the_signal_and_sets_the_exit_code(
    start: Start, tmp_path: Path, sent: signal.Signals, asked: tuple[str, str] | None, seen: str
) -> None:
    os.mkfifo(tmp_path / "ready")
    command = ["bash", "-c", SAVES.format(name=seen), "program", str(tmp_path)]
    process = start(tmp_path, ScriptPlan("t", str(tmp_path), command, signal=asked))
    process.send_signal(sent)
    assert process.wait(timeout=60) == 7
    assert (tmp_path / "log.0").read_text() == "saved\n"
    exit_file = read(tmp_path, "exit.0.json")
    assert exit_file["exit_code"] == 7
    assert exit_file["signal"] == ("TERM" if sent is signal.SIGTERM else "")


def test_processes_of_a_killed_script_are_ended(start: Start, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    command = ["bash", "-c", SAVES.format(name="TERM"), "program", str(tmp_path)]
    process = start(tmp_path, ScriptPlan("t", str(tmp_path), command))
    program = psutil.Process(int((tmp_path / "pid").read_text()))
    process.kill()
    process.wait()
    wait_until(lambda: not program.is_running(), 60)
    assert "saved\n" in (tmp_path / "log.0").read_text()


def test_log_names_failed_module(tmp_path: Path) -> None:
    done = run(tmp_path, ScriptPlan("t", str(tmp_path), ["true"], modules=["no/such module"]))
    assert done.returncode == 66
    assert "no/such module" in (tmp_path / "log.0").read_text()


def test_failed_setup_ends_the_job_before_its_program_starts(tmp_path: Path) -> None:
    plan = ScriptPlan("t", str(tmp_path), ["echo", "ran"], runtime_setup=["echo no >&2; false"])
    assert run(tmp_path, plan).returncode == 66
    assert (tmp_path / "log.0").read_text() == "no\n"
    assert read(tmp_path, "exit.0.json")["exit_code"] == 66


def test_files_are_copied_back_after_any_end_of_the_job(tmp_path: Path) -> None:
    after = f'  echo "$rc" >>{shlex.quote(str(tmp_path / "after"))}'
    plan = ScriptPlan("t", str(tmp_path), ["sh", "-c", "exit 3"], before="ready=1", after=after)
    run(tmp_path, plan)
    run(tmp_path, replace(plan, setup="rc=5; exit 5"), attempt="1")
    assert (tmp_path / "after").read_text() == "3\n5\n"
    assert read(tmp_path, "exit.0.json")["exit_code"] == 3


@pytest.mark.parametrize("login_shell", [True, False])
def test_sweep_task_has_its_own_folder_and_attempts(folder: Path, login_shell: bool) -> None:
    command = ["sh", "-c", 'echo "$0 $1"; exit 3', "{task}", "{attempt}"]
    plan = ScriptPlan("t", str(folder), command, login_shell=login_shell, is_sweep=True)
    script = folder / "job.sh"
    script.write_text(render_script(plan))
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "SLURM_JOB_ID": "4711",
        "SLURMD_NODENAME": "n1",
        "SLURM_ARRAY_TASK_ID": "7",
        "SLURM_RESTART_COUNT": "1",
    }
    for _ in range(2):  # the second is a duplicate and runs nothing
        subprocess.run(["/bin/bash", script, "1000", "2"], env=env, check=False)
    own = folder / "tasks" / "1007"
    assert (own / "log.3").read_text() == "1007 3\n"
    assert read(own, "exit.3.json")["exit_code"] == 3
    assert (folder / "news").read_text() == "1007 3\n1007 3\n"
    assert own.stat().st_mode & 0o777 == 0o700


def test_words_in_braces_stay_unchanged_without_a_sweep(tmp_path: Path) -> None:
    run(tmp_path, ScriptPlan("t", str(tmp_path), ["printf", "%s", "{task}"]))
    assert (tmp_path / "log.0").read_text() == "{task}"
