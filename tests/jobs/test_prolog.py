"""A job whose node fails before it begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_slurm.wire import JobKind, JobState
from tests.jobs.conftest import Site, spec

MakeSite = Callable[..., Site]


@pytest.mark.parametrize("kind", [JobKind.CELL, JobKind.SCRIPT])
def test_a_job_whose_prolog_fails_says_that_it_never_started_and_what_its_node_says(
    private_site: MakeSite, tmp_path: Path, kind: JobKind
) -> None:
    prolog = tmp_path / "prolog"
    prolog.write_text("#!/bin/sh\nexit 1\n")
    prolog.chmod(0o755)
    site = private_site(nodes=1, extra_conf=(f"Prolog={prolog}", "PrologFlags=Alloc"))
    job = site.service.submit(
        spec("#!/bin/sh\nexit 0\n", kind=kind, options={"no-requeue": ""}, cwd=str(tmp_path))
    )
    job = site.wait(job.id)
    assert "Prolog error" in str(job.why)
    # FAILED: the node had been told to start the job before its Prolog failed.
    assert job.state in (JobState.CANCELLED, JobState.FAILED)
    assert job.started_s is None
