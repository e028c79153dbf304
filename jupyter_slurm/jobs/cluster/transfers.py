"""The threads, progress and results of transfers. `transport/files/` copies the data.

Jobs use transfers for fetched files, and for the snapshot of a folder before submission. A pushed
folder has a mirror on the cluster, so that only changes are sent. The job's own folder `work` is a
copy of the mirror.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Literal

from jupyter_slurm import places
from jupyter_slurm.errors import FileAccessError, JupyterSlurmError, NotFoundError, RequestError
from jupyter_slurm.formatting import counted, reasons_told
from jupyter_slurm.jobs.layout import SCRIPT, JobDir
from jupyter_slurm.transport import Transport, check_stop, files
from jupyter_slurm.transport.files.manifest import shown
from jupyter_slurm.wire import Behind, Job, Problem, Transfer, TransferState

_KEPT = 100
"""The number of finished transfers to keep."""
_JOIN_S = 5.0
_SHORTEST_WAIT_S = 0.1
"""The shortest time between two reports to a waiting caller."""
_NAMED = 5
"""The maximum number of failed files to list by name."""
MIRROR_KEPT_DAYS = 30
"""Days after which the next push removes an unused mirror."""

# Copy the mirror $1 to the job's folder $2. An existing copy is complete and stays. Then remove one
# other mirror that has been unused for more than $3 days. More would keep the user waiting. Each
# push first updates the mirror's time under the mirror's lock (`files.mirror`), so a mirror with an
# old time is unused. On file systems without locks, all mirrors stay.
_SNAPSHOT_SH = """
[ -d "$2/work" ] && exit 0
(umask 077; mkdir -p -m 700 -- "${2%/*}" "$2") && [ -O "$2" ] && [ ! -L "$2" ] || exit 1
chmod 700 -- "$1" "$2" || exit 1
rm -rf -- "$2/work.partial" && mkdir -- "$2/work.partial" || exit 1
cp -a --reflink=auto -- "$1/." "$2/work.partial" 2>/dev/null ||
  cp -a -- "$1/." "$2/work.partial" || exit 1
rm -rf -- "$2/work.partial/.jupyter-slurm" && mv -- "$2/work.partial" "$2/work" || exit 1
cd -- "${1%/*}" && command -v flock >/dev/null 2>&1 || exit 0
find . ! -name . -prune -type d -mtime "+$3" -print | while read -r old; do
  [ -e "$old.lock" ] && flock -n "$old.lock" sh -c '
    [ -n "$(find "$1" -prune -mtime "+$2")" ] && rm -rf -- "$1" "$1.lock"
  ' old "$old" "$3" && break
