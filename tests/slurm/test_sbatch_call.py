"""The environment of sbatch, which is that of a login with any login shell.

A stand-in for sbatch records its call.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_slurm.slurm import sbatch
from tests.ssh.waiting import wait_until

SBATCH = """#!/usr/bin/python3
import json, os, resource, sys
with open(os.environ["SLURM_CONF"], "w") as file:
    mask = os.umask(0)
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    json.dump({"argv": sys.argv[1:], "env": dict(os.environ), "umask": mask, "stack": stack,
               "cwd": os.getcwd()}, file)
print("the site's own words")
print(os.environ.get("ANSWER", "123"))
print("a warning", file=sys.stderr)
sys.exit(int(os.environ.get("RC", "0")))
"""
WORDS = ["--comment=a 'b' \"c\"\n$HOME !! \\", "--", "job.sh"]
LOUD = "echo Welcome; echo '*** Maintenance ***' >&2\n"
MODULE = """
module() { eval "$(modulecmd bash "$@")"; }
export -f module
"""
Called = Callable[..., "Call"]


class Call:
    """The recorded call of sbatch, and the output of the caller."""

    def __init__(self, done: subprocess.CompletedProcess[str], told: Path, folder: Path) -> None:
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        self._told = told
        self.left = {path.name for path in folder.iterdir()}

    @property
    def sbatch(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._told.read_text())
        return found

    @property
    def env(self) -> dict[str, str]:
        env: dict[str, str] = self.sbatch["env"]
        return env


@pytest.fixture
def called(tmp_path: Path) -> Called:
    home, programs, folder = (tmp_path / name for name in ("it's home", "b i n", "a 'job'"))
    for path in (home, programs, folder):
        path.mkdir()
    stand_in = programs / "sbatch"
    stand_in.write_text(SBATCH)
    stand_in.chmod(0o755)
    told = tmp_path / "told"

    def call(files: dict[str, str], shell: str = "bash", **env: str) -> Call:
        for name, text in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        given = {"SLURM_CONF": str(told), "TOKEN": "a b\nc", **env}
        done = subprocess.run(
            sbatch.call_once_as_typed(["sbatch", *WORDS], given),
            cwd=folder,
            env={
                "HOME": str(home),
                "SHELL": f"/usr/bin/{shell}",
                "PATH": f"{programs}:/usr/bin:/bin",
                "USER": "me",
                "LOGNAME": "me",
                **given,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Call(done, told, folder)

    return call


def assert_answered(call: Call) -> None:
    assert (call.status, call.out) == (0, "the site's own words\n123\n")
    assert call.err == "a warning\n"
    assert call.sbatch["argv"] == WORDS
    assert call.left == {"submitted", "submit.err", "submit.lock"}
    assert not [name for name in call.env if name.startswith("JSLURM")]
    assert call.env["TOKEN"] == "a b\nc"


@pytest.mark.parametrize(
    ("shell", "name", "text"),
    [
        ("bash", ".bash_profile", "export MINE=1\n"),
        ("zsh", ".zlogin", "export MINE=1; setopt noclobber\n"),
        ("fish", ".config/fish/config.fish", "set -gx MINE 1\nalias bash false\n"),
        ("tcsh", ".login", "setenv MINE 1\nset noclobber\nalias rm rm -i\n"),
    ],
)
def test_sbatch_has_the_environment_of_any_login_shell(
    called: Called, shell: str, name: str, text: str
) -> None:
    loud = LOUD if shell != "tcsh" else "echo Welcome\n"
    # Debian's default, which applies only to interactive shells.
    bashrc = "case $- in *i*) ;; *) return ;; esac\nexport MINE=1\n"
    call = called({".bashrc": bashrc, name: loud + text}, shell)
    assert_answered(call)
    assert call.env["MINE"] == "1"


def test_sbatch_has_functions_limits_and_umask_of_the_login(called: Called) -> None:
    call = called({".bash_profile": f"{MODULE}umask 027; ulimit -S -s 4096\n"})
    assert_answered(call)
    assert "modulecmd" in call.env["BASH_FUNC_module%%"]
    assert (call.sbatch["umask"], call.sbatch["stack"]) == (0o027, 4096 * 1024)


@pytest.mark.parametrize(
    "text",
    [
        "alias exec=false bash=false sbatch=false\nsbatch() { echo 9; }; export -f sbatch\n",
        "exec 1>&- 2>&-; IFS=:; set -f; set -o noclobber; umask 777; cd /\n",
        "export SBATCH_WAIT=1 POSIXLY_CORRECT=1 CDPATH=/ PATH=/usr/bin\n",
        "case $- in *i*) exit 3 ;; esac\n",
    ],
)
def test_odd_login_files_do_not_change_the_answer(called: Called, text: str) -> None:
    call = called({".bash_profile": f"{LOUD}export MINE=1\n{text}"})
    assert_answered(call)
    assert call.env["MINE"] == "1"
    assert "SBATCH_WAIT" not in call.env


@pytest.mark.parametrize("text", ["exit 1\n", "exec true\n"])
def test_job_is_submitted_even_if_login_files_end_the_shell(called: Called, text: str) -> None:
    call = called({".bash_profile": f"{LOUD}export MINE=1\n{text}"})
    assert_answered(call)
    assert "MINE" not in call.env


def test_hanging_login_files_are_killed_with_their_children(
    called: Called, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = sbatch._AS_TYPED.replace(f"= {sbatch._LOOKS} ]", "= 60 ]")
    assert text != sbatch._AS_TYPED
    monkeypatch.setattr(sbatch, "_AS_TYPED", text)
    pids = tmp_path / "pids"
    call = called({".bash_profile": f"sleep 987 &\necho $! $$ >>'{pids}'\nwait\n"})
    assert_answered(call)
    hung = [int(pid) for pid in pids.read_text().split()]
    assert len(hung) == 4
    wait_until(lambda: not any(map(psutil.pid_exists, hung)))


def test_refusal_of_sbatch_is_returned_unchanged(called: Called) -> None:
    call = called({".bash_profile": LOUD}, RC="3")
    words = "the site's own words\n123\n"
    assert (call.status, call.out, call.err) == (3, words, "a warning\n")
    assert "submitted" not in call.left


def test_sbatch_is_not_called_again_after_an_answer(called: Called) -> None:
    assert_answered(called({}))
    again = called({".bash_profile": "export MINE=1\n"}, ANSWER="456")
    assert again.out == "the site's own words\n123\n"
