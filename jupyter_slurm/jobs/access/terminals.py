"""Terminals in running jobs: a step on the job's node, whose bytes are handed over as a socket.

What runs there is node/terminal_step.py; its user is elsewhere (console.py), and what the two say
to each other is not looked at here.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath

import msgspec

from jupyter_slurm.errors import ForwardError, RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.access import plain_terminal
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import socket_name
from jupyter_slurm.jobs.kinds.terminal import Terminal
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.slurm import srun
from jupyter_slurm.slurm.versions import SlurmVersion, has_overlap
from jupyter_slurm.transport import node_program
from jupyter_slurm.wire import Job, JobState, TerminalRequest
from jupyter_slurm.wire.framing import frame
from jupyter_slurm.wire.terminal_frames import SETUP

_RUNS = frozenset((JobState.RUNNING, JobState.UNKNOWN, JobState.STOPPED, JobState.SIGNALING))
"""An UNKNOWN job may well run: it is the cluster that does not answer."""
_FILES = (*Terminal.node_files, "terminal_step.py")
_ENTER = '[ -x "$1" ] || shift; exec "$@"'
"""sh: jobs that an earlier release has submitted lack that file."""


class Terminals:
    def __init__(self, book: Book, clusters: Clusters) -> None:
        self._book = book
        self._clusters = clusters

    def open(self, request: TerminalRequest) -> socket.socket:
        """Return a socket for the terminal's frames; closing it leaves the terminal. Say BEGIN
        first.

        NotFoundError; RequestError: the job does not run; ForwardError: no step could be made.
        """
        job = self._book.job(request.job_id)
        if job.session is not None:
            job = self._book.job(job.session)
        slurm_id, node = _place(job)
        cluster = self._clusters.named(job.cluster)
        if kind_of(job).listens and not request.beside:
            argv_of = srun.beside_argv
            setup: dict[str, str | Sequence[str]] = {"hold": socket_name(job.id)}
        else:
            argv_of = srun.terminal_argv
            setup = {"run": _words(job, request.code)}
        version = cluster.srun_version()
        step = partial(argv_of, slurm_id, node=node, version=version)
        words = setup.get("run")
        try:
            channel = _begun(cluster, version, step)
        except ForwardError as exc:
            if words is None or node_program.NO_PYTHON not in (exc.detail or ""):
                raise
            return plain_terminal.begin(partial(cluster.converse, "srun"), step, words)
        body = msgspec.json.encode(setup)
        channel.settimeout(None)
        with suppress(ConnectionError):  # the reader of its bytes will find that it has ended
            channel.sendall(frame(SETUP, body))
        return channel


def _begun(
    cluster: SlurmCluster, version: SlurmVersion | None, beside: node_program.Beside
) -> socket.socket:
    converse = partial(cluster.converse, "srun")
    try:
        channel, _ = node_program.begin(
            converse, beside, cluster.profile.python, node_program.TERMINAL, _FILES
        )
    except ForwardError as exc:
        if version is not None and not has_overlap(version):
            raise ForwardError(
                exc.message,
                hint="Slurm {version} has no `srun --overlap` (since 20.11): a terminal has to "
                "wait until no other step of the job runs.",
                detail=exc.detail,
                version=version,
            ) from exc
        raise
    return channel


def _place(job: Job) -> tuple[str, str]:
    """Return Slurm's id and the node where the job's script runs. RequestError: it does not run."""
    if job.state.final or job.state is JobState.FINISHING:
        raise RequestError("Job {id} has ended: it is {state}.", id=job.id, state=job.state)
    if job.state not in _RUNS or not job.nodes or job.slurm_id is None:
        raise RequestError(
            "Job {id} does not run: it is {state}.",
            hint="`{slurm} why {job}` says what it waits for.",
            id=job.id,
            state=job.state,
            job=job.id,
        )
    return job.slurm_id, job.nodes[0]


def _words(job: Job, code: str) -> Sequence[str]:
    """Return argv for sh text run as the job's program is: its image, mounts and folder."""
    argv = ("/bin/sh", "-c", code)
    if kind_of(job).is_as_written:
        return argv
    folder = JobDir(PurePosixPath(job.job_dir))
    return ("/bin/sh", "-c", _ENTER, "sh", str(folder.path / layout.ENTER), *argv)
