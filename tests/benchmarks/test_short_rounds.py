"""Each benchmark runs its shortest round, so that none rots; how fast it was is not looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster.plugin import ROOT, jupyter_homes

HERE = Path(__file__).parent
SHORT = {
    "cancel": ("--jobs=20 --rounds=1", "Many jobs cancelled"),
    "cell": ("--rounds=1 --gigabytes=0.001 --window=0.1", "The controller and the agent"),
    "containers": ("--rounds=1 --only none charliecloud", "Against the bare command lines"),
    "dashboards": ("--rounds=1 --only dask", "Dashboards, from the click"),
    "engines": ("--rounds=1 --only mpi dask", "Engines, from the script's beginning"),
    "kernel": ("--rounds=1 --output=0 --kernels=1", "Many at once"),
    "lab": ("--rounds=1 --gigabytes=0.001 --only download", "Ratios"),
    "lockout": ("--records submitting", "submitting  "),
    "log": ("--mb=24 --rate=1 --seconds=1", "A long log, in the job panel"),
    "session": ("--rounds=1 --pause=0", "What a session adds to a cell"),
    "ssh": ("--only commands --ways near --rounds=1", "commands: 0 ms"),
    "whole_queue": ("--jobs=500 --held=0 --tabs 1 --minute=1", "The whole queue, in the browser"),
}
"""The options, and the title of what is printed last."""


@pytest.mark.real
@pytest.mark.parametrize("name", SHORT)
def test_it_still_measures(name: str, tmp_path: Path) -> None:
    words, title = SHORT[name]
    code, said = ran(name, words.split(), tmp_path)
    assert code in {0, 1}, said  # 1: too slow
    assert f"\n{title}" in said


@pytest.mark.real
def test_the_page_of_5000_jobs_keeps_to_its_memory(tmp_path: Path) -> None:
    code, said = ran("sidebar", ("--rounds=1", "--seconds=1"), tmp_path)
    assert code == 0, said
    assert "5,000 jobs" in said


def ran(name: str, words: Sequence[str], tmp_path: Path) -> tuple[int, str]:
    """Run a benchmark; return its exit code and what it said."""
    argv = [sys.executable, "-m", f"tests.benchmarks.{name}", *words]
    env = {**os.environ, **jupyter_homes(tmp_path), "PYTHONPATH": str(ROOT)}
    # Not a pipe, which is at its end only when the last of its processes is.
    with (tmp_path / "said").open("w") as log:
        done = subprocess.run(argv, cwd=ROOT, env=env, stdout=log, stderr=log, check=False)
    said = (tmp_path / "said").read_text()
    assert "Traceback" not in said
    return done.returncode, said


def test_each_is_known() -> None:
    found = {one.stem for one in HERE.glob("*.py") if "\ndef main()" in one.read_text()}
    parts = {"held_cells", "tunnel_ours"}
    assert found - parts == {*SHORT, "sidebar", "remote"}  # which is two of the others
