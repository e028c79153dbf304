"""A kernel on a job's first node, with Dask on all nodes."""

from __future__ import annotations

from pathlib import Path

from jupyter_slurm.wire import JobState
from tests.kernel.conftest import PATIENCE_S, MakeHome

NAMES = "print(sorted(client.run(lambda dask_worker: dask_worker.name).values()))"


def test_kernel_starts_with_the_engine_of_its_job(
    make_home: MakeHome, engines_python: Path
) -> None:
    home = make_home(python=str(engines_python))
    name = home.add("--nodes", "2", "--cpus-per-task", "4", "--launch", "dask")
    kernel = home.start(name)
    assert kernel.value(NAMES) == "['n1', 'n2']\n"
    assert kernel.value("print([one for one in dir() if one.startswith('_en')])") == "[]\n"
    kernel.manager.restart_kernel()
    kernel.client.wait_for_ready(timeout=PATIENCE_S)
    assert kernel.value(NAMES) == "['n1', 'n2']\n"
    kernel.manager.shutdown_kernel()
    assert kernel.until_job().state is JobState.COMPLETED
