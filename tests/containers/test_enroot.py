"""enroot as text, and its script with a stand-in for the tool, which is nowhere packaged.
`test_cells.py` runs cells with it in jobs of a real Slurm."""

from __future__ import annotations

import shlex
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


both_shells = pytest.mark.parametrize("shell", ["dash", "bash"], indirect=True)
"""For what shells do in ways of their own: exit codes, signals, escapes, what is exported."""


@pytest.fixture
def shell(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "dash"))


@pytest.fixture
def run(shell: str, enroot_standin: EnrootStandIn, tmp_path: Path) -> Run:
    """A program in a job's script."""
    programs = enroot_standin.folder / "bin"
    (programs / "squeue").write_text(SQUEUE)
    (programs / "squeue").chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()

    def call(box: Box, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        node = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(home), "SLURM_JOB_ID": "5"}
        return subprocess.run(
            [shell, *ENROOT.launch(argv, box).argv[1:]],
            env=node | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return call


@both_shells
def test_a_program_runs_in_a_container_of_its_own_which_is_gone_afterwards(
    box: Box, run: Run, enroot_standin: EnrootStandIn
) -> None:
    done = run(box, "sh", "-c", "echo hi >/mnt/job/result; echo out; exit 42")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "", 42)
    assert Path(box.job_dir, "result").read_text() == "hi\n"
    assert enroot_standin.containers() == []


@both_shells
def test_of_the_nodes_environment_what_belongs_to_the_job_comes_inside(box: Box, run: Run) -> None:
    host = {"SLURM_JOB_NAME": "a 'b'\n$c", "CUDA_VISIBLE_DEVICES": "0,1", "PYTHONPATH": "/x"}
    inside = run(box, "env", "-0", **host).stdout.split("\0")
    assert {f"{name}={host[name]}" for name in ("SLURM_JOB_NAME", "CUDA_VISIBLE_DEVICES")} <= set(
        inside
    )
    assert not any(pair.startswith(("PYTHONPATH=", "JSLURM_")) for pair in inside)
    assert "PYTHONNOUSERSITE=1" in inside
    assert "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" in inside


@both_shells
def test_the_users_environment_arrives_unchanged(box: Box, run: Run) -> None:
    value = "a, b='c'\n\"$HOME\" `x` \\ é %s #"
    Path(box.job_dir, "env.sh").write_text(f"export VALUE={shlex.quote(value)}\n")
    assert run(replace(box, env_file="env.sh"), "printenv", "VALUE").stdout == f"{value}\n"


@both_shells
def test_what_is_mounted_may_be_called_anything(box: Box, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "it's, $data \\ é"
    folder.mkdir()
    (folder / "file").write_text("there\n")
    there = replace(box, mounts=(Mount(str(folder), "/mnt/in"), Mount(str(folder), "/srv/x/y")))
    assert run(there, "cat", "/mnt/in/file", "/srv/x/y/file").stdout == "there\nthere\n"


def test_the_home_is_the_nodes(box: Box, run: Run, tmp_path: Path) -> None:
    run(box, "sh", "-c", "echo kept >file")
    assert (tmp_path / "home" / "file").read_text() == "kept\n"


def test_an_image_by_name_is_fetched_and_its_file_not_kept(
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


def test_a_container_that_is_kept_is_started_as_it_is_and_stays(
    box: Box, run: Run, enroot_standin: EnrootStandIn, small_image: Path
) -> None:
    kept = replace(box, image="@myrepo")
    assert "No such file or directory" in run(kept, "true").stderr
    data = enroot_standin.folder / "data"
    subprocess.run(
        ["unsquashfs", "-no-progress", "-d", data / "myrepo", small_image],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    run(kept, "touch", "/opt/installed")
    assert run(kept, "ls", "/opt").stdout == "installed\n"
    assert enroot_standin.containers() == ["myrepo"]


def test_the_program_is_root_inside_where_that_is_asked_for(box: Box) -> None:
    words, as_root = (
        ENROOT.launch(["true"], replace(box, as_root=one)).argv for one in (False, True)
    )
    assert (words[7], as_root[7]) == ("no", "yes")
    assert words[:7] == as_root[:7]


def test_what_a_killed_job_has_left_goes_unless_it_may_still_run(
    box: Box, run: Run, enroot_standin: EnrootStandIn
) -> None:
    """7 runs, 8 and 9 have ended, and of 6 the controller says nothing."""
    for job in "6789":
        (enroot_standin.folder / "data" / f"jslurm-{job}-0").mkdir()
    (enroot_standin.folder / "data" / "jslurm-mine").mkdir()
    run(box, "true")
    assert sorted(enroot_standin.containers()) == ["jslurm-6-0", "jslurm-7-0", "jslurm-mine"]


@pytest.mark.parametrize(
    ("image", "sentence", "advice"),
    [
        (
            "/gone.sqsh",
            "no such image on this node: No such file or directory: /gone.sqsh.",
            "path",
        ),
        ("/etc/hostname", "is not a SquashFS file: Invalid image format: /etc/hostname.", "import"),
        ("ubuntu:20.04", "cannot be reached from the node: curl: (6)", "--image FILE"),
        ("Ubuntu:20.04", "does not understand its name", "lower case"),
    ],
)
def test_the_step_that_failed_is_told(
    image: str, sentence: str, advice: str, box: Box, run: Run, enroot_standin: EnrootStandIn
) -> None:
    done = run(replace(box, image=image), "true")
    explained = ENROOT.explain(done.stderr)
    assert done.returncode != 0
    assert explained is not None
    assert sentence in str(explained.sentence)
    assert advice in str(explained.advice)
    assert enroot_standin.containers() == []


def test_a_node_without_enroot_says_so(box: Box) -> None:
    done = subprocess.run(
        ENROOT.launch(["true"], box).argv,
        env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "5", "HOME": "/"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    explained = ENROOT.explain(Path(box.job_dir, "enroot.log").read_text() + done.stderr)
    assert done.returncode == 127
    assert explained is not None
    assert "The node lacks a program" in str(explained.sentence)


@both_shells
def test_signals_are_for_the_program_itself(box: Box, run: Run) -> None:
    pid_file = ENROOT.launch(["true"], box).pid_file
    assert pid_file == f"{box.job_dir}/program.pid"
    code = 'read -r pid </mnt/job/program.pid; kill -TERM "$pid"; sleep 60'
    assert run(box, "sh", "-c", code).returncode == 143
    assert not Path(pid_file).exists()


def test_what_a_killed_shell_has_made_is_removed_with_what_runs_in_it(
    box: Box, enroot_standin: EnrootStandIn
) -> None:
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


def test_a_failure_of_the_program_is_not_enroots() -> None:
    assert ENROOT.explain("Traceback\nFileNotFoundError: No such file or directory\n") is None


@pytest.mark.parametrize(
    "mount", [Mount("/a", "/mnt/a b"), Mount("/a", "/mnt/job"), Mount("a", "/b")]
)
def test_mounts_that_enroot_cannot_do_are_refused(mount: Mount) -> None:
    with pytest.raises(RequestError):
        ENROOT.launch(["true"], Box(job_dir="/j", image="/i", mounts=(mount,)))
