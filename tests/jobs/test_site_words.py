"""Submissions that a site's plugins and wrappers change or refuse."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from jupyter_slurm.errors import SubmitError
from jupyter_slurm.job import steer_each
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
REWRITES = {
    "the comment appended to": 'job_desc.comment = job_desc.comment .. ";site=1"',
    "both replaced": 'job_desc.comment = "site=1"; job_desc.name = "site"',
    "both appended to": 'job_desc.comment = job_desc.comment .. ";site=1"; '
    'job_desc.name = job_desc.name .. "_1"',
    "both taken away": 'job_desc.comment = ""; job_desc.name = ""',
}
SCRIPT = "#!/bin/sh\n#SBATCH -J named\necho up\nsleep {seconds}\nexit 3\n"


def with_plugin(private_site: MakeSite, body: str) -> Site:
    """Return a site whose job_submit plugin does `body` to each submission."""
    site = private_site(nodes=1)
    plugin = site.cluster.conf.with_name("job_submit.lua")
    plugin.write_text(SUBMIT_LUA.format(body=body), encoding="utf-8")
    configure(site, "JobSubmitPlugins=lua")
    return site


def configure(site: Site, *lines: str) -> None:
    """Add these lines to slurm.conf and restart the controller."""
    with site.cluster.conf.open("a", encoding="utf-8") as conf:
        conf.write("".join(f"{line}\n" for line in lines))
    site.cluster.kill_controller()
    site.cluster.start_controller()


def has_restarted(site: Site, job_id: str) -> bool:
    return site.service.job(job_id).restarts == 1


def script(site: Site, text: str, **changes: Any) -> ScriptSpec:
    return ScriptSpec(code=text, cwd=str(site._home), name="script", id=spec("").id, **changes)


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_job_whose_name_and_comment_a_plugin_has_rewritten_is_followed(
    private_site: MakeSite, rewrite: str
) -> None:
    site = with_plugin(private_site, REWRITES[rewrite])
    runs = site.service.submit(script(site, SCRIPT.format(seconds=600)))
    site.wait(runs.id, JobState.RUNNING)
    cell = site.service.submit(spec("import time; print('up', flush=True); time.sleep(600)"))
    ends = site.service.submit(script(site, SCRIPT.format(seconds=0)))
    site.wait(cell.id, JobState.RUNNING)
    wait_until(lambda: "up" in site.so_far(runs.id))
    listed = {entry.slurm_id: entry.id for entry in site.service.queue()}
    for one in (runs, cell):
        assert listed[site.service.job(one.id).slurm_id or ""] == one.id
    for one in (runs, cell):
        site.service.cancel(one.id)
        assert site.wait(one.id).state is JobState.CANCELLED
    job = site.wait(ends.id)
    assert (job.state, job.exit_code, job.inferred) == (JobState.FAILED, 3, False)
    assert "up" in site.text(ends.id)


def test_a_job_without_our_token_is_the_same_after_a_requeue(private_site: MakeSite) -> None:
    site = with_plugin(private_site, REWRITES["both replaced"])
    code = "import time; print('up', flush=True); time.sleep(600)"
    cell = site.service.submit(spec(code, options={"requeue": ""}))
    runs = site.service.submit(script(site, SCRIPT.format(seconds=600), options={"requeue": ""}))
    for one in (cell, runs):
        site.wait(one.id, JobState.RUNNING)
        site.service.requeue(one.id)
        wait_until(partial(has_restarted, site, one.id))
    # A requeued job waits two minutes; an operator may let it begin at once.
    for one in (cell, runs):
        slurm_id = site.service.job(one.id).slurm_id
        site.cluster.run("scontrol", "update", f"JobId={slurm_id}", "StartTime=now")
        job = site.wait(one.id, JobState.RUNNING)
        assert job.restarts == 1
        site.service.cancel(one.id)
        assert site.wait(one.id).state is JobState.CANCELLED


HETEROGENEOUS = """#!/bin/sh
#SBATCH -J het --mem=100 -n1 -t 5
#SBATCH hetjob
#SBATCH --mem=200 -n1 -t 5
echo up
sleep {seconds}
exit {code}
"""


def test_a_heterogeneous_job_runs_writes_and_is_cancelled_by_the_id_of_any_part(
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
    parts = [entry for entry in site.service.queue() if entry.id == runs.id]
    assert sorted(entry.slurm_id for entry in parts) == [f"{job.slurm_id}+{n}" for n in (0, 1)]
    [(_, told)] = steer_each(site.service, "cancel", [f"{job.slurm_id}+1"])
    assert isinstance(told, str)
    assert site.wait(runs.id).state is JobState.CANCELLED
    job = site.wait(ends.id)
    assert (job.state, job.exit_code, job.inferred) == (JobState.FAILED, 3, False)
    assert "up" in site.text(ends.id)


def test_what_a_plugin_changes_in_a_submission_is_shown_as_slurm_has_it(
    private_site: MakeSite,
) -> None:
    site = with_plugin(
        private_site,
        'job_desc.partition = "long"; job_desc.time_limit = 7; '
        'slurm.log_user("Moved to long.\\nSee the wiki.")',
    )
    code = "import time; time.sleep(600)"
    job = site.service.submit(spec(code, options={"time": "30", "partition": "debug"}))
    wait_until(lambda: site.service.job(job.id).partition == "long")
    job = site.wait(job.id, JobState.RUNNING)
    assert (job.partition, job.limit_s) == ("long", 420)
    told = str(job.warning).splitlines()
    assert len(told) == 2
    assert told[1].endswith("See the wiki.")
    site.service.cancel(job.id)


CLI_LUA = """
function slurm_cli_pre_submit(options, pack_offset)
  {body}