done
exit 0
"""

_log = logging.getLogger(__name__)


class Transfers:
    def __init__(self) -> None:
        self._running: dict[str, _Running] = {}
        self._targets: dict[tuple[str, str], threading.Lock] = {}
        self._lock = threading.Lock()
        self._closed = False

    def push(
        self,
        cluster: str,
        transport: Transport,
        local: str,
        remote: str,
        exclude: Sequence[str] = (),
    ) -> Transfer:
        """Start a push. Raise RequestError if `local` is not an absolute path."""

        def work(one: _Running) -> files.TransferReport:
            with self._alone(cluster, remote, one.stop):
                return files.push(
                    transport, Path(local), remote, exclude=exclude, progress=one, stop=one.stop
                )

        return self._begin(_Running(cluster, "push", _absolute(local), remote), work)

    def pull(
        self,
        cluster: str,
        transport: Transport,
        remote: str,
        local: str,
        exclude: Sequence[str] = (),
    ) -> Transfer:
        """Start a pull. Raise RequestError if `local` is not an absolute path."""

        def work(one: _Running) -> files.TransferReport:
            with self._alone_here(local, one.stop):
                return files.pull(
                    transport, remote, Path(local), exclude=exclude, progress=one, stop=one.stop
                )

        return self._begin(_Running(cluster, "pull", _absolute(local), remote), work)

    def fetch(self, transport: Transport, job: Job) -> Transfer:
        """Start fetching the requested files that the job has written.

        Raise RequestError if the job was submitted without --fetch. The transfer of a job without
        its own folder is empty, since the files are already in place.
        """
        if not job.fetch or job.fetch_to is None:
            raise RequestError(
                f"Job {job.id} was submitted without --fetch.",
                hint="Submit it again with --fetch 'results/**', or use `%slurm pull`.",
            )
        folder, local = JobDir(PurePosixPath(job.job_dir)), job.fetch_to

        def work(one: _Running) -> files.TransferReport:
            with self._alone_here(local, one.stop):
                try:
                    # Fetch only files newer than job.sh, because pushed copies may be older than
                    # the local files.
                    return files.pull(
                        transport,
                        str(folder.work),
                        Path(local),
                        include=job.fetch,
                        since=str(folder.path / SCRIPT),
                        progress=one,
                        stop=one.stop,
                    )
                except NotFoundError:
                    return files.TransferReport()

        return self._begin(_Running(job.cluster, "pull", _absolute(local), str(folder.work)), work)

    def snapshot(
        self,
        cluster: str,
        transport: Transport,
        local: str,
        job_dir: JobDir,
        exclude: Sequence[str] = (),
    ) -> Transfer:
        """Start copying the current state of the folder `local` to the job's folder.

        A repeated call for the same job does not change the job's folder. The transfer fails if any
        file is unreadable. Raises NotFoundError, or RequestError if the folder cannot be pushed.
        """
        folder = pushed_folder(local)
        target = mirror_of(job_dir, places.host(), folder)

        def work(one: _Running) -> files.TransferReport:
            with self._alone("", str(target), one.stop):
                return files.mirror(
                    transport,
                    folder,
                    str(target),
                    exclude=exclude,
                    progress=one,
                    stop=one.stop,
                    lock=lock_of(str(target)),
                    then=snapshot_argv(target, job_dir),
                )

        return self._begin(_Running(cluster, "push", local, str(target)), work)

    def remove(
        self,
        transport: Transport,
        job_dir: JobDir,
        mirror: str | None,
        *,
        still_used: Callable[[], bool],
    ) -> None:
        """Remove the job's folder. Also remove the mirror of the pushed folder, unless another job
        or a running push uses the mirror."""
        if mirror is None or not (lock := self._lock_of("", mirror)).acquire(blocking=False):
            transport.remove_tree(job_dir.path)
            return
        try:
            mirrors = [] if still_used() else [mirror, lock_of(mirror)]
            transport.remove_tree(job_dir.path, *map(PurePosixPath, mirrors))
        finally:
            lock.release()

    def transfer(self, transfer_id: str, wait_s: float = 0.0) -> Transfer:
        """Return the transfer; wait up to `wait_s` for progress. Raises NotFoundError."""
        return self._find(transfer_id).wait(wait_s)

    def outcome(self, transfer_id: str, wait_s: float) -> Transfer:
        """Return the transfer; wait up to `wait_s` for its end."""
        return self._find(transfer_id).wait_for_end(wait_s)

    def stop(self, transfer_id: str) -> Transfer:
        """Stop the transfer, and wait briefly for its end."""
        one = self._find(transfer_id)
        one.stop.set()
        if one.thread is not None:
            one.thread.join(_JOIN_S)
        return one.value()

    @property
    def running(self) -> bool:
        """Return whether a transfer is running."""
        with self._lock:
            return any(not one.has_ended for one in self._running.values())

    def close(self) -> None:
        """Stop all transfers. Later transfers stop at their start."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        for one in running:
            one.stop.set()
        for one in running:
            if one.thread is not None:
                one.thread.join(_JOIN_S)

    def _find(self, transfer_id: str) -> _Running:
        with self._lock:
            one = self._running.get(transfer_id)
        if one is None:
            raise NotFoundError(f"Unknown transfer {transfer_id!r}.")
        return one

    def _begin(self, one: _Running, work: Callable[[_Running], files.TransferReport]) -> Transfer:
        with self._lock:
            ended = [key for key, known in self._running.items() if known.has_ended]
            for key in ended[: max(0, len(ended) - _KEPT)]:
                del self._running[key]
            name = f"{one.direction} {one.id}"
            one.thread = threading.Thread(target=one.run, args=(work,), name=name, daemon=True)
            if self._closed:
                one.stop.set()
            one.thread.start()  # before a caller can find it and wait for its end
            self._running[one.id] = one
        return one.value()

    @contextmanager
    def _alone_here(self, local: str, stop: threading.Event) -> Iterator[None]:
        """Lock the local target. If it is not a folder, also lock its parent folder."""
        target = Path(local).expanduser().resolve()
        with ExitStack() as locks:
            for one in [target] if target.is_dir() else [target.parent, target]:
                locks.enter_context(self._alone("", str(one), stop))
            yield

    @contextmanager
    def _alone(self, where: str, target: str, stop: threading.Event) -> Iterator[None]:
        """Lock the target, since two concurrent transfers would remove each other's temporary
        files."""
        lock = self._lock_of(where, target)
        while not lock.acquire(timeout=_SHORTEST_WAIT_S):
            check_stop(stop)
        try:
            yield
        finally:
            lock.release()

    def _lock_of(self, where: str, target: str) -> threading.Lock:
        with self._lock:
            return self._targets.setdefault((where, target), threading.Lock())


