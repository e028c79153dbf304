"""Accounting: history, usage, and jobs that the controller has purged."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from jupyter_slurm.job import JobHandle
from jupyter_slurm.wire import JobKind, JobState, ListedJob, Usage
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

LONG = "import time; time.sleep(600)"


def test_accounting_provides_history_usage_and_purged_jobs(
    private_site: Callable[..., Site], tmp_path: Path
) -> None:
    """One test with one cluster, since a database starts slowly."""
    site = private_site(accounting=True, extra_conf=("MinJobAge=2",))
    history_is_what_has_ended_the_latest_first(site)
    a_script_has_used_so_much(site)
    what_the_controller_forgot_is_remembered(site, tmp_path)


def history_is_what_has_ended_the_latest_first(site: Site) -> None:
    began_s = time.time()
    theirs = site.cluster.submit("--output=/dev/null", stdin="#!/bin/sh\nexit 3")
    array = site.cluster.submit("--output=/dev/null", "--array=1-2", stdin="#!/bin/sh\n")
    site.run("1")
    running = site.service.submit(spec(LONG))
    site.wait(running.id, JobState.RUNNING)
    site.cluster.submit("--uid=nobody", "--output=/dev/null", "--chdir=/", stdin="#!/bin/sh\n")
    found: list[ListedJob] = []

    def all_are_told() -> bool:
        nonlocal found
        found = site.service.history()
        by_id = {row.slurm_id: row for row in found}
        return theirs in by_id and array in by_id and by_id[array].tasks == {"COMPLETED": "1-2"}

    wait_until(all_are_told)
    assert {row.slurm_id for row in found} == {theirs, array}, "one of our jobs already has a row"
    by_id = {row.slurm_id: row for row in found}
    assert (by_id[theirs].state, by_id[array].state) == ("FAILED", "COMPLETED")
    ends = [row.ended_s or 0.0 for row in found]
    assert ends == sorted(ends, reverse=True)
    assert ends[-1] >= began_s - 1
    assert site.service.history(days=1e-9) == []
    site.service.cancel(running.id)


def a_script_has_used_so_much(site: Site) -> None:
    code = "#!/bin/sh\npython3 -c 'x = bytearray(200 << 20); import time; time.sleep(3)'"
    job = site.service.submit(spec(code, kind=JobKind.SCRIPT, options={"mem": "1G"}))
    assert site.wait(job.id).state is JobState.COMPLETED
    wait_until(lambda: (site.service.job(job.id).usage or Usage()).peak_memory_mib is not None)
    usage = site.service.job(job.id).usage
    assert usage is not None
    assert usage.memory_mib == 1024
    assert 200 <= (usage.peak_memory_mib or 0) < 1024


def what_the_controller_forgot_is_remembered(site: Site, tmp_path: Path) -> None:
    """Accounting also has the IDs of an array's tasks, which are in the names of their files."""
    code = "#!/bin/sh\necho $SLURM_ARRAY_TASK_ID; [ $SLURM_ARRAY_TASK_ID = 1 ] || exit 3\n"
    code += f"until [ -e {tmp_path}/gate ]; do sleep 0.1; done"
    options = {"array": "1-3%1", "output": f"{tmp_path}/%j.txt"}
    array = site.service.submit(spec(code, kind=JobKind.SCRIPT, options=options))
    wait_until(lambda: site.so_far(array.id).endswith("1\n"))
    script = site.service.submit(spec("#!/bin/sh\nexit 3", kind=JobKind.SCRIPT))
    cancelled = site.service.submit(spec(LONG))
    site.wait(cancelled.id, JobState.RUNNING)
    site.service.close()
    (tmp_path / "gate").touch()
    site.cluster.run("scancel", cancelled.slurm_id or "")
    site.wait_until_slurm_forgets()
    site.restart()
    assert str(site.wait(array.id).why) == "Tasks 2-3 failed: exit code 3."
    handle = JobHandle(site.service, array)
    assert [handle.task_output(task) for task in (1, 2, 3)] == ["1\n", "2\n", "3\n"]
    failed = site.wait(script.id)
    assert (failed.state, failed.exit_code) == (JobState.FAILED, 3)
    ended = site.wait(cancelled.id)
    assert ended.state is JobState.CANCELLED
    assert "by" in str(ended.why or "")
