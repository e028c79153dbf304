"""The main benchmarks with the fewest rounds, so that they keep working, and the sidebar's memory
limit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster.plugin import ROOT, jupyter_homes

SHORT = {
    "cell": ("--rounds=1 --gigabytes=0.001 --window=0.1", "The controller and the agent"),
    "ssh": ("--only commands --ways near --rounds=1", "commands: 0 ms"),
}
"""The options of each benchmark, and the title of its last table."""


@pytest.mark.real
@pytest.mark.parametrize("name", SHORT)
def test_benchmark_still_prints_its_last_table(name: str, tmp_path: Path) -> None:
    words, title = SHORT[name]
    code, said = ran(name, words.split(), tmp_path)
    assert code in {0, 1}, said  # exit code 1: too slow
    assert f"\n{title}" in said


@pytest.mark.real
def test_page_with_5000_jobs_stays_within_its_memory_limit(tmp_path: Path) -> None:
    code, said = ran("sidebar", ("--rounds=1", "--seconds=1"), tmp_path)
    assert code == 0, said
    assert "5,000 jobs" in said


def ran(name: str, words: Sequence[str], tmp_path: Path) -> tuple[int, str]:
    """Run a benchmark; return its exit code and output."""
    argv = [sys.executable, "-m", f"tests.benchmarks.{name}", *words]
    env = {**os.environ, **jupyter_homes(tmp_path), "PYTHONPATH": str(ROOT)}
    # A pipe would end only with the last of the benchmark's processes.
    with (tmp_path / "said").open("w") as log:
        done = subprocess.run(argv, cwd=ROOT, env=env, stdout=log, stderr=log, check=False)
    said = (tmp_path / "said").read_text()
    assert "Traceback" not in said
    return done.returncode, said