class _Running:
    """A transfer, which implements `files.Progress`."""

    def __init__(
        self, cluster: str, direction: Literal["push", "pull"], local: str, remote: str
    ) -> None:
        self.id = secrets.token_hex(4)
        self.cluster = cluster
        self.direction: Literal["push", "pull"] = direction
        self.stop = threading.Event()
        self.thread: threading.Thread | None = None
        self._local = local
        self._remote = remote
        self._began_s = time.time()
        self._ended_s: float | None = None
        self._state = TransferState.RUNNING
        self._problem: Problem | None = None
        self._failed: Behind | None = None
        self._left_out: Behind | None = None
        self._planned: tuple[int, int, int] | None = None
        self._files = self._bytes = 0
        self._news = threading.Condition()
        self._revision = 0

    @property
    def has_ended(self) -> bool:
        return self._state is not TransferState.RUNNING

    def planned(self, files: int, size_bytes: int, same: int) -> None:
        with self._news:
            self._planned = (files, size_bytes, same)
            self._tell()

    def moved(self, files: int, size_bytes: int) -> None:
        with self._news:
            self._files += files
            self._bytes += size_bytes
            self._tell()

    def run(self, work: Callable[[_Running], files.TransferReport]) -> None:
        try:
            outcome = work(self)
            self._end(None, outcome)
        except JupyterSlurmError as exc:
            self._end(exc.problem(), None)
        except Exception as exc:  # noqa: BLE001 (a thread must not die silently)
            _log.exception("the transfer %s failed", self.id)
            sentence = f"Internal error: {exc!r}."
            self._end(Problem(code="error", message=sentence), None)

    def _end(self, problem: Problem | None, outcome: files.TransferReport | None) -> None:
        with self._news:
            if outcome is not None:
                self._failed, self._left_out = map(_behind, (outcome.failed, outcome.left_out))
                problem = _not_arrived(self._failed) if self._failed else None
                self._planned = (
                    outcome.files + len(outcome.failed), outcome.size_bytes, outcome.same
                )  # fmt: skip
                self._files, self._bytes = outcome.files, outcome.size_bytes
            stopped = outcome is None and self.stop.is_set()
            self._problem = None if stopped else problem
            self._ended_s = time.time()
            if stopped:
                self._state = TransferState.STOPPED
            else:
                self._state = TransferState.FAILED if problem else TransferState.DONE
            self._tell()

    def _tell(self) -> None:
        self._revision += 1
        self._news.notify_all()

    def wait(self, wait_s: float) -> Transfer:
        deadline_s = time.monotonic() + wait_s
        with self._news:
            seen = self._revision
            if not self.has_ended:
                self._news.wait_for(lambda: self._revision > seen, wait_s)
                # Combine changes in quick succession into one answer.
                left_s = min(deadline_s - time.monotonic(), _SHORTEST_WAIT_S)
                self._news.wait_for(lambda: self.has_ended, max(0.0, left_s))
        return self.value()

    def wait_for_end(self, wait_s: float) -> Transfer:
        with self._news:
            self._news.wait_for(lambda: self.has_ended, wait_s)
        return self.value()

    def value(self) -> Transfer:
        with self._news:
            count, size_bytes, same = self._planned or (None, None, 0)
            return Transfer(
                id=self.id,
                cluster=self.cluster,
                direction=self.direction,
                local=self._local,
                remote=self._remote,
                state=self._state,
                files=count,
                bytes=size_bytes,
                files_done=self._files,
                bytes_done=self._bytes,
                files_same=same,
                failed=self._failed,
                left_out=self._left_out,
                began_s=self._began_s,
                ended_s=self._ended_s,
                problem=self._problem,
            )


def _behind(reasons: Mapping[bytes, str]) -> Behind | None:
    first = sorted(reasons.items())[:_NAMED]
    if not first:
        return None
    return Behind(count=len(reasons), reasons={shown(name): why for name, why in first})


def _not_arrived(failed: Behind) -> Problem:
    return Problem(
        code=FileAccessError.code,
        message=f"{counted(failed.count, 'file')} did not arrive.",
        detail="\n".join(reasons_told(failed.reasons, failed.count)),
    )


def pushed_folder(local: str) -> Path:
    """Return the local folder to push with a job. Raises NotFoundError, or RequestError if the
    folder cannot be pushed."""
    folder = Path(_absolute(local))
    if not folder.is_dir():
        raise NotFoundError(f"Folder {local} not found on this machine.")
    if folder in (Path.home(), Path("/")):
        raise RequestError(
            f"Cannot push all of {local} with a job.",
            hint="Put the job's files into a folder of their own, and push it with --push DIR.",
        )
    return folder


def _absolute(local: str) -> str:
    if not Path(local).is_absolute():
        raise RequestError(
            f"{local!r} is a relative path.",
            hint="Use an absolute path on this machine.",
        )
    return local


def mirror_of(job_dir: JobDir, host: str, folder: Path) -> PurePosixPath:
    """Return the path of the mirror of the local `folder`, beside `job_root`."""
    of = f"{host}\0{folder}"
    digest = hashlib.blake2b(of.encode(errors="surrogateescape"), digest_size=10)
    return job_dir.path.parent.parent / "pushed" / digest.hexdigest()


def lock_of(mirror: str) -> str:
    """Return the lock file of a mirror. It is locked while the mirror is changed or removed."""
    return f"{mirror}.lock"


def snapshot_argv(mirror: PurePosixPath, job_dir: JobDir) -> list[str]:
    """Return the command that copies the mirror into the job's folder once."""
    words = [str(mirror), str(job_dir.path), str(MIRROR_KEPT_DAYS)]
    return ["sh", "-c", _SNAPSHOT_SH, "snapshot", *words]
