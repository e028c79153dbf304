"""Jobs with an image's own program, run by a shell. `test_own_program_real.py` uses the real
tools."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jupyter_slurm.containers import RUNTIMES, Box
from jupyter_slurm.containers.own_program import NONE_NAMED, by_script
from jupyter_slurm.containers.runtime import launch_own
from jupyter_slurm.errors import RequestError

HOSTILE = ["a b", "$(x)`y`", "quo'te\"d", "-n", "new\nline", "é…", "a\\b", ""]


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program, *words = by_script(str(script), arguments)
    assert program == "/bin/sh"
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, cwd="/")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return a path with a space and a quote, without creating the file."""
    return tmp_path / "it's own"


def test_arguments_reach_a_shell_script_unchanged(script: Path) -> None:
    """The script is like enroot's /etc/rc."""
    script.write_text('printf "%s\\0" "$@"\n')
    assert run(script, *HOSTILE).stdout == "".join(f"{word}\0" for word in HOSTILE)


def test_image_without_a_program_is_reported(script: Path) -> None:
    done = run(script)
    assert (done.returncode, done.stderr) == (127, f"{NONE_NAMED}\n")


@pytest.mark.parametrize("name", ["none", "charliecloud"])
def test_runtime_without_image_programs_is_rejected_with_a_hint(name: str) -> None:
    box = Box(job_dir="/j", image=None if name == "none" else "/images/a")
    with pytest.raises(RequestError, match=f"The runtime {name} cannot run") as caught:
        launch_own(RUNTIMES[name], ["a"], box)
    assert "starts with `#!`" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("apptainer", "/.singularity.d/runscript"),
        ("singularity", "/.singularity.d/runscript"),
        ("pyxis", "/etc/rc"),
        ("enroot", "/etc/rc"),
    ],
)
def test_image_program_is_run_by_the_images_script(name: str, script: str) -> None:
    launch = launch_own(RUNTIMES[name], ["a b"], Box(job_dir="/j", image="/images/a"))
    assert launch.argv[-2:] == (script, "a b")
    assert launch.pid_file == RUNTIMES[name].launch(["a"], Box("/j", "/images/a")).pid_file
