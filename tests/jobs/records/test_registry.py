"""Job records. Changes are saved first, and then reported to waiting callers."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.jobs.records.registry import JobRegistry, Record, Store
from jupyter_slurm.wire import CellSpec, JobState
from tests.specs import known


def record(job_id: str = "aaaaaaaa", **changes: object) -> Record:
    job = known(**{"id": job_id, "state": JobState.PENDING, **changes})
    return Record(job=job, spec=CellSpec(id=job_id, name="n", code="1"))


@pytest.fixture
def registry(tmp_path: Path) -> JobRegistry:
    return JobRegistry(Store(tmp_path))


def test_added_job_survives_a_restart(tmp_path: Path) -> None:
    JobRegistry(Store(tmp_path)).add(record(name="ünï 'x'\n$HOME"))
    again = JobRegistry(Store(tmp_path))
    assert again.job("aaaaaaaa").name == "ünï 'x'\n$HOME"
    assert again.revision == 1


def test_record_with_the_same_id_is_added_once(registry: JobRegistry) -> None:
    assert registry.add(record())
    assert not registry.add(record(name="other"))
    assert registry.job("aaaaaaaa").name == "n"


def test_change_is_saved_and_raises_the_revision(registry: JobRegistry, tmp_path: Path) -> None:
    registry.add(record())
    before = registry.revision
    job = registry.change("aaaaaaaa", state=JobState.RUNNING)
    assert job.revision == before + 1
    assert job.state_since_s > 1.0
    again = JobRegistry(Store(tmp_path))
    assert again.job("aaaaaaaa") == job
    assert again.change("aaaaaaaa", state=JobState.COMPLETED).revision == job.revision + 1


def test_change_to_equal_values_keeps_the_revision(registry: JobRegistry) -> None:
    registry.add(record())
    before = registry.revision
    registry.change("aaaaaaaa", state=JobState.PENDING, reason=None)
    assert registry.revision == before


def test_observed_change_is_an_event_and_is_saved_with_the_next_change(
    registry: JobRegistry, tmp_path: Path
) -> None:
    registry.add(record())
    registry.observe("aaaaaaaa", state=JobState.RUNNING, started_s=2.0, nodes=("n1",))
    assert registry.job("aaaaaaaa").state is JobState.RUNNING
    assert JobRegistry(Store(tmp_path)).job("aaaaaaaa").state is JobState.PENDING
    registry.change("aaaaaaaa", state=JobState.COMPLETED, ended_s=3.0)
    again = JobRegistry(Store(tmp_path)).record("aaaaaaaa")
    assert again.job.nodes == ("n1",)
    assert [event.state for event in again.events[-2:]] == [JobState.RUNNING, JobState.COMPLETED]


def test_outdated_observation_is_ignored(registry: JobRegistry) -> None:
    registry.add(record())
    seen = registry.job("aaaaaaaa")
    assert registry.found(seen, reason="Priority").reason == "Priority"
    ended = registry.change("aaaaaaaa", state=JobState.COMPLETED)
    assert registry.found(seen, state=JobState.RUNNING) == ended
    assert registry.job("aaaaaaaa") == ended


def test_newest_live_job_is_found_by_slurm_id(registry: JobRegistry) -> None:
    registry.add(record("aaaaaaaa", slurm_id="7", created_s=1.0))
    registry.add(record("bbbbbbbb", slurm_id="7", created_s=2.0))
    assert registry.job("7").id == "bbbbbbbb"
    registry.change("bbbbbbbb", state=JobState.LOST)
    assert registry.job("7").id == "aaaaaaaa", "the job is live"
    registry.add(record("cccccccc", slurm_id="7", cluster="d"))
    with pytest.raises(RequestError, match="several clusters"):
        registry.job("7")


def test_error_names_unknown_job(registry: JobRegistry) -> None:
    with pytest.raises(NotFoundError, match="'nope'"):
        registry.job("nope")


def test_ended_jobs_are_not_live(registry: JobRegistry) -> None:
    registry.add(record("aaaaaaaa"))
    registry.add(record("bbbbbbbb", state=JobState.FAILED))
    assert [r.job.id for r in registry.live("c")] == ["aaaaaaaa"]


def test_change_wakes_a_waiting_caller(registry: JobRegistry) -> None:
    registry.add(record())
    woken = threading.Event()

    def wait() -> None:
        if registry.wait(lambda: registry.job("aaaaaaaa").state.final, 30):
            woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    registry.change("aaaaaaaa", state=JobState.COMPLETED)
    thread.join(60)
    assert woken.is_set()


def test_closing_ends_every_wait(registry: JobRegistry) -> None:
    thread = threading.Thread(target=registry.wait, args=(lambda: False, 300))
    thread.start()
    registry.close()
    thread.join(60)
    assert not thread.is_alive()


def test_unreadable_record_is_reported_and_other_records_are_read(tmp_path: Path) -> None:
    JobRegistry(Store(tmp_path)).add(record())
    broken = tmp_path / "jobs" / "bbbbbbbb.json"
    broken.write_text('{"job": {"id"')
    store = Store(tmp_path)
    assert [r.job.id for r in store.load()] == ["aaaaaaaa"]
    assert store.unreadable() == [broken]
    broken.unlink()
    assert store.unreadable() == []


def test_records_and_keys_are_private(tmp_path: Path) -> None:
    store = Store(tmp_path)
    JobRegistry(store).add(record())
    key = store.new_key("aaaaaaaa")
    assert store.new_key("aaaaaaaa") == key
    for path in tmp_path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_each_cell_of_a_session_has_its_own_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cells = [known(id=job_id, session="ssssssss") for job_id in ("aaaaaaaa", "bbbbbbbb")]
    assert store.key(cells[0]) is None
    of_session = store.new_key("ssssssss")
    keys = [store.key(cell) for cell in cells]
    assert len({of_session, *keys}) == 3
    assert keys == [Store(tmp_path).key(cell) for cell in cells]


def test_key_is_not_in_the_record(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key = store.new_key("aaaaaaaa")
    JobRegistry(store).add(record())
    assert key not in (tmp_path / "jobs" / "aaaaaaaa.json").read_bytes()


def test_every_file_of_a_forgotten_job_is_removed(registry: JobRegistry, tmp_path: Path) -> None:
    registry.add(record())
    registry.store.new_key("aaaaaaaa")
    registry.remove("aaaaaaaa")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
