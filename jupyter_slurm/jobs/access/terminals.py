"""Terminals in running jobs: a step on the job's node, whose bytes are handed over as a socket.

What runs there is node/terminal_step.py; its user is elsewhere (console.py), and what the two say
to each other is not looked at here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath

import msgspec

from jupyter_slurm.errors import CommandError, ForwardError, RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.access import plain_terminal
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import socket_name
from jupyter_slurm.jobs.kinds.terminal import Terminal
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.allocation import ask_jobs
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.slurm import srun
from jupyter_slurm.slurm.units import parse_nodelist
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
        kind = kind_of(job)
        if request.number is not None and not kind.has_terminal:
            raise RequestError(
                "Job {id} keeps no terminals: one that is opened in it ends when it is left.",
                hint="`{slurm} shell --job {job}` opens one.",
                id=job.id,
                job=job.id,
            )
        cluster = self._clusters.named(job.cluster)
        if request.node is not None:
            node = self._checked(job, request.node, cluster)
        version = cluster.srun_version()
        words = None
        if kind.has_terminal or (kind.listens and not request.beside):
            step = partial(srun.beside_argv, slurm_id, node=job.nodes[0], version=version)
            setup: dict[str, object] = {"hold": socket_name(job.id)}
            if kind.has_terminal:
                count = partial(self._unasked_gpus, job, cluster=cluster)
                setup["wish"] = _wish(job, slurm_id, request, version, count)
        else:
            gpus = self._unasked_gpus(job, node, cluster)
            step = partial(srun.terminal_argv, slurm_id, node=node, version=version, gpus=gpus)
            words = _words(job, request.code)
            setup = {"run": words}
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

    def _unasked_gpus(self, job: Job, node: str, cluster: SlurmCluster) -> int:
        """Count the GPUs that the job has there without having asked for any."""
        if job.gpus:
            return 0
        with suppress(CommandError):  # it is a terminal without GPUs then
            rows = ask_jobs(cluster, self._book.record(job.id))
            return max((row.unasked_gpus(node) for row in rows), default=0)
        return 0

    def _checked(self, job: Job, node: str, cluster: SlurmCluster) -> str:
        """Return the node if the job runs there. RequestError names those where it does."""
        nodes = job.nodes
        if node not in nodes:  # of one that has just begun only the first may be known yet
            rows = ask_jobs(cluster, self._book.record(job.id))
            with suppress(ValueError):
                nodes = tuple(name for row in rows for name in parse_nodelist(row.nodelist or ""))
        if node not in nodes:
            raise RequestError(
                "Job {id} does not run on {node}.",
                hint="It runs on: {nodes}.",
                id=job.id,
                node=node,
                nodes=", ".join(nodes or job.nodes),
            )
        return node


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


def _wish(
    job: Job,
    slurm_id: str,
    request: TerminalRequest,
    version: SlurmVersion | None,
    count: Callable[[str], int],
) -> dict[str, object]:
    """Return which of the terminals of such a job is meant, as node/terminal.py reads it."""
    if request.number is not None:
        return {"number": request.number}
    node = request.node or (job.nodes[0] if request.beside else None)
    if node is None:
        return {}
    words = _words(job, request.code)
    if node != job.nodes[0]:
        words = srun.from_inside_argv(slurm_id, words, node=node, version=version, gpus=count(node))
    return {"new": request.beside, "node": node, "run": words}


def _words(job: Job, code: str) -> Sequence[str]:
    """Return argv for sh text run as the job's program is: its image, mounts and folder."""
    argv = ("/bin/sh", "-c", code)
    if kind_of(job).is_as_written:
        return argv
    folder = JobDir(PurePosixPath(job.job_dir))
    return ("/bin/sh", "-c", _ENTER, "sh", str(folder.path / layout.ENTER), *argv)
