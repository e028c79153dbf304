"""The arrays of a sweep, and the sbatch command of each."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.records.registry import TaskArray
from jupyter_slurm.jobs.submission.sweep_arrays import (
    array_command,
    plan,
    retry_options,
    without_met_dependency,
)
from jupyter_slurm.slurm import sbatch
from jupyter_slurm.slurm.units import indices
from jupyter_slurm.wire import JobKind
from tests.jobs.records.test_registry import record

COMMAND = (
    *("sbatch", "--parsable", "--mem=2G", "--time=00:10:00", "--array=0-99%8", "--hold"),
    *("--job-name=my.fit.aaaaaaaa", "--comment=jslurm:aaaaaaaa it's mine", "--", "/j/job.sh"),
    *("0", "0"),
)


def test_each_task_is_in_one_array_below_the_limit() -> None:
    tasks = [*range(50), 70, 1999]
    arrays = plan(tasks, 20)
    assert sorted(task for one in arrays for task in indices(one.tasks)) == tasks
    for one in arrays:
        assert all(0 <= task - one.offset < 20 for task in indices(one.tasks))
    assert len({one.token for one in arrays}) == len(arrays)


def test_array_of_many_noncontiguous_tasks_is_split() -> None:
    tasks = range(0, 20_000, 2)
    arrays = plan(tasks, None)
    assert max(len(one.tasks) for one in arrays) < 4096
    assert sum(len(indices(one.tasks)) for one in arrays) == len(tasks)


def options(array: TaskArray, **changes: Any) -> dict[str, str]:
    command = array_command(COMMAND, array, **{"max_running": None, "after": None, **changes})
    return sbatch.options_of(command)


def test_later_array_has_its_own_token_indices_and_arguments() -> None:
    array = TaskArray(token="bbbbbbbb", tasks="20-24,30", offset=20, base=3)
    command = array_command(COMMAND, array, 8, "17")
    assert command[-4:] == ["--", "/j/job.sh", "20", "3"]
    found = sbatch.options_of(command)
    assert found["array"] == "0-4,10%8"
    assert found["job-name"] == "my.fit.bbbbbbbb"
    assert found["comment"] == "jslurm:bbbbbbbb it's mine"
    assert found["dependency"] == "afterany:17"
    assert (found["mem"], found["hold"]) == ("2G", "")


def test_throttled_array_keeps_the_users_dependency() -> None:
    array = TaskArray(token="bbbbbbbb", tasks="0")
    with_own = (*COMMAND[:2], "--dependency=afterok:5", *COMMAND[2:])
    found = sbatch.options_of(array_command(with_own, array, 8, "17"))
    assert found["dependency"] == "afterok:5,afterany:17"
    either = (*COMMAND[:2], "--dependency=afterok:5?afterok:6", *COMMAND[2:])
    found = sbatch.options_of(array_command(either, array, 8, "17"))
    assert found["dependency"] == "afterany:17"


def test_started_sweep_has_no_dependency_unless_it_starts_task_by_task() -> None:
    met = (*COMMAND[:2], "--dependency=afterok:5", *COMMAND[2:])
    assert "dependency" not in sbatch.options_of(without_met_dependency(met))
    by_task = (*COMMAND[:2], "--dependency=aftercorr:5", *COMMAND[2:])
    assert without_met_dependency(by_task) == by_task


def test_retry_has_other_options_and_no_dependency() -> None:
    array = TaskArray(token="bbbbbbbb", tasks="3", base=1, options={"mem": "4G"})
    with_own = (*COMMAND[:2], "--dependency=afterok:5", *COMMAND[2:])
    found = sbatch.options_of(array_command(with_own, array, None, None))
    assert found["mem"] == "4G"
    assert "dependency" not in found


def test_retry_multiplies_the_limit_of_the_last_array() -> None:
    one = record("aaaaaaaa", kind=JobKind.SWEEP, limit_s=60)
    one.command = COMMAND
    one.arrays = (TaskArray(token="aaaaaaaa", tasks="0-9"),)
    assert retry_options(one, {"mem": "2x", "time": "1.5x"}) == {"mem": "4G", "time": "00:15:00"}
    one.arrays = (*one.arrays, TaskArray(token="b", tasks="1", base=1, options={"mem": "4G"}))
    assert retry_options(one, {"mem": "2x"}) == {"mem": "8G"}
    assert retry_options(one, {"mem": "1T", "gpus": "2"}) == {"mem": "1T", "gpus": "2"}


@pytest.mark.parametrize("asked", [{"mem": "big"}, {"array": "1"}, {"time": "0x"}])
def test_invalid_retry_option_is_rejected(asked: dict[str, str]) -> None:
    one = record("aaaaaaaa", kind=JobKind.SWEEP)
    one.command = COMMAND
    one.arrays = (TaskArray(token="aaaaaaaa", tasks="0-9"),)
    with pytest.raises(RequestError):
        retry_options(one, asked)
