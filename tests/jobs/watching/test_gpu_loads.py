"""The GPU load of running jobs, read from their files by a real transport."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.jobs.watching.gpu_loads import GpuLoads
from jupyter_slurm.transport import Span
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.wire import Job, JobKind, JobState
from tests.specs import known


@pytest.fixture
def transport() -> LocalTransport:
    return LocalTransport()


def runs(folder: Path, **changes: object) -> Job:
    usual = {"kind": JobKind.PROGRAM, "state": JobState.RUNNING, "slurm_id": "7", "gpus": 2}
    return known(**(usual | {"job_dir": str(folder)} | changes))


def measure(path: Path, *loads: float | None, age_s: float = 0.0) -> None:
    gpus = [
        {"name": "a", "utilisation": one, "memory_mib": 1, "memory_total_mib": 2} for one in loads
    ]
    sample = {"time_s": time.time() - age_s, "node": "n1", "cpus": 1, "memory_mib": 1, "gpus": gpus}
    with path.open("a") as file:
        file.write(json.dumps(sample) + "\n")


def test_gpu_load_is_the_mean_of_all_nodes_last_samples(
    transport: LocalTransport, tmp_path: Path
) -> None:
    for load in (0.1, 0.5):
        measure(tmp_path / "usage.1.jsonl", load, None)
    measure(tmp_path / "usage.1.1.jsonl", 1.0)
    job = runs(tmp_path, restarts=1, nodes=("n1", "n2"))
    loads = GpuLoads()
    assert loads.read(transport, [job]) == {"aaaaaaaa": 0.75}
    measure(tmp_path / "usage.1.jsonl", 0.9)
    assert loads.read(transport, [job]) == {"aaaaaaaa": 0.75}
    assert GpuLoads().read(transport, [job]) == {"aaaaaaaa": 0.95}


def test_job_without_recent_samples_has_no_load(transport: LocalTransport, tmp_path: Path) -> None:
    measure(tmp_path / "usage.0.jsonl", 0.5)
    (tmp_path / "old").mkdir()
    measure(tmp_path / "old" / "usage.0.jsonl", 0.5, age_s=3600.0)
    jobs = [
        runs(tmp_path, state=JobState.PENDING),
        runs(tmp_path, gpus=0),
        runs(tmp_path, kind=JobKind.SCRIPT),
        runs(tmp_path, tasks={"RUNNING": "1-2"}),
        runs(tmp_path, slurm_id=None),
        runs(tmp_path / "old"),
        runs(tmp_path / "none"),
    ]
    assert GpuLoads().read(transport, jobs) == {}


def test_lost_connection_does_not_yield_loads(
    transport: LocalTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: list[Span]) -> list[bytes | None]:
        raise ConnectionLostError("The line is cut.")

    monkeypatch.setattr(transport, "read_many", lost)
    assert GpuLoads().read(transport, [runs(tmp_path)]) == {}
