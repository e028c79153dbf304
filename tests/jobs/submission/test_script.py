"""The batch script, run by a real bash as slurmd would run it."""

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

HOSTILE = [
    "plain",
    "two words",
    "it's",
    'say "hi"',
    "$HOME",
    "`id`",
    "$(id)",
    "a\nb",
    "ünï",
    "a\\b",
]


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


@pytest.fixture(params=["job", "two words", "it's", 'a "b"', "$HOME", "ünï"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / str(request.param)
    path.mkdir()
    return path


def read(folder: Path, name: str) -> dict[str, object]:
    found = json.loads((folder / name).read_text())
    assert isinstance(found, dict)
    return found


def test_a_job_says_that_it_has_started_and_how_it_ended(folder: Path) -> None:
    done = run(folder, ScriptPlan("t", str(folder), ["sh", "-c", "echo out; echo err >&2; exit 3"]))
    assert done.returncode == 3
    assert read(folder, "exit.0.json")["exit_code"] == 3
    started = read(folder, "started.0.json")
    assert (started["slurm_id"], started["node"]) == ("4711", "n1")
    assert (folder / "log.0").read_text() == "out\nerr\n"
    assert not done.stdout


def test_its_two_short_files_take_no_program_of_the_nodes(folder: Path, tmp_path: Path) -> None:
    """Each is milliseconds of every job: but for the claim, there is none to be found here."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "mkdir").symlink_to("/bin/mkdir")
    plan = ScriptPlan("t", str(folder), ["/bin/true"], login_shell=False)
    done = run(folder, plan, env={"PATH": str(programs)})
    assert (done.returncode, (folder / "log.0").read_text()) == (0, "")
    assert read(folder, "exit.0.json")["exit_code"] == 0


@pytest.mark.parametrize("word", HOSTILE)
def test_words_of_the_command_arrive_unchanged(tmp_path: Path, word: str) -> None:
    run(tmp_path, ScriptPlan("t", str(tmp_path), ["printf", "%s", word]))
    assert (tmp_path / "log.0").read_text() == word


@settings(max_examples=25)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50))
def test_environment_values_arrive_unchanged(value: str) -> None:
    text = render_environment({"VALUE": value}) + 'printf %s "$VALUE"'
    done = subprocess.run(["sh"], input=text.encode(), capture_output=True, check=True)
    assert done.stdout == value.encode()


def test_a_second_job_of_the_same_attempt_does_nothing_and_ends_well(tmp_path: Path) -> None:
    plan = ScriptPlan("t", str(tmp_path), ["sh", "-c", "echo ran"])
    run(tmp_path, plan)
    twin = run(tmp_path, plan, env={"SLURM_JOB_ID": "4712"})
    assert twin.returncode == 0
    assert (tmp_path / "log.0").read_text() == "ran\n"
    assert read(tmp_path, "started.0.json")["slurm_id"] == "4711"


def test_a_requeued_job_runs_again_in_files_of_its_own(tmp_path: Path) -> None:
    plan = ScriptPlan("t", str(tmp_path), ["echo", "{attempt}"])
    run(tmp_path, plan)
    run(tmp_path, plan, attempt="1")
    assert (tmp_path / "log.0").read_text() == "0\n"
    assert (tmp_path / "log.1").read_text() == "1\n"
    assert read(tmp_path, "exit.1.json")["exit_code"] == 0


def test_a_folder_that_is_gone_is_an_error_and_not_a_duplicate(tmp_path: Path) -> None:
    done = run(tmp_path, ScriptPlan("t", str(tmp_path / "gone"), ["true"]))
    assert done.returncode == 74
    assert "cannot be written" in done.stderr


def test_a_missing_program_gives_127(tmp_path: Path) -> None:
    done = run(tmp_path, ScriptPlan("t", str(tmp_path), ["/no/such/program"]))
    assert done.returncode == 127
    assert "/no/such/program: No such file" in (tmp_path / "log.0").read_text()
    assert read(tmp_path, "exit.0.json")["exit_code"] == 127


def test_a_program_killed_by_a_signal_gives_128_and_the_signal(tmp_path: Path) -> None:
    run(tmp_path, ScriptPlan("t", str(tmp_path), ["sh", "-c", "kill -SEGV $$"]))
    assert read(tmp_path, "exit.0.json")["exit_code"] == 128 + signal.SIGSEGV
    # No line of this script's, which users have not written.
    assert (tmp_path / "log.0").read_text() == ""


def test_a_poke_in_the_moment_of_the_programs_end_loses_no_exit_code(tmp_path: Path) -> None:
    """Repeated, because bash alone lost the exit code in every third run."""
    pokes = "kill -URG $(ps -o ppid= $PPID) & exit 7"
    for number in range(30):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert run(folder, ScriptPlan("t", str(folder), ["sh", "-c", pokes])).returncode == 7
        assert read(folder, "exit.0.json")["exit_code"] == 7


Start = Callable[[Path, ScriptPlan], subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Runs a script whose program says at `ready` that it has begun; ended with the test."""
    with ExitStack() as stack:

        def begin(folder: Path, plan: ScriptPlan) -> subprocess.Popen[bytes]:
            script = folder / "job.sh"
            script.write_text(render_script(plan))
            env = {"PATH": os.environ["PATH"], "HOME": str(folder), "SLURM_JOB_ID": "1"}
            process = subprocess.Popen(["/bin/bash", script], env=env, start_new_session=True)
            stack.enter_context(process)
            stack.callback(_kill_all_of, process)
            (folder / "ready").read_text()  # opens when the program does
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
        (signal.SIGUSR2, ("USR2", "USR2"), "USR2"),
        (signal.SIGHUP, ("HUP", "USR1"), "USR1"),
    ],
)
def test_signals_reach_the_program_and_its_exit_code_is_kept(
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


def test_a_signal_at_the_very_beginning_reaches_the_program(tmp_path: Path) -> None:
    """When the script has begun it, and has not come to the line that notes its process id."""
    os.mkfifo(tmp_path / "ready")
    command = ["bash", "-c", SAVES.format(name="USR1"), "program", str(tmp_path)]
    at_once = """case $BASH_COMMAND in 'child=$!') cat "$job_dir/ready"; kill -HUP $$ ;; esac"""
    setup = f"trap {shlex.quote(at_once)} DEBUG"
    plan = ScriptPlan("t", str(tmp_path), command, setup=setup, signal=("HUP", "USR1"))
    script = tmp_path / "job.sh"
    script.write_text(render_script(plan))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SLURM_JOB_ID": "1"}
    words = ["timeout", "-s", "KILL", "60", "/bin/bash", str(script)]
    assert subprocess.run(words, env=env, check=False).returncode == 7
    assert (tmp_path / "log.0").read_text() == "ready\nsaved\n"


@pytest.mark.parametrize("minds", ["TERM", "USR1"])
def test_a_signal_to_the_whole_group_ends_program_and_script(
    start: Start, tmp_path: Path, minds: str
) -> None:
    """Time and again: it is a matter of moments what bash hears of first."""
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        os.mkfifo(folder / "ready")
        command = ["bash", "-c", SAVES.format(name=minds), "program", str(folder)]
        process = start(folder, ScriptPlan("t", str(folder), command))
        os.killpg(process.pid, signal.SIGTERM)
        code = process.wait(timeout=60)
        assert code == (7 if minds == "TERM" else 143)
        assert read(folder, "exit.0.json")["exit_code"] == code
        assert ("saved\n" in (folder / "log.0").read_text()) is (minds == "TERM")


@pytest.mark.parametrize("minds", ["TERM", "USR1"])
def test_what_a_killed_script_leaves_is_ended(start: Start, tmp_path: Path, minds: str) -> None:
    """A program that does not mind TERM is killed."""
    os.mkfifo(tmp_path / "ready")
    text = "trap '' TERM; " * (minds != "TERM") + SAVES.format(name=minds)
    command = ["bash", "-c", text, "program", str(tmp_path)]
    process = start(tmp_path, ScriptPlan("t", str(tmp_path), command))
    program = psutil.Process(int((tmp_path / "pid").read_text()))
    process.kill()
    process.wait()
    wait_until(lambda: not program.is_running(), 60)
    assert ("saved\n" in (tmp_path / "log.0").read_text()) is (minds == "TERM")


def test_a_program_that_a_killed_script_knows_by_its_id_alone_is_killed(
    start: Start, tmp_path: Path
) -> None:
    """It is in no group of the script's: a container's may be the child of somebody else."""
    os.mkfifo(tmp_path / "ready")
    text = "trap '' TERM; " + SAVES.format(name="USR1")
    words = shlex.join(["setsid", "bash", "-c", text, "program", str(tmp_path)])
    plan = ScriptPlan("t", str(tmp_path), ["sh", "-c", words], pid_file=f"{tmp_path}/pid")
    process = start(tmp_path, plan)
    program = psutil.Process(int((tmp_path / "pid").read_text()))
    try:
        process.kill()
        process.wait()
        wait_until(lambda: not program.is_running(), 60)
    finally:
        if program.is_running():
            program.kill()


def test_a_module_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, ScriptPlan("t", str(tmp_path), ["true"], modules=["no/such module"]))
    assert done.returncode == 66
    assert "no/such module" in (tmp_path / "log.0").read_text()


