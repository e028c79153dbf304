"""What is left of a site's jobs on this machine, wherever it has got to."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

from jupyter_slurm.wire import Job
from tests.jobs.conftest import Site


def processes_of(site: Site) -> list[str]:
    """The command lines of what runs of a site's jobs."""
    return [words for _, words in processes(*site.service.jobs())]


def processes(*jobs: Job) -> list[tuple[psutil.Process, str]]:
    """What has a job's environment, with its command line. Slurm's ids do not tell: other clusters
    of the tests give out the same."""
    ours = {f"SLURM_JOB_NAME={job.name}.{job.id}".encode() for job in jobs}
    running = []
    for one in psutil.process_iter():
        with suppress(OSError, psutil.Error):  # it has just ended
            environment = Path(f"/proc/{one.pid}/environ").read_bytes().split(b"\0")
            if not ours.isdisjoint(environment):
                running.append((one, " ".join(one.cmdline())))
    return running
