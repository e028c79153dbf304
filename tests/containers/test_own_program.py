"""The program that an image itself names, where it is a script: how a recipe writes it, and how a
job finds it. Shells run both here; `test_own_program_real.py` has the tools."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_slurm.containers import RUNTIMES, Box
from jupyter_slurm.containers.dockerfile import steps
from jupyter_slurm.containers.own_program import NONE_NAMED, by_script, written
from jupyter_slurm.containers.runtime import launch_own
from jupyter_slurm.containers.steps import as_script
from jupyter_slurm.errors import RequestError

HOSTILE = ["a b", "$(x)`y`", "quo'te\"d", "-n", "new\nline", "é…", "a\\b", ""]
ENROOT_RC = """mkdir -p "{folder}" 2> /dev/null
cd "{folder}" && unset OLDPWD || exit 1

if [ $# -gt 0 ]; then
    exec {entrypoint} "$@"
else
    exec {entrypoint} {command}
fi
"""
"""As enroot (4.1) writes it for an image that it imports."""

Made = Callable[..., Callable[..., str]]


@pytest.fixture(params=["dash", "bash"])
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The folder that stands for an image, with a blank and a quote in its name."""
    folder = tmp_path / "it's an image"
    folder.mkdir()
    return folder


@pytest.fixture
def made(shell: str, image: Path) -> Made:
    """Build a Dockerfile's lines behind FROM, and return what runs the image's own program."""

    def made(dockerfile: str, run_base: str = "exec") -> Callable[..., str]:
        done = steps(f"FROM base\n{dockerfile}")
        script = image / "own"
        text = as_script(done, "") + written(done, shlex.quote(str(script)), run_base)
        subprocess.run([shell, "-c", text], cwd=image, check=True)

        def run(*arguments: str) -> str:
            program, _, text, *words = by_script(str(script), arguments)
            assert program == "/bin/sh"
            return subprocess.run(
                [shell, "-c", text, *words],
                cwd="/",
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout

        return run

    return made


def told(*words: str) -> str:
    return "".join(f"{word}\0" for word in words)


SAY = '["printf", "%s\\\\0"'


def test_arguments_reach_the_entrypoint_unchanged(made: Made) -> None:
    assert made(f"ENTRYPOINT {SAY}]")(*HOSTILE) == told(*HOSTILE)


def test_the_words_of_cmd_stand_in_for_arguments(made: Made) -> None:
    run = made(f'ENTRYPOINT {SAY}]\nCMD ["a b", "$HOME"]')
    assert run() == told("a b", "$HOME")
    assert run("c") == told("c")


def test_the_last_entrypoint_and_the_last_cmd_count(made: Made) -> None:
    run = made(f'CMD ["old"]\nENTRYPOINT ["false"]\nENTRYPOINT {SAY}]\nCMD ["new"]')
    assert run() == told("new")


def test_a_line_for_a_shell_is_given_to_one(made: Made) -> None:
    assert made("ENTRYPOINT echo 'a  b' $((1 + 1))")() == "a  b 2\n"


def test_the_program_begins_in_the_folder_in_which_the_recipe_ends(made: Made, image: Path) -> None:
    assert made('ENTRYPOINT ["pwd"]')() == f"{image}\n"
    assert made('WORKDIR a\nWORKDIR b\nENTRYPOINT ["pwd"]')() == f"{image}/a/b\n"


@pytest.mark.parametrize("run_base", ["exec", "."])
def test_cmd_alone_goes_to_the_entrypoint_of_the_base(
    made: Made, image: Path, run_base: str
) -> None:
    base = image / "own"
    base.write_text('#!/bin/sh\nexec printf "%s\\0" base "$@"\n')
    base.chmod(0o755)
    run = made('CMD ["a b"]', run_base)
    assert run() == told("base", "a b")
    assert run(*HOSTILE) == told("base", *HOSTILE)


def test_cmd_alone_is_the_program_where_the_base_has_none(made: Made) -> None:
    run = made(f'CMD {SAY}, "a b"]')
    assert run() == told("a b")
    assert run("printf", "b") == "b"


def test_the_folder_of_a_base_of_enroots_does_not_count_once_the_recipe_names_one(
    made: Made, image: Path
) -> None:
    (image / "own").write_text(ENROOT_RC.format(folder="/usr", entrypoint="", command="'false'"))
    assert made('CMD ["pwd"]', ".")() == "/usr\n"
    assert made('WORKDIR there\nCMD ["pwd"]', ".")() == f"{image}/there\n"
    assert made('CMD ["printf", "again"]', ".")() == "again"


def test_a_recipe_that_names_no_program_leaves_the_bases(made: Made, image: Path) -> None:
    (image / "own").write_text("echo base\n")
    assert made("RUN true\nWORKDIR there")() == "base\n"


def test_a_script_of_any_interpreter_is_started(made: Made, image: Path) -> None:
    script = image / "own"
    script.write_text("#!/usr/bin/python3\nimport sys\nprint(sys.argv[1:])\n")
    script.chmod(0o755)
    assert made("RUN true")("a b") == "['a b']\n"


@pytest.mark.parametrize("dockerfile", ["RUN true", "ENTRYPOINT []"])
def test_an_image_that_names_no_program_says_so(
    made: Made, image: Path, shell: str, dockerfile: str
) -> None:
    made(dockerfile)
    _, _, text, *words = by_script(str(image / "own"), ())
    done = subprocess.run(
        [shell, "-c", text, *words], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (127, f"{NONE_NAMED}\n")


@pytest.mark.parametrize("name", ["none", "charliecloud"])
def test_a_tool_that_knows_no_such_program_refuses_and_says_what_to_do(name: str) -> None:
    box = Box(job_dir="/j", image=None if name == "none" else "/images/a")
    with pytest.raises(RequestError, match=f"The runtime {name} does not know") as caught:
        launch_own(RUNTIMES[name], ["a"], box)
    assert "begins with `#!`" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("apptainer", "/.singularity.d/runscript"),
        ("singularity", "/.singularity.d/runscript"),
        ("pyxis", "/etc/rc"),
        ("enroot", "/etc/rc"),
    ],
)
def test_every_other_tool_has_it_in_a_script(name: str, script: str) -> None:
    launch = launch_own(RUNTIMES[name], ["a b"], Box(job_dir="/j", image="/images/a"))
    assert launch.argv[-2:] == (script, "a b")
    assert launch.pid_file == RUNTIMES[name].launch(["a"], Box("/j", "/images/a")).pid_file
