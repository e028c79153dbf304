"""Transfers in threads, snapshots of folders, and files of jobs on a real Slurm."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from jupyter_slurm import places
from jupyter_slurm.errors import ConnectionLostError, NotFoundError, RequestError
from jupyter_slurm.jobs.cluster.transfers import (
    MIRROR_KEPT_DAYS,
    Transfers,
    mirror_of,
    snapshot_argv,
)
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.transport import Completed, FilePart, Source
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.wire import Job, JobState, Transfer, TransferState
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, over_ssh, spec
from tests.ssh.sshd import Sshd


class Slow(LocalTransport):
    """Transport whose streams wait in the middle until `go_on` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.error: Exception | None = None

    def send(
        self,
        argv: Sequence[str],
        source: Source,
        *,
        stop: threading.Event | None = None,
    ) -> Completed:
        def held() -> Iterator[bytes | memoryview | FilePart]:
            assert not hasattr(source, "read")
            for chunk in source:
                yield chunk
                self.reached.set()
                while not self.go_on.wait(0.01):
                    if stop is not None and stop.is_set():
                        raise ConnectionLostError("The transfer was stopped.")
                if self.error is not None:
                    raise self.error

        return super().send(argv, held(), stop=stop)


@pytest.fixture
def transfers() -> Iterator[Transfers]:
    made = Transfers()
    yield made
    made.close()
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith(("push", "pull", "files"))]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "model.py").write_text("x = 1\n")
    (folder / "sub" / "data").write_bytes(bytes(3 << 20))
    return folder


def ended(transfers: Transfers, begun: Transfer, limit_s: float = 60) -> Transfer:
    deadline_s = time.monotonic() + limit_s
    while (now := transfers.transfer(begun.id, wait_s=5)).state is TransferState.RUNNING:
        assert time.monotonic() < deadline_s
    return now


