"""A cell runner for each test, in a folder with a difficult name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.node.cells import FULL, Run, RunCell, Runner


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path / 'a job$dir "é')


@pytest.fixture
def run(runner: Runner) -> RunCell:
    """Return `run(cell, python=…, names_in=…, names_out=…)`, which runs a cell to its end."""

    def run_cell(cell: str, *, python: Sequence[str] = FULL, **options: object) -> Run:
        runner.prepare(cell, **options)  # type: ignore[arg-type]
        return runner.finish(runner.start(python))

    return run_cell
