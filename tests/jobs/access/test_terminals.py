"""Which step a terminal is, and what is said where there can be none."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from jupyter_slurm.commands.arguments import read_arguments
from jupyter_slurm.commands.shell import parse
from jupyter_slurm.commands.submitting import SHELL
from jupyter_slurm.errors import ForwardError, NotFoundError, RequestError
from jupyter_slurm.slurm.srun import terminal_argv
from jupyter_slurm.slurm.versions import SlurmVersion
from jupyter_slurm.wire import JobKind, JobState
from tests.cluster.plugin import SlurmCluster
from tests.containers.leftovers import processes_of
from tests.jobs.conftest import Site, over_ssh, spec
from tests.near_end import NearEnd
from tests.ssh.waiting import wait_until

LOGIN = parse(read_arguments(SHELL, []))
OLD_SRUN = """#!/bin/sh
if [ "$1" = --version ]; then echo "slurm 20.02.7"; exit; fi
echo "$@" >"$(dirname "$0")/words"
echo "srun: error: Unable to create step for job 7: Requested nodes are busy" >&2
exit 1
"""
"""srun of 20.02, as it ends where another step of the job has what it asks for."""


@pytest.mark.parametrize(
    ("version", "overlap", "no_gres"),
    [
        (None, True, False),
        (SlurmVersion(23, 2, 0), True, False),
        (SlurmVersion(22, 5, 0), True, False),
        (SlurmVersion(21, 8, 0), True, True),
        (SlurmVersion(20, 11, 0), True, True),
        (SlurmVersion(20, 2, 7), False, True),
    ],
)
def test_a_terminal_has_the_jobs_gpus_where_steps_can_share_them(
    version: SlurmVersion | None, overlap: bool, no_gres: bool
) -> None:
    argv = terminal_argv("12", ["prog"], node="n1", version=version)
    assert ("--overlap" in argv, "--gres=none" in argv) == (overlap, no_gres)
    assert argv[-1] == "prog"


def test_a_terminal_asks_for_the_gpus_that_its_job_has_without_asking() -> None:
    recent, older = SlurmVersion(22, 5, 0), SlurmVersion(21, 8, 0)
    argv = terminal_argv("12", ["prog"], node="n1", version=recent, gpus=2)
    assert "--gres=gpu:2" in argv
    argv = terminal_argv("12", ["prog"], node="n1", version=older, gpus=2)
    assert [word for word in argv if "--gres" in word] == ["--gres=none"]


def test_a_terminal_has_the_gpus_of_a_node_that_is_its_jobs_alone(site: Site) -> None:
    job = site.service.submit(
        spec("import time; time.sleep(1000)", options={"exclusive": "", "mem": "100"})
    )
    wait_until(lambda: bool(site.service.job(job.id).nodes), 60)
    near = NearEnd(site.service.terminal(LOGIN.terminal(job.id)))
    near.prompted()
    assert near.answer("echo $CUDA_VISIBLE_DEVICES").endswith("0,1,2,3\r\n")
    near.close()
    site.service.cancel(job.id)
    site.wait(job.id)


def test_slurm_that_is_too_old_to_share_a_job_says_so(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "old"
    programs.mkdir()
    srun = programs / "srun"
    srun.write_text(OLD_SRUN)
    srun.chmod(0o755)
    path = [str(programs), str(slurm_cluster.folder / "bin")]
    site = Site(slurm_cluster, tmp_path, monkeypatch, path=path)
    try:
        job = site.service.submit(spec("import time; time.sleep(1000)", options={"mem": "100"}))
        wait_until(lambda: bool(site.service.job(job.id).nodes), 60)
        with pytest.raises(ForwardError, match="could not be started inside the job") as caught:
            site.service.terminal(LOGIN.terminal(job.id))
        assert "Slurm 20.02.7 has no `srun --overlap`" in str(caught.value)
        assert "Requested nodes are busy" in (caught.value.detail or "")
        assert "--overlap" not in (programs / "words").read_text()
        site.service.cancel(job.id)
        site.wait(job.id)
    finally:
        site.service.close()


def test_job_that_waits_has_ended_or_is_not_there_has_no_terminal(site: Site) -> None:
    with pytest.raises(NotFoundError):
        site.service.terminal(LOGIN.terminal("nosuchjo"))
    held = site.service.submit(spec("pass", options={"hold": "", "mem": "100"}))
    site.wait(held.id, JobState.PENDING)
    with pytest.raises(RequestError, match="does not run: it is PENDING"):
        site.service.terminal(LOGIN.terminal(held.id))
    site.service.cancel(held.id)
    site.wait(held.id)
    with pytest.raises(RequestError, match="has ended: it is CANCELLED"):
        site.service.terminal(LOGIN.terminal(held.id))


@over_ssh
def test_batch_script_of_the_users_own_has_a_shell_on_its_node(site: Site) -> None:
    script = "#!/bin/bash\n#SBATCH --mem=100\nsleep 1000\n"
    job = site.service.submit(spec(script, kind=JobKind.SCRIPT))
    site.wait(job.id, JobState.RUNNING)
    wait_until(lambda: bool(site.service.job(job.id).nodes), 60)
    near = NearEnd(site.service.terminal(LOGIN.terminal(job.id)))
    near.prompted()
    (node,) = site.service.job(job.id).nodes
    assert near.answer("echo $SLURM_JOB_ID on $SLURMD_NODENAME").endswith(f" on {node}\r\n")
    near.type("exit 2")
    assert near.status() == 2
    near.close()
    assert site.service.job(job.id).state is JobState.RUNNING
    site.service.cancel(job.id)
    site.wait(job.id)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A node's, of which `python3` is missing."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for one in Path(folder).iterdir():
            if not one.name.startswith(("python", "pypy")):
                with suppress(FileExistsError):
                    (programs / one.name).symlink_to(one)
    return programs


def test_a_node_without_python_has_a_plain_terminal(
    programs: Path, slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    srun = programs / "srun"
    real = srun.resolve()
    srun.unlink()
    srun.write_text(f'#!/bin/sh\nPATH={programs}; export PATH\nexec {real} "$@"\n')
    srun.chmod(0o755)
    path = [str(programs), str(slurm_cluster.folder / "bin")]
    site = Site(slurm_cluster, tmp_path, monkeypatch, path=path, python="/no/python3")
    try:
        job = site.service.submit(spec("#!/bin/sh\nsleep 1000", kind=JobKind.PROGRAM))
        wait_until(lambda: bool(site.service.job(job.id).nodes), 60)
        near = NearEnd(site.service.terminal(LOGIN.terminal(job.id)))
        near.begin(30, 90)
        near.type("PS1='ready''> '; stty -echo; echo be''gun")
        near.until("begun\r\nready> ")
        assert near.answer("stty size; echo $TERM $SLURM_JOB_ID") == (
            f"30 90\r\ndumb {site.service.job(job.id).slurm_id}\r\n"
        )
        assert "30 90 dumb" not in near.shown
        assert "no Python" in near.said[0]
        near.type("exit 3")
        assert near.status() == 3
        near.close()
        left = NearEnd(site.service.terminal(LOGIN.terminal(job.id)))
        left.prompted()
        left.close()
        wait_until(lambda: not any("script -qfc" in one for one in processes_of(site)), 60)
        assert site.service.job(job.id).state is JobState.RUNNING
        (programs / "script").unlink()
        bare = NearEnd(site.service.terminal(LOGIN.terminal(job.id)))
        bare.begin()
        assert bare.status() == 127
        assert "neither Python nor script(1)" in bare.shown
        bare.close()
        site.service.cancel(job.id)
        site.wait(job.id)
        wait_until(lambda: not processes_of(site), 60)
    finally:
        site.service.close()


def test_a_job_for_a_terminal_says_that_its_node_has_no_python_and_what_to_do(
    programs: Path, slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = f"export PATH={programs}"
    site = Site(slurm_cluster, tmp_path, monkeypatch, setup=setup, python="/no/python3")
    try:
        job = site.run(LOGIN.code, kind=JobKind.TERMINAL)
        assert (job.state, job.exit_code) == (JobState.FAILED, 127)
        assert str(job.why).startswith("The node has no Python")
        assert "shell --job ID" in str(job.advice)
    finally:
        site.service.close()
