"""Starts of the agent with any record and any failure of a cluster.

One agent has records in nine states, and records of the four kinds of job that resume differently.
Each test causes one of four failures of their cluster. The starting thread's calls, not its
duration, prove that the agent starts without the network.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_slurm.errors import ConfigError
from jupyter_slurm.jobs.records.registry import Record, Store
from jupyter_slurm.jobs.service import Service
from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE
from jupyter_slurm.wire import (
    Job,
    JobKind,
    JobSpec,
    JobState,
    Lab,
    LabStep,
    Transfer,
    TransferState,
)
from tests.cluster.plugin import SlurmCluster, jupyter_homes
from tests.jobs.conftest import LETTERS, QUICK, spec
from tests.specs import known, of_kind
from tests.ssh.profile import write_profile
from tests.ssh.sshd import Sshd

PATIENCE_S = 120.0
JOB = "stranded"
SESSION = "itssessn"
PROGRAM = "#!/bin/sh\necho it went on\n"

# --- records --------------------------------------------------------------------------------------

STATES: dict[str, dict[str, Any]] = {
    "submitting": {"state": JobState.SUBMITTING},
    "submitting, sbatch called": {"state": JobState.SUBMITTING, "sbatch_calls": 1},
    "submitting, cancelled": {
        "state": JobState.SUBMITTING,
        "sbatch_calls": 1,
        "cancel_requested_s": 3.0,
    },
    "pending": {"state": JobState.PENDING},
    "running": {"state": JobState.RUNNING},
    "running, cancelled": {"state": JobState.RUNNING, "cancel_requested_s": 3.0},
    "unknown": {"state": JobState.UNKNOWN},
    "finishing": {"state": JobState.FINISHING},
    "completed": {"state": JobState.COMPLETED},
}
KINDS: dict[str, dict[str, Any]] = {
    "pushing a folder": {
        "state": JobState.SUBMITTING,
        "transfer": Transfer(
            id="t",
            cluster="far",
            direction="push",
            local="/src",
            remote="/dst",
            state=TransferState.RUNNING,
            began_s=1.0,
        ),
    },
    "a lab": {
        "state": JobState.RUNNING,
        "kind": JobKind.LAB,
        "lab": Lab(url="http://lab-stranded.localhost:1/", port=1, step=LabStep.STARTING),
    },
    "a cell for a session": {
        "state": JobState.SUBMITTING,
        "kind": JobKind.CELL,
        "session": SESSION,
    },
    "an image on the login machine": {"state": JobState.SUBMITTING, "on_login": True},
}
RECORDS = STATES | KINDS


def record(of: str, job_id: str = JOB, cluster: str = "far") -> Record:
    held = dict(RECORDS[of])
    calls = held.pop("sbatch_calls", 0)
    state = held["state"]
    sent = state is not JobState.SUBMITTING
    job = known(
        **{
            "id": job_id,
            "cluster": cluster,
            "name": "test",
            "kind": JobKind.PROGRAM,
            "submitted_s": 2.0 if sent else None,
            "slurm_id": "4000000000" if sent else None,
            "job_dir": f"/nowhere/{job_id}",
            **held,
        }
    )
    wanted = msgspec.convert(
        {
            "id": job_id,
            "name": "test",
            "code": PROGRAM,
            "kind": job.kind.value,
            "session": job.session,
            "on_login": job.on_login,
            "idle_s": 600,
        },
        JobSpec,
    )
    return Record(job=job, spec=None if sent else wanted, sbatch_calls=calls)


# --- failures of the cluster ----------------------------------------------------------------------


class Far:
    """A cluster `far` over SSH, and `local` on this machine, in the test's own home."""

    def __init__(self, home: Path, slurm: SlurmCluster, sshd: Sshd) -> None:
        self.home = home
        self.sshd = sshd
        self.job_root = home / "jobs"
        self.ssh_config = home / "ssh_config"
        self.keep = [socket.socket()]
        """A bound port without a listener."""
        self.keep[0].bind(("127.0.0.1", 0))
        self.records = Store(home / "data" / "jupyter-slurm" / _host())
        settings = msgspec.toml.decode(slurm.profile_path.read_text(encoding="utf-8"))
        self.settings = {**settings, **QUICK, "job_root": str(self.job_root)}
        write_profile(home / "config", "local", self.settings)
        self.mend()

    @property
    def profile(self) -> Path:
        return self.home / "config" / "jupyter-slurm" / "clusters.d" / "far.toml"

    def mend(self) -> None:
        """Restore the cluster."""
        write_profile(self.home / "config", "far", {**self.settings, "origin": None, "host": "far"})
        self._configure()

    def _configure(self, *lines: str) -> None:
        """Write ssh_config. `lines` come first and so take precedence."""
        self.ssh_config.write_text(self.sshd.stanza("far", *lines, "ConnectTimeout 1"))

    def login_needed(self) -> None:
        self._configure(f"IdentityFile {self.home}/no_such_key")
        text = self.ssh_config.read_text().replace(f"IdentityFile {self.sshd.key}\n", "\n")
        self.ssh_config.write_text(text)

    def silent(self) -> None:
        self.keep[0].listen()
        self._configure(f"Port {self.keep[0].getsockname()[1]}")

    def profile_broken(self) -> None:
        self.profile.write_text('host = "far\nruntime = 7\n')

    def record_garbage(self) -> None:
        for path in self.record_files():
            path.write_bytes(path.read_bytes()[:-20])

    def record_files(self) -> list[Path]:
        folder = self.home / "data" / "jupyter-slurm" / _host() / "jobs"
        return sorted(folder.glob("*.json"))


