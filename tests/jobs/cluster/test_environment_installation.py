"""The script that installs packages, run by sh with a stand-in for uv."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from jupyter_slurm.jobs.cluster.environment_script import Toolchain, planned, render
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.wire import Environment
from tests.ssh.waiting import wait_until

UV = """#!/bin/sh
case $1 in
  venv) mkdir -p "$5/bin"; : >"$5/bin/python" ;;
  *)
    echo installed >>{folder}/calls
    cat "$6" >{folder}/requirements
    until [ -e {folder}/gate ]; do sleep 0.05; done ;;
esac
"""


class Folder:
    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.gate = folder / "gate"
        self.calls = folder / "calls"
        uv = folder / "uv"
        uv.write_text(UV.format(folder=folder))
        uv.chmod(0o755)
        asked = Environment(packages=("polars",), text="it's $HOME\\n\n")
        tools = Toolchain("3.11.2", "/usr/bin/python3", "x86_64", str(uv), "")
        self.root = folder / "it's"
        self.plan = planned(asked, (), tools, str(self.root), ClusterProfile(name="c"))

    def start(self) -> subprocess.Popen[str]:
        """Start the script in a process group of its own, as the login node does."""
        return subprocess.Popen(
            ["sh", "-c", render(self.plan)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": ""},
        )

    def folders(self) -> list[Path]:
        return [one for one in self.root.iterdir() if one.is_dir() and not one.is_symlink()]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_simultaneous_scripts_install_packages_once(folder: Folder) -> None:
    first = folder.start()
    wait_until(folder.calls.exists)
    second = folder.start()
    assert second.stdout is not None
    assert "Another job is installing the packages" in second.stdout.readline()
    folder.gate.touch()
    assert (first.wait(30), second.wait(30)) == (0, 0)
    assert folder.calls.read_text() == "installed\n"
    assert (folder.path / "requirements").read_text() == "it's $HOME\\n\npolars\n"
    about = json.loads(Path(folder.plan.record).read_text())
    assert (about["tool"], about["packages"]) == ("uv", ["it", "polars"])
    assert len(folder.folders()) == 1
    for one in (first, second):
        one.communicate()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_killed_script_does_not_leave_a_usable_environment(
    how: signal.Signals, folder: Folder
) -> None:
    first = folder.start()
    wait_until(folder.calls.exists)
    os.killpg(first.pid, how)
    first.communicate()
    assert first.returncode != 0
    assert not Path(folder.plan.record).exists()
    assert len(folder.folders()) == (2 if how is signal.SIGKILL else 0)
    folder.gate.touch()
    second = folder.start()
    second.communicate()
    assert second.returncode == 0
    assert Path(folder.plan.record).exists()
    assert len(folder.folders()) == 1


CONDA = """#!/bin/sh
echo "$CONDA_ALWAYS_YES ${{0##*/}} $*" | sed "s|$new|NEW|; s|$work|WORK|" >>{folder}/calls
cat "$work/environment.yml" >{folder}/requirements
mkdir -p "$new/bin"
printf '#!/bin/sh\\necho "python $*" >>%s\\n' {folder}/calls >"$new/bin/python"
chmod +x "$new/bin/python"
"""


@pytest.mark.parametrize(("tool", "verb"), [("conda", "env create"), ("micromamba", "create")])
def test_conda_reads_the_environment_file_and_pip_adds_packages(
    tool: str, verb: str, folder: Folder
) -> None:
    program = folder.path / tool
    program.write_text(CONDA.format(folder=folder.path))
    program.chmod(0o755)
    tools = Toolchain("", "", "x86_64", "", str(program))
    asked = Environment(packages=("polars",), source="conda", text="dependencies: [gdal]\n")
    folder.plan = planned(asked, (), tools, str(folder.root), ClusterProfile(name="c"))
    done = folder.start()
    output, _ = done.communicate()
    assert done.returncode == 0, output
    installs = "-I -m pip install --disable-pip-version-check --no-input --no-user"
    made, added = folder.calls.read_text().splitlines()
    assert made == f"true {tool} {verb} -p NEW -f WORK/environment.yml"
    assert added.startswith(f"python {installs} -r ")
    assert added.endswith("/packages.txt")
    assert (folder.path / "requirements").read_text() == "dependencies: [gdal]\n"
    assert json.loads(Path(folder.plan.record).read_text())["tool"] == tool
    assert any("CONDA_PREFIX" in line for line in folder.plan.setup)
