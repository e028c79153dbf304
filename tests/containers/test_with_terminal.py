"""What each runtime does for a terminal, as text; `test_terminals.py` runs them."""

from __future__ import annotations

import pytest

from jupyter_slurm.containers import RUNTIMES, Box, runtime_named
from jupyter_slurm.containers.runtime import launch_beside

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
