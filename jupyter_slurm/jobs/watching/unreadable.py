"""Keeps what cannot be read of one job from the watcher of all: that job says so, no other."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from jupyter_slurm.errors import FileAccessError, JupyterSlurmError, NotFoundError, TransportError
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.untrusted_json import unreadable

_log = logging.getLogger(__name__)


@contextmanager
def stumbling(registry: JobRegistry, job_id: str) -> Iterator[None]:
    """Put what goes wrong inside into the job's `problem`, but raise it where the way is lost,
    which concerns every job. Pass over a job that was forgotten meanwhile."""
    try:
        yield
    except NotFoundError:
        pass
    except JupyterSlurmError as exc:
        if isinstance(exc, TransportError) and not isinstance(exc, FileAccessError):
            raise
        note_problem(registry, job_id, exc)
    except Exception as exc:  # noqa: BLE001 (a watcher serves all jobs of a cluster)
        _log.exception("what the cluster says of %s could not be read", job_id)
        note_problem(registry, job_id, unreadable(exc))


def note_problem(registry: JobRegistry, job_id: str, error: JupyterSlurmError) -> None:
    """Make `error` the job's problem, with its first time; an ended job gets none."""
    with registry.lock(), suppress(NotFoundError):  # it was forgotten meanwhile
        job = registry.job(job_id)
        if not job.state.final:
            since_s = job.problem_since_s or time.time()
            registry.change(job_id, problem=error.problem(), problem_since_s=since_s)
