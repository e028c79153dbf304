"""A cell tells its runner what it needs."""

from __future__ import annotations

import json

from jupyter_slurm.jobs.kinds.cell import task
from jupyter_slurm.wire import CellSpec


def test_task_says_what_the_runner_needs() -> None:
    spec = CellSpec(id="k3j9x2m1", name="n", code="", names_in=("a",), names_out=("b", "é"))
    assert json.loads(task(spec)) == {
        "id": "k3j9x2m1",
        "cell_name": "slurm cell k3j9x2m1",
        "names_in": ["a"],
        "names_out": ["b", "é"],
        "out_format": None,
    }
