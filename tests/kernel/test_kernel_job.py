"""The record of a kernel and its job. Two threads of the kernel's process change it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_slurm.kernel.kernel_job import KernelJob
from jupyter_slurm.kernel.registry import Kernel, KernelRecord, opened
from jupyter_slurm.wire import CellSpec, JobSpec


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelRecord]:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    one = opened(tmp_path / "kernel-1.json", (), None)
    one.keep(Kernel(job_id="aaaaaaaa", words=()))
    yield one
    one.close()


def test_kernel_ended_during_submission_does_not_leave_a_job(
    record: KernelRecord,
) -> None:
    asked, may_go_on = threading.Event(), threading.Event()
    cancelled: list[str] = []

    def submit(spec: JobSpec) -> Any:
        asked.set()
        may_go_on.wait()
        return SimpleNamespace(id=spec.id)

    api: Any = SimpleNamespace(submit=submit, cancel=cancelled.append)
    nobody: Any = None
    life = KernelJob(
        lambda: api,
        record,
        lambda job_id: CellSpec(id=job_id, name="n", code=""),
        nobody,
        lambda: None,
    )
    life.start()
    asked.wait()
    life.cancel()  # this does not wait for the answer, however long it takes
    assert cancelled == ["aaaaaaaa"]
    may_go_on.set()
    life._thread.join()