def _host() -> str:
    return socket.gethostname().split(".")[0] or "localhost"


TROUBLES: dict[str, Callable[[Far], None]] = {
    "login needed": Far.login_needed,
    "silent": Far.silent,
    "profile broken": Far.profile_broken,
    "record garbage": Far.record_garbage,
}
WORDS = {
    "login needed": "none of your keys",
    "silent": "did not answer",
    "profile broken": "far.toml",
}
"""The message of a job about each failure."""


@pytest.fixture(scope="module")
def far_sshd(request: pytest.FixtureRequest) -> Sshd:
    far = request.getfixturevalue("ssh_slurm")
    assert isinstance(far.sshd, Sshd)
    return far.sshd


@pytest.fixture
def far(
    slurm_cluster: SlurmCluster, far_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Far]:
    for name, value in jupyter_homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    far = Far(tmp_path, slurm_cluster, far_sshd)
    monkeypatch.setenv(CONFIG_VARIABLE, str(far.ssh_config))
    yield far
    far.keep[0].close()


# --- observation ----------------------------------------------------------------------------------

_NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
_PROGRAMS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.system")
_watched: dict[int, list[str]] = {}
"""The network and process calls of each thread."""


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if _watched and event in (*_NETWORK, *_PROGRAMS):
        done = _watched.get(threading.get_ident())
        if done is not None:
            done.append(f"{event} {args!r:.200}")


sys.addaudithook(_audit)


@contextmanager
def offline() -> Iterator[None]:
    """Fail if this thread uses the network or starts a program during the context."""
    done = _watched[threading.get_ident()] = []
    try:
        yield
    finally:
        del _watched[threading.get_ident()]
    assert not done


@contextmanager
def agent() -> Iterator[Service]:
    """Run a Service that starts without the network."""
    with offline():
        service = Service()
    try:
        yield service
    finally:
        service.close()


def unreadable_records(service: Service) -> list[Path]:
    """Return the record files that the status reports as unreadable."""
    paths = []
    for check in service.status().checks:
        assert check.hint is not None
        path = Path(str(check.sentence).partition(": ")[2].removesuffix("."))
        assert os.path.lexists(path)
        paths.append(path)
    return paths


def until(service: Service, job_id: str, ready: Callable[[Job], bool]) -> Job:
    deadline_s = time.monotonic() + PATIENCE_S
    cursor = ""
    while not ready(job := service.job(job_id)):
        left_s = deadline_s - time.monotonic()
        assert left_s > 0, f"{job.state}: {job.why} {job.problem}"
        cursor = service.changes(cursor, min(left_s, 1.0)).cursor
    return job


# --- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", TROUBLES)
def test_agent_reports_each_problem_and_serves_the_other_cluster(far: Far, trouble: str) -> None:
    names = {held: f"strande{letter}" for held, letter in zip(RECORDS, LETTERS, strict=False)}
    for held, job_id in names.items():
        far.records.save(record(held, job_id))
    session = record("running", SESSION)
    session.job = of_kind(JobKind.SESSION, session.job)
    far.records.save(session)
    TROUBLES[trouble](far)
    with agent() as service:
        assert {one.name for one in service.clusters()} >= {"local"}
        known = {job.id: job.state for job in service.jobs()}
        if trouble == "record garbage":
            assert known == {}
            named = {path.name for path in unreadable_records(service)}
            assert named == {f"{job_id}.json" for job_id in (*names.values(), SESSION)}
        else:
            states = {job_id: RECORDS[held]["state"] for held, job_id in names.items()}
            assert known == states | {SESSION: JobState.RUNNING}
            for held, job_id in names.items():
                says_what_is_the_matter(service, job_id, held, trouble)
        job = service.submit(spec(PROGRAM, kind=JobKind.PROGRAM, cluster="local"))
        assert until(service, job.id, lambda job: job.state.final).state is JobState.COMPLETED
        assert service.queue("local") is not None
        assert {one.cluster for one in service.connections()} >= {"local"}
        service.forget(job.id)


