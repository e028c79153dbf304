"""The two forms of a recipe's steps; the shell is asked what it makes of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from jupyter_slurm.containers.steps import (
    Enter,
    Run,
    Set,
    as_dockerfile,
    as_script,
    kept_variables,
    script_dockerfile,
)

_STEPS = (
    Set("V", "'it is'", kept=False),
    Set("HERE", '"$V, $PWD"'),
    Enter("'my folder'"),
    Run('cd /\necho "$HERE" >"$OUT"'),
    Run('pwd >>"$OUT"\nfalse && true\necho \'a"b\' >>"$OUT"'),
)


def test_a_script_does_the_steps_in_order_each_in_the_folder_entered(tmp_path: Path) -> None:
    out = tmp_path / "out"
    subprocess.run(
        ["sh", "-c", as_script(_STEPS)],
        env={"OUT": str(out), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        check=True,
    )
    assert out.read_text().splitlines() == [
        f"it is, {tmp_path}",
        str(tmp_path / "my folder"),
        'a"b',
    ]


def test_a_step_that_fails_ends_the_script(tmp_path: Path) -> None:
    text = as_script([Run("false\ntouch gone-on"), Run("touch gone-on")])
    done = subprocess.run(["sh", "-c", text], cwd=tmp_path, check=False)
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])


def test_a_dockerfile_has_each_command_as_json() -> None:
    first, second = as_dockerfile("ubuntu:22.04", ['echo "$HOME" \\\nx']).splitlines()
    assert first == "FROM ubuntu:22.04"
    assert json.loads(second.removeprefix("RUN ")) == [
        "/bin/sh",
        "-c",
        'set -e\necho "$HOME" \\\nx',
    ]


def test_a_script_is_copied_run_and_removed() -> None:
    assert script_dockerfile("x") == (
        "FROM x\n"
        "COPY setup /jupyter-slurm-setup\n"
        'RUN ["/jupyter-slurm-setup"]\n'
        'RUN ["/bin/sh", "-c", "rm -f /jupyter-slurm-setup"]\n'
    )


def test_variables_of_the_making_alone_are_not_kept() -> None:
    assert [one.name for one in kept_variables(_STEPS)] == ["HERE"]
