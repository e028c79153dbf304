"""A job from its spec to its result, on a real Slurm."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from jupyter_slurm import places
from jupyter_slurm.errors import NotFoundError, RequestError, SubmitError
from jupyter_slurm.variables import read_variables, write_variables
from jupyter_slurm.wire import After, ExecuteResult, JobKind, JobSpec, JobState
from tests.jobs.conftest import Site, over_ssh, spec


def test_cell_returns_its_output_and_value(site: Site) -> None:
    job = site.run("print('hello')\n6 * 7")
    assert (job.state, job.exit_code) == (JobState.COMPLETED, 0)
    assert str(job.why) == "Succeeded."
    assert site.text(job.id) == "hello\n"
    results = [o for o in site.outputs(job.id) if isinstance(o, ExecuteResult)]
    assert [result.data["text/plain"] for result in results] == ["42"]
    assert site.service.result(job.id).status == "ok"
    assert job.nodes
    assert job.usage is not None
    assert job.usage.peak_memory_mib


def test_job_gets_the_requested_gpus(site: Site) -> None:
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    job = site.run(code, options={"gres": "gpu:2"})
    assert len(site.text(job.id).strip().split(",")) == 2


@over_ssh
def test_variables_are_sent_and_returned(site: Site) -> None:
    asked = spec(
        "total = sum(data)\nsquare = lambda x: x * x",
        names_in=("data",),
        names_out=("total", "square"),
    )
    inputs = places.spool_dir() / "in.vars"
    write_variables(inputs, ["data"], {"data": [1, 2, 3]})
    site.service.submit(replace(asked, inputs=str(inputs)))
    site.wait(asked.id)
    result = site.service.result(asked.id)
    assert result.variables is not None
    found = read_variables(Path(result.variables))[0]
    assert found["total"] == 6
    assert found["square"](7) == 49  # type: ignore[operator]
    assert not inputs.exists()


def test_unused_variable_files_are_removed(site: Site) -> None:
    files = {"week.fetched": 7, "day.fetched": 1, "day.vars": 1, "new.vars": 0}
    for name, days in files.items():
        path = places.spool_dir() / name
        path.touch()
        past_s = time.time() - days * 24 * 3600
        os.utime(path, (past_s, past_s))
    site.restart()
    assert {path.name for path in places.spool_dir().iterdir()} == {"day.fetched", "new.vars"}


def test_remote_error_is_returned(site: Site) -> None:
    job = site.run("x = 1\nraise ValueError('no')")
    assert job.state is JobState.FAILED
    assert "ValueError" in str(job.why or "")
    result = site.service.result(job.id)
    assert (result.status, result.ename, result.evalue) == ("error", "ValueError", "no")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(result.traceback))
    assert "raise ValueError('no')" in plain


def test_program_with_a_shebang_runs_unchanged(site: Site) -> None:
    job = site.run("#!/bin/sh\necho out\necho err >&2\nexit 3", kind=JobKind.PROGRAM)
    assert (job.state, job.exit_code) == (JobState.FAILED, 3)
    assert site.text(job.id) == "out\nerr\n"


TOLD = ("LC_ALL", "SLURM_BITSTR_LEN", "SLURM_TIME_FORMAT", "PROFILE_S")
CELL = f"import os\nfor name in {TOLD}:\n    print(name, os.environ.get(name, 'unset'))"
SHELL = "#!/bin/sh\n" + "".join(f"echo {name} ${{{name}-unset}}\n" for name in TOLD)
KINDS = [(JobKind.CELL, CELL), (JobKind.SCRIPT, SHELL)]


@pytest.mark.parametrize(("kind", "code"), KINDS)
def test_job_environment_comes_from_the_profile_and_not_from_the_agent(
    site: Site, monkeypatch: pytest.MonkeyPatch, kind: JobKind, code: str
) -> None:
    monkeypatch.delenv("LC_ALL", raising=False)
    told = ["unset", "unset", "unset", "unset"]
    assert site.text(site.run(code, kind=kind).id).split()[1::2] == told
    conf = site.cluster.env["SLURM_CONF"]
    site.edit_profile(env={"SLURM_CONF": conf, "LC_ALL": "POSIX", "PROFILE_S": "1"})
    site.restart()
    told = ["POSIX", "unset", "unset", "1"]
    assert site.text(site.run(code, kind=kind).id).split()[1::2] == told


@over_ssh
def test_batch_script_is_submitted_unchanged(site: Site, tmp_path: Path) -> None:
    code = "#!/bin/bash\n#SBATCH --comment='mine'\n#SBATCH -o written-%j.out\necho \"$PWD\"\n"
    job = site.run(code, kind=JobKind.SCRIPT, **site.at(tmp_path))
    assert job.state is JobState.COMPLETED
    assert (tmp_path / f"written-{job.slurm_id}.out").read_text() == f"{tmp_path}\n"
    assert site.text(job.id) == f"{tmp_path}\n"


def test_refusal_of_sbatch_is_quoted(site: Site) -> None:
    with pytest.raises(SubmitError) as caught:
        site.service.submit(spec("1", options={"partition": "nosuch"}))
    assert "invalid partition" in str(caught.value).lower()
    assert [job.state for job in site.service.jobs()] == [JobState.REJECTED]


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "two words"},
        {"options": {"array": "1-3"}},
        {"options": {"mem": "lots"}},
        {"options": {"nosuch": "1"}},
        {"env": {"A B": "1"}},
        {"env": {"A": "\0"}},
        {"mounts": ("relative",), "runtime": "charliecloud", "image": "/"},
        {"runtime": "nosuch"},
        {"image": "/", "runtime": "none"},
        {"cluster": "nosuch"},
    ],
    ids=str,
)
def test_invalid_spec_is_rejected_before_submission(site: Site, changes: dict[str, object]) -> None:
    with pytest.raises((RequestError, NotFoundError)):
        site.service.submit(spec("1", **changes))
    assert site.service.jobs() == []


def test_job_for_another_slurm_conf_is_rejected(site: Site) -> None:
    conf = str(site.cluster.conf)
    site.edit_profile(env={})
    with pytest.raises(RequestError) as caught:
        site.service.submit(spec("1", slurm_conf=conf))
    assert f"--env SLURM_CONF={conf}`" in str(caught.value)
    assert site.service.jobs() == []
    site.edit_profile()
    assert site.run("1", slurm_conf="/another/slurm.conf").state is JobState.COMPLETED


def test_dependency_accepts_our_job_ids(site: Site) -> None:
    first = site.run("1")
    assert first.slurm_id is not None
    asked = f"afterok:{first.id}+1,after:{first.slurm_id}:{first.id}"
    sent = f"--dependency=afterok:{first.slurm_id}+1,after:{first.slurm_id}:{first.slurm_id}"
    assert sent in site.service.preview(spec("1", options={"dependency": asked})).sbatch
    site.run("1", options={"dependency": f"afterany:{first.id}"})
    code = f"#!/bin/bash\n#SBATCH --dependency=afterany:{first.id}\necho done\n"
    script = site.run(code, kind=JobKind.SCRIPT)
    assert script.state is JobState.COMPLETED
    with pytest.raises(RequestError, match="unknown job `zzzzzzzz`"):
        site.service.submit(spec("1", options={"dependency": "afterok:zzzzzzzz"}))


@over_ssh
def test_job_starts_after_the_jobs_named_by_the_after_option(site: Site) -> None:
    held = site.service.submit(spec("1 / 0", name="first", options={"hold": ""}))
    after = (After(job="first", ends="fail"),)
    cleans = site.service.submit(spec("print(1)", after=after, name="cleans"))
    uses = site.service.submit(spec("1", after=(After(job=str(held.slurm_id)),)))
    both = (After(job=uses.id, ends="any"), After(job="cleans"))
    last = site.service.submit(spec("1", after=both))
    assert site.service.job(last.id).state is JobState.PENDING
    site.service.release(held.id)
    assert site.wait(cleans.id).state is JobState.COMPLETED
    assert site.wait(last.id).state is JobState.COMPLETED
    unmet = site.wait(uses.id)
    assert unmet.state is JobState.CANCELLED
    assert f"job {held.id} (first, failed)" in str(unmet.why)
    assert site.run("1", after=(After(job=held.id, ends="fail"),)).state is JobState.COMPLETED
    with pytest.raises(RequestError, match="never start"):
        site.service.submit(spec("1", after=(After(job=held.id),)))


def test_spec_submitted_twice_creates_one_job(site: Site) -> None:
    """The job is returned even if the profile has become invalid."""
    asked = spec("print(1)")
    first = site.service.submit(asked)
    site.edit_profile(poll_s="often")
    second = site.service.submit(asked)
    assert first.slurm_id == second.slurm_id
    site.edit_profile()
    assert site.slurm_jobs() == [first.slurm_id]


def test_job_cancelled_before_its_record_is_not_submitted(site: Site) -> None:
    """For example, a kernel shuts down during its submission."""
    asked = spec("print(1)")
    with pytest.raises(NotFoundError):
        site.service.cancel(asked.id)
    job = site.service.submit(asked)
    assert (job.state, job.why) == (JobState.CANCELLED, "Cancelled by you before it was sent.")
    assert site.slurm_jobs() == []


def test_undelivered_job_is_attachable(site: Site) -> None:
    cell = spec("1", fingerprint="f")
    site.wait(site.service.submit(cell).id)
    assert (found := site.service.attachable(cell)) is not None
    assert (found.job.id, found.differs) == (cell.id, ())
    assert site.service.attachable(replace(cell, fingerprint="other")) is None
    site.service.delivered(cell.id)
    assert site.service.attachable(cell) is None


def test_cell_attaches_to_a_job_of_a_dead_kernel(site: Site) -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        began_s = psutil.Process(other.pid).create_time()
        cell = spec("1", fingerprint="f", kernel=f"{other.pid} {began_s}")
        site.service.submit(cell)
        mine = replace(cell, kernel=f"{os.getpid()} {psutil.Process().create_time()}")

        def differs(spec: JobSpec) -> tuple[str, ...]:
            found = site.service.attachable(spec)
            assert found is not None
            assert found.job.id == cell.id
            return found.differs

        assert differs(cell) == ()
        assert differs(mine) == ("kernel",)
        other.kill()
    assert differs(mine) == ()


def test_differences_from_an_earlier_job_are_shown(site: Site, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    cell = spec(
        "1",
        fingerprint="f",
        names_in=("lr",),
        inputs_digest="1",
        cwd=str(tmp_path),
        push=str(tmp_path / "src"),
    )
    site.service.submit(cell)

    def differs(**changes: object) -> tuple[str, ...]:
        found = site.service.attachable(replace(cell, **changes))
        assert found is not None
        assert found.job.id == cell.id
        return found.differs

    assert differs() == ()
    assert differs(inputs_digest="2", cwd="/") == ("folder", "in")
    assert differs(inputs_digest="?2") == ("in?",)
    assert differs(env={"A": "1"}) == differs(options={"nice": "1"}) == ("options",)
    (tmp_path / "src" / "new").touch()
    assert differs() == ("push",)
    config = tmp_path / "config/jupyter-slurm/clusters.d" / f"{site.cluster.name}.toml"
    config.write_text("modules = ['other']\n" + config.read_text(encoding="utf-8"))
    assert differs() == ("options", "push")


def test_job_follows_its_renamed_notebook_and_folder(site: Site, tmp_path: Path) -> None:
    folder, moved = tmp_path / "lab", tmp_path / "archive"
    (folder / "src").mkdir(parents=True)
    began_s = time.time()
    notebook = str(folder / "Untitled.ipynb")
    paths = {"cwd": str(folder), "push": str(folder / "src")}
    cell = spec("1", fingerprint="f", notebook=notebook, **paths)
    site.service.submit(cell)
    site.service.notebook_moved(notebook, str(folder / "trial.ipynb"))
    assert site.service.job(cell.id).notebook == str(folder / "trial.ipynb")
    folder.rename(moved)
    site.service.notebook_moved(str(folder), str(moved))
    now = str(moved / "trial.ipynb")
    assert site.service.notebook_path(notebook, began_s) == now
    assert site.service.notebook_path(notebook, time.time()) == notebook, (
        "another notebook with that name"
    )
    assert site.service.attachable(cell) is None, "another notebook with that name"
    there = {"cwd": str(moved), "push": str(moved / "src")}
    for _ in range(2):
        found = site.service.attachable(replace(cell, notebook=now, **there))
        assert found is not None
        assert (found.job.id, found.differs) == (cell.id, ())
        site.restart()
        assert site.service.notebook_path(notebook, began_s) == now


@over_ssh
def test_all_files_of_a_forgotten_job_are_removed(site: Site) -> None:
    job = site.run("1")
    site.service.forget(job.id)
    assert not Path(job.job_dir).exists()
    with pytest.raises(NotFoundError):
        site.service.job(job.id)


def test_modules_are_loaded_before_the_cell_runs(site: Site, tmp_path: Path) -> None:
    module = tmp_path / "greeting"
    module.write_text("#%Module\nsetenv GREETING hello\n")
    job = site.run("import os; print(os.environ['GREETING'])", modules=(str(module),))
    assert site.text(job.id) == "hello\n"


def test_missing_module_is_reported_and_the_cell_does_not_run(site: Site) -> None:
    job = site.run("print('ran')", modules=("no/such-module",))
    assert (job.state, job.exit_code) == (JobState.FAILED, 66)
    assert "Setup" in str(job.why or "")
    assert "no/such-module" in site.text(job.id, "stderr")
    assert site.text(job.id) == ""
