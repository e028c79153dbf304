"""Sessions on a real Slurm: cells that run in one process on the node, one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_slurm.errors import SubmitError
from jupyter_slurm.wire import (
    ExecuteResult,
    Job,
    JobKind,
    JobState,
)
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0


def start(site: Site, **changes: Any) -> Job:
    """A session that runs, its process there."""
    wanted = {"runtime": "none", "idle_s": 600, "kind": JobKind.SESSION, **changes}
    session = site.service.submit(spec("", **wanted))
    site.wait(session.id, JobState.RUNNING, limit_s=PATIENCE_S)
    wait_until(lambda: said_hello(site, session.id), PATIENCE_S)
    return site.service.job(session.id)


def said_hello(site: Site, session_id: str) -> bool:
    site.service.logs(session_id)
    return site.service.job(session_id).python is not None


def send(site: Site, session: Job, code: str, **changes: Any) -> Job:
    return site.service.submit(spec(code, session=session.id, **changes))


def run(site: Site, session: Job, code: str, **changes: Any) -> Job:
    return site.wait(send(site, session, code, **changes).id, limit_s=PATIENCE_S)


def stop(site: Site, session: Job) -> Job:
    site.service.cancel(session.id)
    return site.wait(session.id, limit_s=PATIENCE_S)


def shown(site: Site, job: Job) -> list[str]:
    return [o.data["text/plain"] for o in site.outputs(job.id) if isinstance(o, ExecuteResult)]


def test_cells_of_a_session_share_their_state_and_cost_slurm_one_job(site: Site) -> None:
    session = start(site)
    assert run(site, session, "x = 40\nprint('hello')").state is JobState.COMPLETED
    second = run(site, session, "x += 2\nx")
    assert second.state is JobState.COMPLETED
    assert second.session == session.id
    assert second.slurm_id is None
    assert shown(site, second) == ["42"]
    assert site.service.result(second.id).status == "ok"
    assert len(site.slurm_jobs()) == 1
    ended = stop(site, session)
    assert ended.state is JobState.CANCELLED
    assert ended.why == "You stopped it."
    with pytest.raises(SubmitError, match="has ended as CANCELLED"):
        send(site, session, "x")
