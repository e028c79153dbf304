"""Sending a session's cell that an earlier agent may already have sent."""

from __future__ import annotations

import threading
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_slurm.jobs.cluster.environments import Environments
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.cluster.transfers import Transfers
from jupyter_slurm.jobs.records.registry import JobRegistry, Record, Store
from jupyter_slurm.jobs.submission.session_cells import CellSubmitter
from jupyter_slurm.jobs.submission.submit import withdraw
from jupyter_slurm.wire import CellSpec, JobKind, JobState
from tests.specs import known

CELL = "bbbbbbbb"


@pytest.fixture
def registry(tmp_path: Path) -> JobRegistry:
    """Return the records of an agent whose predecessor recorded a session's cell and ended."""
    earlier = JobRegistry(Store(tmp_path))
    earlier.add(Record(job=known(kind=JobKind.SESSION), spec=None))
    folder = "/jobs/aaaaaaaa/cells/bbbbbbbb"
    cell = known(id=CELL, session="aaaaaaaa", state=JobState.SUBMITTING, job_dir=folder)
    earlier.add(Record(job=cell, spec=CellSpec(id=CELL, name="n", code="1", session="aaaaaaaa")))
    return JobRegistry(Store(tmp_path))


class Far:
    """Transport that records requests. `exists` is whether the cell's folder exists."""

    def __init__(self, *, exists: bool) -> None:
        self._exists = exists
        self.requests: list[str] = []

    def exists(self, _path: PurePosixPath) -> bool:
        return self._exists

    def upload_and_append(
        self, _folder: Any, _files: Any, line: str, *_rest: Any, **_: Any
    ) -> None:
        self.requests.append(line)


@pytest.mark.parametrize(
    ("exists", "requests", "state"),
    [
        (True, [f"run {CELL}", f"cancel {CELL}"], JobState.PENDING),
        (False, [], JobState.CANCELLED),
    ],
)
def test_cancelled_cell_is_withdrawn_only_if_it_was_not_sent(
    registry: JobRegistry, exists: bool, requests: list[str], state: JobState
) -> None:
    registry.change(CELL, cancel_requested_s=2.0)
    assert not withdraw(registry, CELL)
    far = Far(exists=exists)
    cluster = SimpleNamespace(transport=far, access=SimpleNamespace(connection=None))
    submitter = CellSubmitter(
        registry,
        lambda: cast("SlurmCluster", cluster),
        Transfers(),
        cast("Environments", None),
        CELL,
        threading.Event(),
    )
    assert submitter.try_once()
    assert far.requests == requests
    assert registry.job(CELL).state is state
