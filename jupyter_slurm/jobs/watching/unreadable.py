"""Confine a job's unreadable data to that job's `problem`."""

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
def noting_errors(registry: JobRegistry, job_id: str) -> Iterator[None]:
    """Turn an exception inside into the job's `problem`. Raise it if the connection dropped, which
    concerns every job. Ignore it if the job was forgotten."""
    try:
        yield
    except NotFoundError:
        pass
    except JupyterSlurmError as exc:
        if isinstance(exc, TransportError) and not isinstance(exc, FileAccessError):
            raise
        note_problem(registry, job_id, exc)
    except Exception as exc:  # noqa: BLE001 (a watcher serves all jobs of a cluster)
        _log.exception("cannot read the cluster's data about %s", job_id)
        note_problem(registry, job_id, unreadable(exc))


def note_problem(registry: JobRegistry, job_id: str, error: JupyterSlurmError) -> None:
    """Set the job's problem and the time of its first occurrence; not for an ended job."""
    with registry.lock(), suppress(NotFoundError):  # forgotten meanwhile
        job = registry.job(job_id)
        if not job.state.final:
            since_s = job.problem_since_s or time.time()
            registry.change(job_id, problem=error.problem(), problem_since_s=since_s)