def test_push_and_pull_run_in_the_background(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    far = LocalTransport()
    begun = transfers.push("c", far, str(source), str(tmp_path / "there"))
    assert (begun.direction, begun.cluster, begun.local) == ("push", "c", str(source))
    done = ended(transfers, begun)
    size_bytes = (3 << 20) + 6
    assert (done.state, done.problem) == (TransferState.DONE, None)
    assert (done.files, done.files_done, done.files_same) == (2, 2, 0)
    assert (done.bytes, done.bytes_done) == (size_bytes, size_bytes)
    assert done.ended_s is not None
    back = ended(transfers, transfers.pull("c", far, str(tmp_path / "there"), str(tmp_path / "b")))
    assert (back.files_done, back.bytes_done) == (2, size_bytes)
    again = ended(transfers, transfers.push("c", far, str(source), str(tmp_path / "there")))
    assert (again.files, again.files_done, again.files_same) == (0, 0, 2)


def test_running_transfer_reports_progress(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    far = Slow()
    begun = transfers.push("c", far, str(source), str(tmp_path / "there"))
    assert far.reached.wait(60)
    now = transfers.transfer(begun.id)
    assert (now.state, now.files, now.bytes) == (TransferState.RUNNING, 2, (3 << 20) + 6)
    far.go_on.set()
    assert ended(transfers, begun).state is TransferState.DONE


def test_next_transfer_completes_a_stopped_transfer(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    far = Slow()
    begun = transfers.push("c", far, str(source), str(tmp_path / "there"))
    assert far.reached.wait(60)
    stopped = transfers.stop(begun.id)
    assert (stopped.state, stopped.problem) == (TransferState.STOPPED, None)
    far.go_on.set()
    second = transfers.push("c", far, str(source), str(tmp_path / "there"))
    assert ended(transfers, second).files == 2


def test_lost_connection_fails_the_transfer(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    far = Slow()
    far.error = ConnectionLostError("The line was cut.")
    far.go_on.set()
    failed = ended(transfers, transfers.push("c", far, str(source), str(tmp_path / "there")))
    assert failed.state is TransferState.FAILED
    assert failed.problem is not None
    assert failed.problem.code == "connection-lost"


def test_files_that_fail_to_arrive_are_listed(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    for index in range(30):
        (source / f"d{index:02}").mkdir()
        (tmp_path / "there" / f"d{index:02}").parent.mkdir(exist_ok=True)
        (tmp_path / "there" / f"d{index:02}").write_text("a file")
    far = LocalTransport()
    failed = ended(transfers, transfers.push("c", far, str(source), str(tmp_path / "there")))
    assert failed.state is TransferState.FAILED
    assert failed.problem is not None
    assert "30 files" in str(failed.problem.message)
    assert "d00: It is a folder on one side" in (failed.problem.detail or "")
    assert "and 25 more" in (failed.problem.detail or "")
    assert failed.failed is not None
    assert failed.failed.count == 30
    assert list(failed.failed.reasons) == ["d00", "d01", "d02", "d03", "d04"]
    assert failed.failed.reasons["d00"].startswith("It is a folder on one side")
    assert failed.left_out is None


def test_relative_paths_and_unknown_transfers_are_rejected(transfers: Transfers) -> None:
    with pytest.raises(RequestError, match="relative"):
        transfers.push("c", LocalTransport(), "source", "/there")
    with pytest.raises(RequestError, match="relative"):
        transfers.pull("c", LocalTransport(), "/there", "target")
    with pytest.raises(NotFoundError):
        transfers.transfer("nothing")


# --- snapshots --------------------------------------------------------------------------------


def job_dir(tmp_path: Path, name: str = "abcdefgh") -> JobDir:
    return JobDir(PurePosixPath(tmp_path / "it's root" / "jobs" / name))


def snapshot(
    transfers: Transfers, source: Path, folder: JobDir, exclude: Sequence[str] = ()
) -> Transfer:
    """Take a snapshot, and return the ended push."""
    begun = transfers.snapshot("c", LocalTransport(), str(source), folder, exclude)
    return ended(transfers, begun)


def names(folder: JobDir) -> set[str]:
    work = Path(folder.work)
    return {str(path.relative_to(work)) for path in work.rglob("*")}


def test_snapshot_has_the_folders_current_files(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    (source / ".gitignore").write_text("*.pyc\n")
    (source / "old.pyc").write_text("")
    first, second = job_dir(tmp_path), job_dir(tmp_path, "bbbbbbbb")
    done = snapshot(transfers, source, first, ["/sub/"])
    assert (done.state, done.files_done, done.problem) == (TransferState.DONE, 2, None)
    assert (done.direction, done.cluster, done.local) == ("push", "c", str(source))
    assert names(first) == {".gitignore", "model.py"}
    (source / "model.py").unlink()
    (source / "new.py").write_text("")
    assert snapshot(transfers, source, second).files_same == 1
    assert names(second) == {".gitignore", "new.py", "sub", "sub/data"}
    assert names(first) == {".gitignore", "model.py"}
    snapshot(transfers, source, first)  # the submission is repeated without changes
    assert names(first) == {".gitignore", "model.py"}


def test_folder_with_an_unreadable_file_is_not_pushed(
    transfers: Transfers, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if os.fsencode(path).endswith(b"model.py"):
            raise PermissionError(13, "Permission denied")
        return real_open(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    failed = snapshot(transfers, source, job_dir(tmp_path))
    assert failed.state is TransferState.FAILED
    assert failed.problem is not None
    assert failed.problem.code == "file-access"
    assert "model.py: Cannot read it: Permission denied." in (failed.problem.detail or "")
    assert not Path(job_dir(tmp_path).work).exists()


def test_missing_folder_file_and_home_are_rejected(
    transfers: Transfers, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = LocalTransport()
    with pytest.raises(NotFoundError):
        transfers.snapshot("c", far, str(tmp_path / "nothing"), job_dir(tmp_path))
    with pytest.raises(NotFoundError):
        transfers.snapshot("c", far, str(source / "model.py"), job_dir(tmp_path))
    monkeypatch.setenv("HOME", str(source))
    with pytest.raises(RequestError, match="Cannot push all"):
        transfers.snapshot("c", far, str(source), job_dir(tmp_path))


# --- on a real Slurm --------------------------------------------------------------------------


@pytest.fixture
def staged(
    slurm_cluster: SlurmCluster,
    way: Sshd | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """Yield a site whose jobs run in a copy of their folder on the node."""
    settings: dict[str, Any] = {"storage": {"scratch": f"{tmp_path}/node/{{user}}", "stage": True}}
    site = Site(slurm_cluster, tmp_path, monkeypatch, sshd=way, **settings)
    yield site
    site.service.close()


def submitted(site: Site, source: Path, code: str, **changes: Any) -> Job:
    return site.service.submit(spec(code, push=str(source), **changes))


def fetched(site: Site, job: Job, limit_s: float = 60) -> Transfer:
    deadline_s = time.monotonic() + limit_s
    begun = site.service.fetch(job.id)
    while (now := site.service.transfer(begun.id, 5)).state is TransferState.RUNNING:
        assert time.monotonic() < deadline_s
    return now


CODE = """
import os, pathlib
print(open("model.py").read(), os.getcwd())
pathlib.Path("results").mkdir()
pathlib.Path("results/out.txt").write_text("42")
pathlib.Path("plot.png").write_text("png")
pathlib.Path("model.py").write_text("changed over there")
"""


@over_ssh
def test_failed_job_still_returns_its_files(site: Site, source: Path, tmp_path: Path) -> None:
    wanted = {"fetch": ("results/**", "*.png", "sub/*"), "fetch_to": str(tmp_path / "back")}
    job = submitted(site, source, CODE + "raise ValueError('no')", **wanted)
    (source / "model.py").write_text("edited later")
    job = site.wait(job.id)
    assert job.state is JobState.FAILED
    assert site.text(job.id) == f"x = 1\n {job.job_dir}/work\n"
    done = fetched(site, job)
    assert (done.state, done.files_done) == (TransferState.DONE, 2)
    back = tmp_path / "back"
    assert (back / "results" / "out.txt").read_text() == "42"
    assert (back / "plot.png").exists()
    # The job has not changed the pushed file, so the local file may be newer.
    assert not (back / "sub").exists()


@contextmanager
def held(site: Site, tmp_path: Path, source: Path) -> Iterator[None]:
    """Block changes of the mirror during the context."""
    root = JobDir(PurePosixPath(tmp_path / "it's a root" / "x"))
    mirror = Path(mirror_of(root, places.host(), source))
    mirror.mkdir(parents=True)
    with Path(f"{mirror}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@over_ssh
def test_push_shows_progress_before_the_job(site: Site, source: Path, tmp_path: Path) -> None:
    with held(site, tmp_path, source):
        job = submitted(site, source, "print(open('model.py').read())")
        assert job.state is JobState.SUBMITTING
        assert job.transfer is not None
        assert (job.transfer.state, job.transfer.local) == (TransferState.RUNNING, str(source))
        assert job.transfer.files is None  # the push waits for the lock of the mirror
        assert site.service.transfer(job.transfer.id).state is TransferState.RUNNING
        assert site.service.logs(job.id).job.transfer is not None
    job = site.wait(job.id)
    assert (job.state, job.transfer) == (JobState.COMPLETED, None)
    assert site.text(job.id) == "x = 1\n\n"


@over_ssh
def test_job_cancelled_during_its_push_is_not_submitted(
    site: Site, source: Path, tmp_path: Path
) -> None:
    with held(site, tmp_path, source):
        job = submitted(site, source, "1")
        assert job.transfer is not None
        site.service.cancel(job.id)
        job = site.wait(job.id)
    assert (job.state, job.transfer, job.problem) == (JobState.CANCELLED, None, None)
    assert site.slurm_jobs() == []


@over_ssh
def test_next_agent_completes_a_push(site: Site, source: Path, tmp_path: Path) -> None:
    with held(site, tmp_path, source):
        job = submitted(site, source, "print(open('model.py').read())")
        site.restart()
    assert site.wait(job.id).state is JobState.COMPLETED
    assert site.text(job.id) == "x = 1\n\n"


@over_ssh
def test_mirror_is_removed_with_its_last_job(site: Site, source: Path, tmp_path: Path) -> None:
    jobs = [site.wait(submitted(site, source, "1").id) for _ in range(2)]
    pushed = tmp_path / "pushed"
    assert len(list(pushed.iterdir())) == 2  # the copy and the file of its lock
    site.service.forget(jobs[0].id)
    assert len(list(pushed.iterdir())) == 2
    site.restart()
    site.service.forget(jobs[1].id)
    assert list(pushed.iterdir()) == []
    assert not Path(jobs[1].job_dir).exists()
    job = site.wait(submitted(site, source, "print(open('model.py').read())").id)
    assert site.text(job.id) == "x = 1\n\n"


def test_staged_job_runs_on_the_node_and_returns_its_files(
    staged: Site, source: Path, tmp_path: Path
) -> None:
    job = staged.wait(submitted(staged, source, CODE).id)
    assert job.state is JobState.COMPLETED
    assert f"{tmp_path}/node/" in staged.text(job.id)
    work = Path(job.job_dir) / "work"
    assert (work / "results" / "out.txt").read_text() == "42"
    assert (work / "model.py").read_text() == "changed over there"
    (users,) = (tmp_path / "node").iterdir()
    assert list(users.iterdir()) == []


def test_staged_job_runs_in_an_image(staged: Site, source: Path, demo_image: Path) -> None:
    image = {"image": str(demo_image), "runtime": "charliecloud"}
    job = staged.wait(submitted(staged, source, CODE, **image).id)
    assert staged.text(job.id) == "x = 1\n /mnt/work\n"
    assert (Path(job.job_dir) / "work" / "results" / "out.txt").read_text() == "42"


def test_snapshot_is_independent_of_later_changes(tmp_path: Path) -> None:
    mirror, folder = tmp_path / "-m $x", JobDir(PurePosixPath(tmp_path / "jobs" / "it's"))
    (mirror / "sub").mkdir(parents=True)
    (mirror / "sub" / "a").write_text("1")
    (mirror / ".jupyter-slurm" / "parts").mkdir(parents=True)
    argv = snapshot_argv(PurePosixPath(mirror), folder)
    subprocess.run(argv, check=True)
    (mirror / "sub" / "a").write_text("2")
    subprocess.run(argv, check=True)  # the second time changes nothing
    work = Path(folder.work)
    assert (work / "sub" / "a").read_text() == "1"
    assert not (work / ".jupyter-slurm").exists()
    assert Path(folder.path).stat().st_mode & 0o777 == 0o700


def test_each_push_removes_one_long_unused_mirror(tmp_path: Path) -> None:
    old_s = time.time() - (MIRROR_KEPT_DAYS + 2) * 86_400
    pushed = tmp_path / "it's" / "pushed"
    for name in ("new", "held", "old", "older", "foreign"):
        (pushed / name / "sub").mkdir(parents=True)
        if name != "foreign":
            (pushed / f"{name}.lock").touch()
        if name != "new":
            os.utime(pushed / name, (old_s, old_s))

    def push(job_id: str) -> None:
        folder = JobDir(PurePosixPath(tmp_path / "jobs" / job_id))
        argv = snapshot_argv(PurePosixPath(pushed / "new"), folder)
        subprocess.run(argv, check=True)

    with (pushed / "held.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        left = {"new", "held", "foreign", "new.lock", "held.lock"}
        for job_id, others in (("aaaaaaaa", 2), ("bbbbbbbb", 0), ("cccccccc", 0)):
            push(job_id)
            found = {path.name for path in pushed.iterdir()}
            assert left <= found
            assert len(found - left) == others
    push("dddddddd")
    assert not (pushed / "held").exists()