end
function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end
"""
ASKS = "Please name an account with -A."
WIKI = "See https://wiki/é"


def with_filter(site: Site, body: str) -> None:
    """Have a cli_filter plugin do `body` before each submission."""
    plugin = site.cluster.conf.with_name("cli_filter.lua")
    plugin.write_text(CLI_LUA.format(body=body), encoding="utf-8")
    with site.cluster.conf.open("a", encoding="utf-8") as conf:
        conf.write("CliFilterPlugins=lua\n")


def with_wrapper(site: Site, text: str) -> None:
    """Put a wrapper in front of the cluster's sbatch, which is "$SBATCH" in its text."""
    folder = site._home / "wrapper"
    folder.mkdir()
    profile = tomllib.loads(site.cluster.profile_path.read_text(encoding="utf-8"))
    real = site.cluster.run("sh", "-c", "command -v sbatch").stdout.strip()
    (folder / "sbatch").write_text(f"#!/bin/sh\nSBATCH={real}\n{text}\n", encoding="utf-8")
    (folder / "sbatch").chmod(0o755)
    site.edit_profile(path=[str(folder), *profile.get("path", [])])


def refused(site: Site, asked: JobSpec) -> Job:
    """Return the job that the site has refused, at once or after two look-ups."""
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


@pytest.mark.parametrize("kind", ["cell", "script"])
def test_the_words_of_a_filter_that_refuses_are_shown_line_by_line(
    private_site: MakeSite, kind: str
) -> None:
    site = private_site(nodes=1)
    with_filter(site, f'slurm.log_info("{ASKS}") slurm.log_error("{WIKI}") return slurm.ERROR')
    asked = spec("1") if kind == "cell" else script(site, SCRIPT.format(seconds=0))
    job = refused(site, asked)
    found = lines_of(job)
    assert [line for line in found if line.endswith(ASKS)]
    assert [line for line in found if line.endswith(WIKI)]


@pytest.mark.parametrize("kind", ["cell", "script"])
@pytest.mark.parametrize("status", [0, 1])
def test_a_wrapper_that_submits_nothing_is_quoted_and_waited_for_no_longer(
    site: Site, kind: str, status: int
) -> None:
    with_wrapper(site, f"echo '{ASKS}'; echo '{WIKI}' >&2; exit {status}")
    asked = spec("1") if kind == "cell" else script(site, SCRIPT.format(seconds=0))
    job = refused(site, asked)
    assert {ASKS, WIKI} <= set(lines_of(job))
    assert site.slurm_jobs() == []


def test_a_wrapper_that_is_silent_with_success_is_waited_for_no_longer(site: Site) -> None:
    with_wrapper(site, "exit 0")
    job = refused(site, spec("1"))
    assert job.problem is not None
    assert job.problem.code == "submit"


def test_a_wrapper_that_hides_the_id_submits_one_job(site: Site) -> None:
    with_wrapper(site, '"$SBATCH" "$@" >/dev/null && echo Thanks')
    job = site.run("print('ran')", limit_s=60)
    assert job.state is JobState.COMPLETED
    assert len(site.slurm_jobs()) == 1


def test_a_wrapper_that_does_not_know_parsable_is_understood(site: Site) -> None:
    with_wrapper(site, 'echo Welcome; id=$("$SBATCH" "$@") && echo "Submitted batch job $id"')
    job = site.run("print('ran')")
    assert job.state is JobState.COMPLETED
    assert job.warning is None
