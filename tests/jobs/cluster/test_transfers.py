"""Transfers that run in threads, snapshots of folders, and what jobs on a real Slurm give back."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import pytest

from jupyter_slurm import places
from jupyter_slurm.errors import ConnectionLostError, NotFoundError, RequestError
from jupyter_slurm.jobs.cluster.transfers import Transfers
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.records.store import Store
from jupyter_slurm.jobs.submission.staging import mirror_of
from jupyter_slurm.transport import Completed
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.wire import Job, JobKind, JobState, Transfer, TransferState
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, over_ssh, spec
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until


class Slow(LocalTransport):
    """Each stream waits in its middle until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.error: Exception | None = None

    def send(
        self,
        argv: Sequence[str],
        source: Iterable[bytes | memoryview] | BinaryIO,
        *,
        stop: threading.Event | None = None,
    ) -> Completed:
        def held() -> Iterator[bytes | memoryview]:
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


def test_a_push_and_a_pull_run_by_themselves(
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


def test_while_it_runs_its_progress_is_told(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    far = Slow()
    begun = transfers.push("c", far, str(source), str(tmp_path / "there"))
    assert far.reached.wait(60)
    now = transfers.transfer(begun.id)
    assert (now.state, now.files, now.bytes) == (TransferState.RUNNING, 2, (3 << 20) + 6)
    far.go_on.set()
    assert ended(transfers, begun).state is TransferState.DONE


def test_a_stopped_transfer_says_so_and_the_next_one_does_the_rest(
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


def test_a_lost_connection_is_the_transfers_problem(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    far = Slow()
    far.error = ConnectionLostError("The line was cut.")
    far.go_on.set()
    failed = ended(transfers, transfers.push("c", far, str(source), str(tmp_path / "there")))
    assert failed.state is TransferState.FAILED
    assert failed.problem is not None
    assert failed.problem.code == "connection-lost"


def test_two_files_that_are_pulled_into_one_folder_at_once_both_arrive(
    transfers: Transfers, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    second: list[Transfer] = []
    wanted: list[str] = []
    lock_of = transfers._lock_of

    def noted(where: str, folder: str) -> threading.Lock:
        wanted.append(folder)
        return lock_of(where, folder)

    def second_has_gone_or_waits() -> bool:
        over = transfers.transfer(second[0].id).state is not TransferState.RUNNING
        return over or wanted.count(str(target)) == 2

    class Second(LocalTransport):
        """Another pull begins while the first one receives."""

        def receive(self, *args: Any, **named: Any) -> Completed:
            second.append(pull(LocalTransport(), "script.sh"))
            wait_until(second_has_gone_or_waits)
            return super().receive(*args, **named)

    def pull(by: LocalTransport, name: str) -> Transfer:
        return transfers.pull("local", by, str(source / name), str(target / name))

    monkeypatch.setattr(transfers, "_lock_of", noted)
    (source / "script.sh").write_text("true\n")
    first = ended(transfers, pull(Second(), "model.py"))
    both = [first, *(ended(transfers, one) for one in second)]
    assert [(one.state, one.problem) for one in both] == [(TransferState.DONE, None)] * 2
    assert sorted(one.name for one in target.iterdir()) == ["model.py", "script.sh"]


def test_files_that_do_not_arrive_are_named(
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


def test_what_leads_elsewhere_is_told_of_a_transfer_that_is_done(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    (source / "link").symlink_to("/etc")
    done = ended(transfers, transfers.push("c", LocalTransport(), str(source), str(tmp_path / "t")))
    assert (done.state, done.problem, done.failed) == (TransferState.DONE, None, None)
    assert done.left_out is not None
    assert done.left_out.count == 1
    assert done.left_out.reasons == {"link": "It is a link that leads outside, to /etc."}


def test_relative_paths_and_unknown_transfers_are_refused(transfers: Transfers) -> None:
    with pytest.raises(RequestError, match="relative"):
        transfers.push("c", LocalTransport(), "source", "/there")
    with pytest.raises(RequestError, match="relative"):
        transfers.pull("c", LocalTransport(), "/there", "target")
    with pytest.raises(NotFoundError):
        transfers.transfer("nothing")


def test_closing_ends_what_runs(source: Path, tmp_path: Path) -> None:
    transfers, far = Transfers(), Slow()
    begun = transfers.push("c", far, str(source), str(tmp_path / "there"))
    assert far.reached.wait(60)
    transfers.close()
    assert transfers.transfer(begun.id).state is TransferState.STOPPED


# --- snapshots --------------------------------------------------------------------------------


def job_dir(tmp_path: Path, name: str = "abcdefgh") -> JobDir:
    return JobDir(PurePosixPath(tmp_path / "it's root" / "jobs" / name))


def snapshot(
    transfers: Transfers, source: Path, folder: JobDir, exclude: Sequence[str] = ()
) -> Transfer:
    """Of a push that has ended."""
    begun = transfers.snapshot("c", LocalTransport(), str(source), folder, exclude)
    return ended(transfers, begun)


def names(folder: JobDir) -> set[str]:
    work = Path(folder.work)
    return {str(path.relative_to(work)) for path in work.rglob("*")}


def test_a_snapshot_is_the_folder_as_it_is_now(
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
    snapshot(transfers, source, first)  # submitted once more: it is what it was
    assert names(first) == {".gitignore", "model.py"}


def test_an_empty_folder_is_a_folder_to_run_in(transfers: Transfers, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert snapshot(transfers, empty, job_dir(tmp_path)).state is TransferState.DONE
    assert names(job_dir(tmp_path)) == set()
    assert Path(job_dir(tmp_path).work).is_dir()


def test_while_a_snapshot_is_on_its_way_its_progress_is_told(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    far = Slow()
    begun = transfers.snapshot("c", far, str(source), job_dir(tmp_path))
    assert far.reached.wait(60)
    now = transfers.outcome(begun.id, wait_s=0.0)
    assert (now.state, now.files, now.bytes) == (TransferState.RUNNING, 2, (3 << 20) + 6)
    far.go_on.set()
    done = transfers.outcome(begun.id, wait_s=60)
    assert (done.state, done.files_done) == (TransferState.DONE, 2)


def test_once_it_is_closed_nothing_is_sent_any_more(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    transfers.close()
    begun = transfers.snapshot("c", LocalTransport(), str(source), job_dir(tmp_path))
    assert transfers.outcome(begun.id, wait_s=60).state is TransferState.STOPPED
    assert not Path(job_dir(tmp_path).work).exists()


def test_snapshots_at_once_do_not_disturb_each_other(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    for index in range(50):
        (source / f"{index}.py").write_text(str(index))
    folders = [job_dir(tmp_path, f"aaaaaaa{letter}") for letter in "abcdef"]
    others = Transfers()  # as another process would
    begun = [
        (who, who.snapshot("c", LocalTransport(), str(source), folder))
        for who, folder in zip([transfers, others] * 3, folders, strict=True)
    ]
    for who, transfer in begun:
        assert ended(who, transfer).state is TransferState.DONE
    for folder in folders:
        assert len(names(folder)) == 53


def test_a_folder_that_cannot_be_read_whole_is_no_snapshot(
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
    assert "model.py: It cannot be read: Permission denied." in (failed.problem.detail or "")
    assert not Path(job_dir(tmp_path).work).exists()


def test_links_that_lead_elsewhere_are_told_of_a_snapshot(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    (source / "link").symlink_to("/etc")
    done = snapshot(transfers, source, job_dir(tmp_path))
    assert done.state is TransferState.DONE
    assert done.left_out is not None
    assert list(done.left_out.reasons) == ["link"]


def test_no_folder_a_file_and_the_whole_home_are_refused(
    transfers: Transfers, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = LocalTransport()
    with pytest.raises(NotFoundError):
        transfers.snapshot("c", far, str(tmp_path / "nothing"), job_dir(tmp_path))
    with pytest.raises(NotFoundError):
        transfers.snapshot("c", far, str(source / "model.py"), job_dir(tmp_path))
    monkeypatch.setenv("HOME", str(source))
    with pytest.raises(RequestError, match="as a whole"):
        transfers.snapshot("c", far, str(source), job_dir(tmp_path))


# --- on a real Slurm --------------------------------------------------------------------------


@pytest.fixture
def staged(
    slurm_cluster: SlurmCluster,
    way: Sshd | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """Jobs run in a copy of their folder, as on a cluster with disks of the nodes' own."""
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


@pytest.mark.parametrize("fails", [False, True])
@over_ssh
def test_a_job_runs_in_what_was_pushed_and_its_files_come_back(
    site: Site, source: Path, tmp_path: Path, fails: bool
) -> None:
    wanted = {"fetch": ("results/**", "*.png", "sub/*"), "fetch_to": str(tmp_path / "back")}
    code = CODE + ("raise ValueError('no')" if fails else "")
    job = submitted(site, source, code, **wanted)
    (source / "model.py").write_text("edited later")
    job = site.wait(job.id)
    assert job.state is (JobState.FAILED if fails else JobState.COMPLETED)
    assert site.text(job.id) == f"x = 1\n {job.job_dir}/work\n"
    done = fetched(site, job)
    assert (done.state, done.files_done) == (TransferState.DONE, 2)
    back = tmp_path / "back"
    assert (back / "results" / "out.txt").read_text() == "42"
    assert (back / "plot.png").exists()
    # It was pushed, and the job has not touched it: what is here may be newer.
    assert not (back / "sub").exists()


@contextmanager
def held(site: Site, tmp_path: Path, source: Path) -> Iterator[None]:
    """Meanwhile nothing can be put in place there."""
    root = JobDir(PurePosixPath(tmp_path / "it's a root" / "x"))
    mirror = Path(mirror_of(root, places.host(), source))
    mirror.mkdir(parents=True)
    with Path(f"{mirror}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_what_is_excluded_stays_here(site: Site, source: Path) -> None:
    (source / ".gitignore").write_text("*.log\n")
    (source / "a.log").write_text("")
    (source / "b.log").write_text("")
    (source / "link").symlink_to("/etc")
    job = submitted(site, source, "1", push_exclude=("sub/", "!b.log"))
    job = site.wait(job.id)
    told = "Not pushed:\nlink: It is a link that leads outside, to /etc."
    assert (str(job.warning or "")).startswith(told)
    work = Path(job.job_dir) / "work"
    assert {path.name for path in work.iterdir()} == {".gitignore", "model.py", "b.log"}


@over_ssh
def test_what_is_pushed_is_seen_on_its_way_and_then_the_job(
    site: Site, source: Path, tmp_path: Path
) -> None:
    with held(site, tmp_path, source):
        job = submitted(site, source, "print(open('model.py').read())")
        assert job.state is JobState.SUBMITTING
        assert job.transfer is not None
        assert (job.transfer.state, job.transfer.local) == (TransferState.RUNNING, str(source))
        assert job.transfer.files is None  # who looks at the mirror waits for who removes it
        assert site.service.transfer(job.transfer.id).state is TransferState.RUNNING
        assert site.service.logs(job.id).job.transfer is not None
    job = site.wait(job.id)
    assert (job.state, job.transfer) == (JobState.COMPLETED, None)
    assert site.text(job.id) == "x = 1\n\n"


@over_ssh
def test_a_job_that_is_cancelled_while_its_folder_is_pushed_is_never_sent(
    site: Site, source: Path, tmp_path: Path
) -> None:
    with held(site, tmp_path, source):
        job = submitted(site, source, "1")
        assert job.transfer is not None
        site.service.cancel(job.id)
        job = site.wait(job.id)
    assert (job.state, job.transfer, job.problem) == (JobState.CANCELLED, None, None)
    assert site.slurm_jobs() == []


def test_a_job_that_has_ended_is_never_shown_to_be_pushed(
    site: Site, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_outcome = Transfers.outcome
    change = Book.change
    shown: list[tuple[JobState, Transfer | None]] = []
    stopped = threading.Event()

    def cancelled_meanwhile(self: Transfers, one: str, wait_s: float) -> Transfer:
        site.service.cancel(site.service.jobs()[0].id)
        return wait_for_outcome(self, one, wait_s)

    def seen(self: Book, job_id: str, **changes: Any) -> Job:
        job = change(self, job_id, **changes)
        shown.append((job.state, job.transfer))
        return job

    def stop(self: Transfers, one: str) -> Transfer:
        stopped.set()
        return self.transfer(one)

    monkeypatch.setattr(Transfers, "outcome", cancelled_meanwhile)
    monkeypatch.setattr(Transfers, "stop", stop)
    monkeypatch.setattr(Book, "change", seen)
    with held(site, tmp_path, source):
        submitted(site, source, "1")
        assert stopped.wait(60)
    assert (JobState.CANCELLED, None) in shown
    assert not [one for one in shown if one[0].final and one[1] is not None]


@over_ssh
def test_an_agent_that_ends_in_the_middle_of_a_push_leaves_it_to_the_next(
    site: Site, source: Path, tmp_path: Path
) -> None:
    with held(site, tmp_path, source):
        job = submitted(site, source, "print(open('model.py').read())")
        site.restart()
    assert site.wait(job.id).state is JobState.COMPLETED
    assert site.text(job.id) == "x = 1\n\n"


def test_a_push_of_an_agent_that_was_killed_is_not_shown_by_the_next(
    site: Site, source: Path, tmp_path: Path
) -> None:
    with held(site, tmp_path, source):
        pushing = submitted(site, source, "1")
    site.wait(pushing.id)
    site.service.close()
    store = Store(places.data_dir())
    (record,) = store.load()
    record.job = pushing
    store.save(record)
    assert site.restart().job(pushing.id).transfer != pushing.transfer


def test_a_job_whose_folder_cannot_be_pushed_leaves_no_variables_behind(
    site: Site, tmp_path: Path
) -> None:
    inputs = places.spool_dir() / "abcdefgh.vars"
    inputs.write_text("")
    with pytest.raises(NotFoundError):
        submitted(site, tmp_path / "nothing", "1", inputs=str(inputs))
    assert not inputs.exists()


@over_ssh
def test_the_copy_on_the_cluster_goes_with_the_last_job_that_was_pushed_from_it(
    site: Site, source: Path, tmp_path: Path
) -> None:
    jobs = [site.wait(submitted(site, source, "1").id) for _ in range(2)]
    pushed = tmp_path / "pushed"
    assert len(list(pushed.iterdir())) == 2  # the copy and its lock
    site.service.forget(jobs[0].id)
    assert len(list(pushed.iterdir())) == 2
    site.restart()
    site.service.forget(jobs[1].id)
    assert list(pushed.iterdir()) == []
    assert not Path(jobs[1].job_dir).exists()
    job = site.wait(submitted(site, source, "print(open('model.py').read())").id)
    assert site.text(job.id) == "x = 1\n\n"


def test_a_copy_that_is_being_pushed_to_is_not_taken_away(
    transfers: Transfers, source: Path, tmp_path: Path
) -> None:
    far, first, second = Slow(), job_dir(tmp_path), job_dir(tmp_path, "bbbbbbbb")
    begun = transfers.snapshot("c", far, str(source), first)
    assert far.reached.wait(60)
    transfers.remove(far, second, begun.remote, still_used=lambda: False)
    assert Path(begun.remote).exists()
    far.go_on.set()
    assert ended(transfers, begun).state is TransferState.DONE
    assert "model.py" in names(first)


@pytest.mark.parametrize("end", ["well", "fails", "cancelled"])
def test_a_staged_job_runs_on_the_node_and_its_files_come_back(
    staged: Site, source: Path, tmp_path: Path, end: str
) -> None:
    more = {"well": "", "fails": "raise ValueError", "cancelled": "import time; time.sleep(60)"}
    code = f"{CODE}\nprint('up', flush=True)\n{more[end]}"
    job = submitted(staged, source, code)
    if end == "cancelled":
        seen = ""
        cursor = ""
        while "up" not in seen:
            chunk = staged.service.logs(job.id, cursor, wait_s=30)
            cursor = chunk.cursor
            seen += str(chunk.outputs)
            assert not chunk.end
        staged.service.cancel(job.id)
    job = staged.wait(job.id)
    expected = {
        "well": JobState.COMPLETED, "fails": JobState.FAILED, "cancelled": JobState.CANCELLED
    }  # fmt: skip
    assert job.state is expected[end]
    assert f"{tmp_path}/node/" in staged.text(job.id)
    work = Path(job.job_dir) / "work"
    assert (work / "results" / "out.txt").read_text() == "42"
    assert (work / "model.py").read_text() == "changed over there"
    (users,) = (tmp_path / "node").iterdir()
    assert list(users.iterdir()) == []


def test_in_an_image_a_job_finds_what_was_pushed(
    site: Site, source: Path, demo_image: Path
) -> None:
    image = {"image": str(demo_image), "runtime": "charliecloud"}
    job = site.wait(submitted(site, source, CODE, **image).id)
    assert site.text(job.id) == "x = 1\n /mnt/job/work\n"
    assert (Path(job.job_dir) / "work" / "results" / "out.txt").read_text() == "42"


def test_in_an_image_a_staged_job_finds_it_on_the_node(
    staged: Site, source: Path, demo_image: Path
) -> None:
    image = {"image": str(demo_image), "runtime": "charliecloud"}
    job = staged.wait(submitted(staged, source, CODE, **image).id)
    assert staged.text(job.id) == "x = 1\n /mnt/work\n"
    assert (Path(job.job_dir) / "work" / "results" / "out.txt").read_text() == "42"


def test_a_staged_job_at_its_time_limit_gives_its_files_back(staged: Site, source: Path) -> None:
    code = f"{CODE}\nprint('up', flush=True)\nimport time; time.sleep(300)"
    job = submitted(staged, source, code, options={"time": "1"})
    wait_until(lambda: "up" in staged.so_far(job.id), 60)
    staged.cluster.end_time_of(staged.service.job(job.id).slurm_id or "")
    job = staged.wait(job.id, limit_s=150)
    assert job.state is JobState.TIMEOUT
    assert (Path(job.job_dir) / "work" / "results" / "out.txt").read_text() == "42"


def test_a_batch_script_runs_in_what_was_pushed(site: Site, source: Path) -> None:
    code = "#!/bin/sh\ncat model.py\npwd > here\n"
    job = submitted(site, source, code, kind=JobKind.SCRIPT)
    job = site.wait(job.id)
    assert (Path(job.job_dir) / "work" / "here").read_text() == f"{job.job_dir}/work\n"


def test_a_job_that_was_told_nothing_to_give_back_says_so(site: Site, tmp_path: Path) -> None:
    job = site.run("1")
    with pytest.raises(RequestError, match="was not told"):
        site.service.fetch(job.id)
    asked = site.run("1", fetch=("*.png",), fetch_to=str(tmp_path / "back"), cwd=str(tmp_path))
    done = fetched(site, asked)
    assert (done.state, done.files_done) == (TransferState.DONE, 0)


def test_the_agent_may_end_while_a_transfer_begins(
    transfers: Transfers, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, errors = threading.Thread.start, []

    def close() -> None:
        try:
            transfers.close()
        except RuntimeError as exc:
            errors.append(exc)

    def ends_meanwhile(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, "start", start)
        other = threading.Thread(target=close)
        other.start()
        other.join(0.5)  # it waits for the lock, where that is held
        thread.start()

    monkeypatch.setattr(threading.Thread, "start", ends_meanwhile)
    begun = transfers.push("c", LocalTransport(), str(source), str(tmp_path / "there"))
    ended(transfers, begun)
    assert errors == []
