"""Search for processes that a site's jobs left on this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

from jupyter_slurm.wire import Job
from tests.jobs.conftest import Site


def processes_of(site: Site) -> list[str]:
    """Return the command lines of a site's job processes."""
    return [words for _, words in processes(*site.service.jobs())]


def processes(*jobs: Job) -> list[tuple[psutil.Process, str]]:
    """Return processes with a job's environment, and their command lines. Slurm's IDs are not
    enough, since other clusters of the tests use the same IDs."""
    ours = {f"SLURM_JOB_NAME={job.name}.{job.id}".encode() for job in jobs}
    running = []
    for one in psutil.process_iter():
        with suppress(OSError, psutil.Error):  # the process has just ended
            environment = Path(f"/proc/{one.pid}/environ").read_bytes().split(b"\0")
            if not ours.isdisjoint(environment):
                running.append((one, " ".join(one.cmdline())))
    return running
