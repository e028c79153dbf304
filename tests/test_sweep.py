"""The table of a sweep, and the error of a sweep with failed tasks."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest

from jupyter_slurm import sweep
from jupyter_slurm.variables import write_variables
from jupyter_slurm.wire import JobKind, Result, SweepFailure, SweepTasks
from tests.specs import known

LONG = "x" * 100
PARAMS = [{"lr": numpy.float32(0.1), "text": "it's $HOME\n"}, {"lr": 2, "text": "ü"}, {"lr": 3}]


def result(folder: Path, **fields: Any) -> tuple[Result, SweepTasks]:
    """A sweep of three tasks. The last task failed."""
    by_task = {str(task): one for task, one in enumerate(PARAMS)}
    write_variables(folder / "params.vars", tuple(by_task), by_task)
    for task in (0, 1):
        write_variables(folder / f"{task}.vars", ["acc"], {"acc": task / 2})
    job = known(kind=JobKind.SWEEP, names_out=("acc",), names_params=("lr", "text"), **fields)
    tasks = SweepTasks(
        job=job,  # type: ignore[arg-type]
        states={"COMPLETED": "0-1", "FAILED": "2"},
        reasons={"The cell raised ValueError.": "2"},
        nodes={"n1": "0-1", "n2": "2"},
        elapsed_s=(1.0, 2.0, None),
        peak_mib=(10.0, 20.0, None),
        failures=(
            SweepFailure(tasks="2", ename="ValueError", evalue="no", traceback=("ValueError: no",)),
        ),
    )
    return Result(job=job, status="error", variables=str(folder), names=("acc",)), tasks


def test_row_has_parameters_outputs_and_usage(tmp_path: Path) -> None:
    rows = sweep.table(*result(tmp_path), {})
    columns = ["lr", "text", "acc", "task", "state", "reason", "node", "elapsed_s", "peak_mib"]
    assert list(rows[0]) == columns
    assert rows[0]["lr"] == numpy.float32(0.1)
    assert type(rows[0]["lr"]) is numpy.float32
    assert [row["text"] for row in rows[:2]] == ["it's $HOME\n", "ü"]
    assert [row["acc"] for row in rows] == [0.0, 0.5, None]
    assert [row["task"] for row in rows] == [0, 1, 2]
    last = rows[2]
    assert (last["state"], last["node"], last["elapsed_s"]) == ("FAILED", "n2", None)
    assert last["reason"] == "The cell raised ValueError."


def test_table_is_a_dataframe_if_pandas_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = sweep.table(*result(tmp_path), {})
    frame = sweep.as_frame(rows, "aaaaaaaa")
    assert isinstance(frame, pandas.DataFrame)
    assert frame.attrs["job"] == "aaaaaaaa"
    assert frame.shape == (3, 9)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert sweep.as_frame(rows, "aaaaaaaa") is rows


def test_error_counts_and_groups_failed_tasks(
    tmp_path: Path,
) -> None:
    found, tasks = result(tmp_path)
    error = sweep.error(tasks, sweep.table(found, tasks, {}))
    assert error is not None
    assert error.code == "sweep-failed"
    assert "1 of 3 tasks" in error.message
    told = "\n".join(error.traceback)
    assert "ValueError: no" in told
    assert "lr=3" in told
    assert isinstance(error.table, pandas.DataFrame)


def test_unreadable_outputs_are_reported(tmp_path: Path) -> None:
    found, tasks = result(tmp_path)
    write_variables(tmp_path / "1.vars", ["other"], {"other": 1})
    failed: dict[str, str] = {}
    rows = sweep.table(found, tasks, failed)
    assert [*failed] == ["acc of task 1"]
    assert rows[1]["acc"] is None


def test_parameters_as_text_are_short_and_in_the_order_of_the_tasks() -> None:
    rows = [{"lr": 0.1, "text": "a\n"}, {"lr": numpy.float32(1), "text": LONG}]
    told = sweep.params_as_text(rows)
    assert told["lr"] == ["0.1", repr(numpy.float32(1))]
    assert told["text"][0] == "'a\\n'"
    assert len(told["text"][1]) < len(LONG)
