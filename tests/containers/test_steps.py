"""The two forms of a recipe's steps; the shell is asked what it makes of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from jupyter_slurm.containers.steps import (
    Copy,
    Enter,
    Run,
    Set,
    Step,
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
        ["sh", "-c", as_script(_STEPS, "")],
        env={"OUT": str(out), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        check=True,
    )
    assert out.read_text().splitlines() == [
        f"it is, {tmp_path}",
        str(tmp_path / "my folder"),
        'a"b',
    ]


def test_a_script_copies_as_a_dockerfile_does(tmp_path: Path) -> None:
    files, image = tmp_path / "the files", tmp_path / "image"
    (files / "code" / "lib").mkdir(parents=True)
    for name in ("a b", "-c", "code/main", "code/lib/.it"):
        (files / name).write_text(name)
    (image / "there").mkdir(parents=True)
    steps: list[Step] = [
        Enter("image"),
        Set("V", "'v w'"),
        Copy(("a b",), "as/it"),
        Copy(("a b",), "into/"),
        Copy(("a b",), "there"),
        Copy(("a b", "-c"), '"$V"'),
        Copy(("code",), "deep/code"),
        Copy(("code",), "."),
    ]
    script = as_script(steps, str(files))
    for shell in ("dash", "bash"):
        subprocess.run([shell, "-c", script], cwd=tmp_path, check=True)
    found = {
        str(one.relative_to(image)): one.read_text() for one in image.rglob("*") if one.is_file()
    }
    assert found == {
        "as/it": "a b",
        "into/a b": "a b",
        "there/a b": "a b",
        "v w/a b": "a b",
        "v w/-c": "-c",
        "deep/code/main": "code/main",
        "deep/code/lib/.it": "code/lib/.it",
        "main": "code/main",
        "lib/.it": "code/lib/.it",
    }
    missing = as_script([Copy(("nothing",), "x"), Run("touch gone-on")], str(files))
    done = subprocess.run(["sh", "-c", missing], cwd=tmp_path, check=False, capture_output=True)
    assert (done.returncode != 0, (tmp_path / "gone-on").exists()) == (True, False)


def test_a_step_that_fails_ends_the_script(tmp_path: Path) -> None:
    text = as_script([Run("false\ntouch gone-on"), Run("touch gone-on")], "")
    done = subprocess.run(["sh", "-c", text], cwd=tmp_path, check=False)
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])


def test_a_dockerfile_has_each_command_as_json() -> None:
    first, second = as_dockerfile("ubuntu:22.04", [Run('echo "$HOME" \\\nx')]).splitlines()
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
