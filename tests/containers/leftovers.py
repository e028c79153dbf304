"""What is left of a site's jobs on this machine, wherever it has got to."""

from __future__ import annotations

from pathlib import Path

import psutil

from tests.jobs.conftest import Site


def processes_of(site: Site) -> list[str]:
    """The command lines of processes that have a job's environment. Slurm's ids do not tell: other
    clusters of the tests give out the same."""
    names = [f"{job.name}.{job.id}" for job in site.service.jobs()]
    ours = {f"SLURM_JOB_NAME={name}".encode() for name in names}
    running = []
    for one in psutil.process_iter():
        try:
            environment = Path(f"/proc/{one.pid}/environ").read_bytes().split(b"\0")
            if ours.intersection(environment):
                running.append(" ".join(one.cmdline()))
        except (OSError, psutil.Error):
            continue  # it has just ended
    return running