def says_what_is_the_matter(service: Service, job_id: str, held: str, trouble: str) -> None:
    """Assert that each unfinished job reports the failure."""
    state = RECORDS[held]["state"]
    if state.final:
        return
    job = until(service, job_id, lambda job: job.problem is not None)
    assert job.state is state, (held, job.why)
    assert job.transfer is None, held
    assert job.problem is not None
    said = "\n".join(
        filter(None, (str(job.problem.message), job.problem.detail, str(job.problem.hint or "")))
    )
    assert WORDS[trouble] in said, held


# --- after the failure ----------------------------------------------------------------------------


def _mended(far: Far, service: Service) -> None:
    far.mend()
    service.connect("far", "me", PATIENCE_S)


def _profile_mended(far: Far, service: Service) -> None:
    del service
    far.mend()


ENDS: dict[str, Callable[[Far, Service], None]] = {
    "silent": _mended,
    "profile broken": _profile_mended,
}


@pytest.mark.parametrize("trouble", ENDS)
def test_submitted_job_runs_and_a_cancelled_job_ends_after_an_outage(
    far: Far, trouble: str
) -> None:
    """The second job may have been submitted, so its end is unknown during the outage."""
    waits, cancelled = (stored(far, of) for of in ("submitting", "submitting, sbatch called"))
    TROUBLES[trouble](far)
    with agent() as service:
        for job_id in (waits, cancelled):
            until(service, job_id, lambda job: job.problem is not None)
        job = service.cancel(cancelled)
        assert job.state is JobState.SUBMITTING
        assert job.cancel_requested_s is not None
        assert job.problem is not None  # this is the reason why it is not cancelled yet
        ENDS[trouble](far, service)
        job = until(service, waits, lambda job: job.state.final)
        assert (job.state, job.problem) == (JobState.COMPLETED, None), job.why
        job = until(service, cancelled, lambda job: job.state.final)
        assert (job.state, job.problem) == (JobState.CANCELLED, None)


def stored(far: Far, of: str) -> str:
    """Save a record in this state, and return its ID. The ID is new, since Slurm remembers the IDs
    of other tests."""
    one = record(of, spec(PROGRAM).id)
    one.job = msgspec.structs.replace(one.job, job_dir=str(far.job_root / one.job.id))
    far.records.save(one)
    return one.job.id


# --- invalid records ------------------------------------------------------------------------------


def _replaced_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


GARBAGE: dict[str, Callable[[Path], object]] = {
    "nested": lambda path: path.write_bytes(b'{"more":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "a FIFO": _replaced_by_fifo,
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_unreadable_record_is_reported_and_other_records_are_read(far: Far, kind: str) -> None:
    far.records.save(record("running"))
    (path,) = far.record_files()
    GARBAGE[kind](path)
    far.records.save(record("completed", "thegood1"))
    for _ in range(2):  # the next agent reports it, too
        with agent() as service:
            assert [job.id for job in service.jobs()] == ["thegood1"]
            assert unreadable_records(service) == [path]


# --- profiles and folders -------------------------------------------------------------------------


MAIN_FILES = {
    "no TOML": b'[far]\nhost = "far\n',
    "a wrong setting": b'[far]\nhost = "far"\nruntime = 7\n',
}


@pytest.mark.parametrize("kind", MAIN_FILES)
def test_broken_clusters_toml_does_not_affect_other_clusters(far: Far, kind: str) -> None:
    far.profile.unlink()
    main = far.home / "config" / "jupyter-slurm" / "clusters.toml"
    main.write_bytes(MAIN_FILES[kind])
    main.chmod(0o600)
    far.records.save(record("running"))
    with agent() as service:
        clusters = {one.name: one.problem for one in service.clusters()}
        assert set(clusters) == {"far", "local"}
        assert clusters["local"] is None
        assert clusters["far"] is not None
        assert str(main) in str(clusters["far"].message)
        connections = {one.cluster: one.problem for one in service.connections()}
        assert connections == clusters
        with pytest.raises(ConfigError, match=re.escape(str(main))):
            service.queue("far")
        with pytest.raises(ConfigError, match=re.escape(str(main))):
            service.queue()  # another cluster does not replace the default
        job = until(service, JOB, lambda job: job.problem is not None)
        assert job.problem is not None
        assert str(main) in str(job.problem.message)
        with pytest.raises(ConfigError):
            service.forget(JOB)  # the cluster still exists
        done = service.submit(spec(PROGRAM, kind=JobKind.PROGRAM, cluster="local"))
        assert until(service, done.id, lambda job: job.state.final).state is JobState.COMPLETED


# --- actions on a stranded job --------------------------------------------------------------------


@pytest.mark.parametrize("held", ["submitting", "pushing a folder"])
def test_unsubmitted_job_is_cancelled_at_once(far: Far, held: str) -> None:
    far.records.save(record(held))
    far.silent()
    with agent() as service:
        job = service.cancel(JOB)
        assert (job.state, job.why) == (JobState.CANCELLED, "Cancelled by you before it was sent.")
    with agent() as service:
        assert service.job(JOB).state is JobState.CANCELLED
        assert service.job(JOB).problem is None
