"""What each runtime does for a terminal, as text; `test_terminals.py` runs them."""

from __future__ import annotations

import pytest

from jupyter_slurm.containers import RUNTIMES, Box, runtime_named
from jupyter_slurm.containers.runtime import launch_beside, launch_in_terminal

FILE = Box(job_dir="/jobs/abc", image="/images/a.sqfs")
NAME = Box(job_dir="/jobs/abc", image="ubuntu:20.04", env_file="env.sh", workdir="/data")


@pytest.mark.parametrize("name", RUNTIMES)
def test_words_can_be_put_behind_what_leads_into_the_image(name: str) -> None:
    runtime = runtime_named(name)
    box = Box(job_dir="/jobs/abc") if not runtime.takes_image else NAME
    alone = launch_beside(runtime, [], box).argv
    assert launch_beside(runtime, ["prog", "a b"], box).argv == (*alone, "prog", "a b")


def test_a_second_program_does_not_get_the_signals_of_the_first() -> None:
    for name in ("charliecloud", "pyxis", "enroot"):
        runtime = runtime_named(name)
        assert runtime.launch(["prog"], FILE).pid_file == "/jobs/abc/program.pid"
        assert launch_beside(runtime, ["prog"], FILE).pid_file is None
        assert launch_in_terminal(runtime, ["prog"], FILE).pid_file is None


def test_docker_starts_a_container_only_where_the_job_has_none() -> None:
    """A second program's is on another node than that of the job's script."""
    docker = runtime_named("sudo-docker")
    own, second = (
        launch_in_terminal(docker, ["prog"], NAME).argv,
        launch_beside(docker, ["prog"], NAME).argv,
    )
    assert own[4] == second[4] == "/jobs/abc"
    assert own[7:11] == second[7:11] == ("3", "sudo", "-n", "docker")
    assert own[5] == second[6]
    assert own[5].endswith("tail -f /dev/null")
    assert own[6] == second[5] == ""
    assert own[-1] == second[-1] == "prog"
