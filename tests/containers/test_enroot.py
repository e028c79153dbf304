"""Command lines of enroot, and its script with a stand-in for the tool, which no distribution
packages. `test_cells.py` runs cells with it in jobs of a real Slurm."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_slurm.containers import Box, Mount, runtime_named
from jupyter_slurm.containers.references import parse_reference
from jupyter_slurm.errors import RequestError
from tests.cluster.pyxis import EnrootStandIn
from tests.ssh.waiting import wait_until

ENROOT = runtime_named("enroot")
SQUEUE = """#!/bin/sh
case $3 in
7) echo RUNNING ;;
8) ;;
9) echo "slurm_load_jobs error: Invalid job id specified"; exit 1 ;;
*) echo "slurm_load_jobs error: Unable to contact slurm controller"; exit 1 ;;
esac
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def box(small_image: Path, tmp_path: Path) -> Box:
    job_dir = tmp_path / "it's a job, $HOME"
    job_dir.mkdir()
    return Box(job_dir=str(job_dir), image=str(small_image))


@pytest.fixture
def run(enroot_standin: EnrootStandIn, tmp_path: Path) -> Run:
    """Run a program in a job's script."""
    programs = enroot_standin.folder / "bin"
    (programs / "squeue").write_text(SQUEUE)
    (programs / "squeue").chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()

    def call(box: Box, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        node = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(home), "SLURM_JOB_ID": "5"}
        return subprocess.run(
            ENROOT.launch(argv, box).argv,
            env=node | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return call


def test_program_runs_in_a_container_that_is_removed_afterwards(
    box: Box, run: Run, enroot_standin: EnrootStandIn
) -> None:
    done = run(box, "sh", "-c", "echo hi >/mnt/job/result; echo out; exit 42")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "", 42)
    assert Path(box.job_dir, "result").read_text() == "hi\n"
    assert enroot_standin.containers() == []


def test_environment_of_the_job_enters_the_container(box: Box, run: Run) -> None:
    host = {"SLURM_JOB_NAME": "a 'b'\n$c", "CUDA_VISIBLE_DEVICES": "0,1", "PYTHONPATH": "/x"}
    inside = run(box, "env", "-0", **host).stdout.split("\0")
    assert {f"{name}={host[name]}" for name in ("SLURM_JOB_NAME", "CUDA_VISIBLE_DEVICES")} <= set(
        inside
    )
    assert not any(pair.startswith(("PYTHONPATH=", "JSLURM_")) for pair in inside)
    assert "PYTHONNOUSERSITE=1" in inside
    assert "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" in inside


def test_mount_source_can_have_any_name(box: Box, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "it's, $data \\ é"
    folder.mkdir()
    (folder / "file").write_text("there\n")
    there = replace(box, mounts=(Mount(str(folder), "/mnt/in"), Mount(str(folder), "/srv/x/y")))
    assert run(there, "cat", "/mnt/in/file", "/srv/x/y/file").stdout == "there\nthere\n"


def test_named_image_is_imported_and_its_file_is_removed(
    box: Box, run: Run, enroot_standin: EnrootStandIn, small_image: Path, tmp_path: Path
) -> None:
    enroot_standin.publish("nvcr.io#nvidia/pytorch:22.11-py3", small_image)
    named = replace(box, image=ENROOT.fetched(parse_reference("pytorch:22.11")))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = run(named, "echo", "hi", TMPDIR=str(temporary))
    assert (done.stdout, done.stderr) == ("hi\n", "")
    assert list(temporary.iterdir()) == []
    assert enroot_standin.containers() == []


def test_container_user_is_root_on_request(box: Box) -> None:
    words, as_root = (
        ENROOT.launch(["true"], replace(box, as_root=one)).argv for one in (False, True)
    )
    assert (words[7], as_root[7]) == ("no", "yes")
    assert words[:7] == as_root[:7]


@pytest.mark.parametrize(
    ("image", "sentence", "advice"),
    [
        (
            "/gone.sqsh",
            "No such file or directory: /gone.sqsh.",
            "path",
        ),
        ("ubuntu:20.04", "cannot reach the registry: curl: (6)", "mirror"),
    ],
)
def test_failed_step_is_explained(
    image: str, sentence: str, advice: str, box: Box, run: Run, enroot_standin: EnrootStandIn
) -> None:
    done = run(replace(box, image=image), "true")
    explained = ENROOT.explain(done.stderr)
    assert done.returncode != 0
    assert explained is not None
    assert sentence in str(explained.sentence)
    assert advice in str(explained.advice)
    assert enroot_standin.containers() == []


def test_program_has_a_process_id_file_for_signals(box: Box, run: Run) -> None:
    pid_file = ENROOT.launch(["true"], box).pid_file
    assert pid_file == f"{box.job_dir}/program.pid"
    code = 'read -r pid </mnt/job/program.pid; kill -TERM "$pid"; sleep 60'
    assert run(box, "sh", "-c", code).returncode == 143
    assert not Path(pid_file).exists()


def test_container_of_a_killed_shell_is_removed(box: Box, enroot_standin: EnrootStandIn) -> None:
    programs = enroot_standin.folder / "bin"
    (programs / "squeue").write_text(SQUEUE)
    (programs / "squeue").chmod(0o755)
    launch = ENROOT.launch(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"], box)
    env = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(box.job_dir), "SLURM_JOB_ID": "5"}
    with subprocess.Popen(launch.argv, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert enroot_standin.containers() == ["jslurm-5-0"]
        process.kill()
        process.wait()
        assert process.stdout.read() == b"", "the program has ended"
    wait_until(lambda: enroot_standin.containers() == [], 60)


@pytest.mark.parametrize(
    "mount", [Mount("/a", "/mnt/a b"), Mount("/a", "/mnt/job"), Mount("a", "/b")]
)
def test_unsupported_mounts_are_rejected_by_enroot(mount: Mount) -> None:
    with pytest.raises(RequestError):
        ENROOT.launch(["true"], Box(job_dir="/j", image="/i", mounts=(mount,)))