def test_a_set_up_that_fails_ends_the_job_before_its_program(tmp_path: Path) -> None:
    plan = ScriptPlan("t", str(tmp_path), ["echo", "ran"], runtime_setup=["echo no >&2; false"])
    assert run(tmp_path, plan).returncode == 66
    assert (tmp_path / "log.0").read_text() == "no\n"
    assert read(tmp_path, "exit.0.json")["exit_code"] == 66


def test_the_script_passes_shellcheck(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(render_script(ScriptPlan("t", "/a b", ["x", "{attempt}"], modules=["m"])))
    # SC1090, SC1091: files of the site; SC2154, SC2034: set in traps.
    done = subprocess.run(
        ["shellcheck", "-S", "warning", "-e", "SC1090,SC1091,SC2154,SC2034", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_no_script_has_line_ends_of_dos_which_sbatch_refuses() -> None:
    plan = ScriptPlan(
        title="t",
        job_dir="/a\r\nb",
        command=["c\r\nd", "{attempt}"],
        modules=["e\r\nf"],
        setup="export G=1\r\nexport H=2\r\n",
        runtime_setup=["mkdir -p -- 'i\r\nj'"],
        pid_file="/k\r\nl",
    )
    script = render_script(plan)
    assert "\r\n" not in script
    checked = subprocess.run(["/bin/bash", "-n"], input=script.encode(), check=False)
    assert checked.returncode == 0


def test_what_brings_files_back_runs_however_the_program_ends(tmp_path: Path) -> None:
    after = f'  echo "$rc" >>{shlex.quote(str(tmp_path / "after"))}'
    plan = ScriptPlan("t", str(tmp_path), ["sh", "-c", "exit 3"], before="ready=1", after=after)
    run(tmp_path, plan)
    run(tmp_path, replace(plan, setup="rc=5; exit 5"), attempt="1")
    assert (tmp_path / "after").read_text() == "3\n5\n"
    assert read(tmp_path, "exit.0.json")["exit_code"] == 3


def test_files_are_in_place_before_the_runtime_is_set_up(tmp_path: Path) -> None:
    plan = ScriptPlan(
        "t", str(tmp_path), ["true"], setup="echo 1", before="echo 2", runtime_setup=["echo 3"]
    )
    run(tmp_path, plan)
    assert (tmp_path / "log.0").read_text() == "1\n2\n3\n"
