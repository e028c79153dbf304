"""Submissions that a site's plugins and wrappers change or reject."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from jupyter_slurm.commands.steering import steer_each
from jupyter_slurm.errors import SubmitError
from jupyter_slurm.wire import Job, JobSpec, JobState, ScriptSpec
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

MakeSite = Callable[..., Site]
SUBMIT_LUA = """
function slurm_job_submit(job_desc, part_list, submit_uid)
  {body}
  return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end
return slurm.SUCCESS
"""
REWRITES = """
  job_desc.comment = "site=1"; job_desc.name = "site"
  job_desc.partition = "long"; job_desc.time_limit = 7
  slurm.log_user("Moved to long.\\nSee the wiki.")
"""
SCRIPT = "#!/bin/sh\n#SBATCH -J named\necho up\nsleep {seconds}\nexit 3\n"


def with_plugin(private_site: MakeSite, body: str) -> Site:
    """Return a site with a job_submit plugin that runs `body` for each submission."""
    site = private_site(nodes=1)
    plugin = site.cluster.conf.with_name("job_submit.lua")
    plugin.write_text(SUBMIT_LUA.format(body=body), encoding="utf-8")
    configure(site, "JobSubmitPlugins=lua")
    return site


def configure(site: Site, *lines: str) -> None:
    """Append these lines to slurm.conf, and restart the controller."""
    with site.cluster.conf.open("a", encoding="utf-8") as conf:
        conf.write("".join(f"{line}\n" for line in lines))
    site.cluster.kill_controller()
    site.cluster.start_controller()


def script(site: Site, text: str, **changes: Any) -> ScriptSpec:
    return ScriptSpec(code=text, cwd=str(site._home), name="script", id=spec("").id, **changes)


def test_job_changed_by_a_submit_plugin_shows_slurms_values(
    private_site: MakeSite,
) -> None:
    site = with_plugin(private_site, REWRITES)
    runs = site.service.submit(script(site, SCRIPT.format(seconds=600)))
    site.wait(runs.id, JobState.RUNNING)
    cell = site.service.submit(spec("import time; print('up', flush=True); time.sleep(600)"))
    ends = site.service.submit(script(site, SCRIPT.format(seconds=0)))
    wait_until(lambda: site.service.job(cell.id).partition == "long")
    job = site.wait(cell.id, JobState.RUNNING)
    assert (job.partition, job.limit_s) == ("long", 420)
    assert str(job.warning).endswith("See the wiki.")
    wait_until(lambda: "up" in site.so_far(runs.id))
    listed = {row.slurm_id: row.id for row in site.service.queue()}
    for one in (runs, cell):
        assert listed[site.service.job(one.id).slurm_id or ""] == one.id
    for one in (runs, cell):
        site.service.cancel(one.id)
        assert site.wait(one.id).state is JobState.CANCELLED
    job = site.wait(ends.id)
    assert (job.state, job.exit_code, job.inferred) == (JobState.FAILED, 3, False)
    assert "up" in site.text(ends.id)


HETEROGENEOUS = """#!/bin/sh
#SBATCH -J het --mem=100 -n1 -t 5
#SBATCH hetjob
#SBATCH --mem=200 -n1 -t 5
echo up
sleep {seconds}
exit {code}
"""


def test_heterogeneous_job_is_found_and_cancelled_by_any_component_id(
    site: Site,
) -> None:
    runs = site.service.submit(script(site, HETEROGENEOUS.format(seconds=600, code=0)))
    ends = site.service.submit(script(site, HETEROGENEOUS.format(seconds=0, code=3)))
    job = site.wait(runs.id, JobState.RUNNING)
    wait_until(lambda: "up" in site.so_far(runs.id))
    assert job.nodes
    for word in (job.slurm_id, f"{job.slurm_id}+0", f"{job.slurm_id}+1"):
        assert site.service.job(word or "").id == runs.id
    assert site.service.why(f"{job.slurm_id}+0").state is JobState.RUNNING
    assert [row.id for row in site.service.queue()].count(runs.id) == 1
    [(_, told)] = steer_each(site.service, "cancel", [f"{job.slurm_id}+1"])
    assert isinstance(told, str)
    assert site.wait(runs.id).state is JobState.CANCELLED
    job = site.wait(ends.id)
    assert (job.state, job.exit_code, job.inferred) == (JobState.FAILED, 3, False)
    assert "up" in site.text(ends.id)


ASKS = "Please name an account with -A."
WIKI = "See https://wiki/é"


def with_wrapper(site: Site, text: str) -> None:
    """Put a wrapper in front of the cluster's sbatch. It calls the real sbatch as "$SBATCH"."""
    folder = site._home / "wrapper"
    folder.mkdir()
    profile = tomllib.loads(site.cluster.profile_path.read_text(encoding="utf-8"))
    real = site.cluster.run("sh", "-c", "command -v sbatch").stdout.strip()
    (folder / "sbatch").write_text(f"#!/bin/sh\nSBATCH={real}\n{text}\n", encoding="utf-8")
    (folder / "sbatch").chmod(0o755)
    site.edit_profile(path=[str(folder), *profile.get("path", [])])


def refused(site: Site, asked: JobSpec) -> Job:
    """Return the rejected job, at once or after two look-ups."""
    with suppress(SubmitError):
        site.service.submit(asked)
    job = site.wait(asked.id, limit_s=30)
    assert job.state is JobState.REJECTED
    return job


def lines_of(job: Job) -> list[str]:
    """Return the lines of the refusal that the user sees."""
    assert job.problem is not None
    told = (job.problem.message, job.problem.detail)
    return [line for text in told if text is not None for line in str(text).splitlines()]


def test_sbatch_wrapper_that_submits_nothing_is_quoted(site: Site) -> None:
    with_wrapper(site, f"echo '{ASKS}'; echo '{WIKI}' >&2; exit 0")
    job = refused(site, spec("1"))
    assert {ASKS, WIKI} <= set(lines_of(job))
    assert site.slurm_jobs() == []


def test_sbatch_wrapper_that_hides_the_id_submits_one_job(site: Site) -> None:
    with_wrapper(site, '"$SBATCH" "$@" >/dev/null && echo Thanks')
    job = site.run("print('ran')", limit_s=60)
    assert job.state is JobState.COMPLETED
    assert len(site.slurm_jobs()) == 1
