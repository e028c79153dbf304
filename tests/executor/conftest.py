"""Executors of jobs and of sessions, over an Api in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm import executor
from jupyter_slurm.executor import Executor
from jupyter_slurm.job import Connection
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.wire import Changes, Job, JobKind, JobSpec, JobState
from tests.magics.fake import FakeApi


class Pool(FakeApi):
    """Api in memory that runs jobs at once, or when the test requests it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_full = False
        self.changes_error: Exception | None = None

    def submit(self, spec: JobSpec) -> Job:
        if not self.is_full:
            return super().submit(spec)
        self.far()
        self.specs[spec.id] = spec
        pending = kind_of(spec).recorded(spec, cluster="fake", state=JobState.PENDING)
        return self.put(pending)

    def begin(self, job_id: str) -> None:
        super().submit(self.specs[job_id])

    def changes(self, *args: Any, **kwargs: Any) -> Changes:
        if self.changes_error is not None:
            raise self.changes_error
        return super().changes(*args, **kwargs)

    def of_kind(self, kind: JobKind) -> list[Job]:
        return [job for job in self.jobs() if job.kind is kind]

    @property
    def cells(self) -> list[Job]:
        return self.of_kind(JobKind.CELL)

    @property
    def sessions(self) -> list[Job]:
        return self.of_kind(JobKind.SESSION)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    for name in ("DATA", "CONFIG", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    made = Pool(tmp_path)
    monkeypatch.setattr(executor, "connect", lambda cluster: Connection(made, cluster))
    executor._calls_of_others.cache_clear()
    yield made
    made.close()
    executor._calls_of_others.cache_clear()


Make = Callable[..., Executor]


@pytest.fixture
def make(api: Pool) -> Iterator[Make]:
    """Return a factory of executors. They are shut down at the end."""
    made: list[Executor] = []

    def one(**options: Any) -> Executor:
        made.append(Executor(**options))
        return made[-1]

    yield one
    for each in made:
        each.shutdown(cancel_futures=True)


@pytest.fixture(params=["jobs", "sessions"])
def any_executor(request: pytest.FixtureRequest, make: Make) -> Executor:
    """Return an executor of each kind with two workers."""
    return make(max_workers=2, warm=request.param == "sessions")
