"""The real ch-run, with a folder image and a SquashFS image, as a batch script would run it."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_slurm.containers import Box, Mount, runtime_named

CHARLIECLOUD = runtime_named("charliecloud")
HOSTILE = ["a b", "$(x)`y`", "quo'te\"d", "-n", "new\nline", "é…", "a\\b", "x,y;z&|<>*?"]

SAVES = """
import os, signal, time
def save(*_):
    import json, wave, colorsys
    os.write(1, b'saved\\n')
    os._exit(3)
signal.signal(signal.SIGTERM, save)
print('ready', flush=True)
while True: time.sleep(0.01)
"""
"""Python that needs more of its image once it is asked to end."""


@pytest.fixture(scope="session", params=["folder", "squash"])
def image(
    request: pytest.FixtureRequest, demo_image: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The image in both formats that Charliecloud has."""
    if request.param == "folder":
        return demo_image
    path = tmp_path_factory.mktemp("squash") / "a b.sqfs"
    subprocess.run(
        ["mksquashfs", demo_image, path, "-quiet", "-no-progress", "-noD", "-noF"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return path


@pytest.fixture
def box(image: Path, tmp_path: Path) -> Box:
    job_dir = tmp_path / "jobs" / "it's $HOME"
    job_dir.mkdir(parents=True)
    return Box(job_dir=str(job_dir), image=str(image))


def script(box: Box, *argv: str) -> list[str]:
    launch = CHARLIECLOUD.launch(argv, box)
    lines = [f"{line} || exit 99" for line in launch.setup]
    return ["/bin/bash", "-c", "\n".join([*lines, f"exec {shlex.join(launch.argv)}"])]


def environment(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return {"PATH": "/opt/nowhere:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}


def run(box: Box, tmp_path: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        script(box, *argv),
        env=environment(tmp_path) | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@contextmanager
def started(box: Box, tmp_path: Path, *argv: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        script(box, *argv),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_python_and_the_job_dir_are_there(box: Box, tmp_path: Path) -> None:
    Path(box.job_dir, "cell.py").write_text("print('from the job dir')\n")
    code = "import numpy, matplotlib, tqdm; exec(open('/mnt/job/cell.py').read())"
    done = run(box, tmp_path, "python3", "-c", code)
    assert (done.stdout, done.stderr, done.returncode) == ("from the job dir\n", "", 0)


def test_what_is_written_into_the_job_dir_stays(box: Box, tmp_path: Path) -> None:
    run(box, tmp_path, "sh", "-c", "echo hi >/mnt/job/result")
    assert Path(box.job_dir, "result").read_text() == "hi\n"


def test_arguments_arrive_unchanged(box: Box, tmp_path: Path) -> None:
    done = run(box, tmp_path, "python3", "-c", "import sys; print(sys.argv[1:])", *HOSTILE)
    assert done.stdout == f"{HOSTILE}\n"


def test_the_home_is_the_working_folder_and_is_the_nodes(box: Box, tmp_path: Path) -> None:
    done = run(box, tmp_path, "sh", "-c", 'pwd; echo "$HOME"; echo kept >file')
    where, home = done.stdout.splitlines()
    assert where == home
    assert (tmp_path / "home" / "file").read_text() == "kept\n"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_working_folder_below_the_home(name: str, box: Box, tmp_path: Path) -> None:
    (tmp_path / "home" / name).mkdir(parents=True)
    done = run(replace(box, workdir=f"~/{name}"), tmp_path, "sh", "-c", "echo here >file")
    assert done.stderr == ""
    assert (tmp_path / "home" / name / "file").is_file()


@pytest.mark.parametrize("name", HOSTILE)
def test_folders_and_files_are_mounted_whatever_they_are_called(
    name: str, box: Box, tmp_path: Path
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "file").write_text(name)
    mounts = (
        Mount(str(folder), f"/mnt/in/{name}"),
        Mount(str(folder / "file"), "/mnt/one file"),
    )
    done = run(
        replace(box, mounts=mounts), tmp_path, "cat", f"/mnt/in/{name}/file", "/mnt/one file"
    )
    assert (done.stdout, done.stderr) == (name + name, "")


def test_a_mount_elsewhere_must_be_in_the_image(box: Box, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    there = replace(box, mounts=(Mount(str(tmp_path), "/opt"),))
    assert "file" in run(there, tmp_path, "ls", "/opt").stdout
    missing = replace(box, mounts=(Mount(str(tmp_path), "/scratch/x"),))
    done = run(missing, tmp_path, "ls")
    assert done.returncode == 1
    explained = CHARLIECLOUD.explain(done.stderr)
    assert explained is not None
    assert "below /mnt" in str(explained.advice)


def test_the_environment_of_the_job_comes_through(box: Box, tmp_path: Path) -> None:
    done = run(box, tmp_path, "printenv", "CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES="0,1")
    assert done.stdout == "0,1\n"


def test_the_nodes_own_python_settings_do_not(box: Box, tmp_path: Path) -> None:
    host = {"PYTHONPATH": "/x", "LD_PRELOAD": "", "VIRTUAL_ENV": "/x", "CONDA_PREFIX": "/x"}
    done = run(box, tmp_path, "env", **host)
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert names.isdisjoint(host)
    assert "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n" in done.stdout
    assert "PYTHONNOUSERSITE=1\n" in done.stdout


def test_the_users_environment_wins_and_arrives_unchanged(box: Box, tmp_path: Path) -> None:
    value = "'" + "".join(HOSTILE)
    lines = f"export VALUE={shlex.quote(value)} PYTHONPATH=/own PYTHONNOUSERSITE=\n"
    Path(box.job_dir, "env.sh").write_text(lines)
    code = "import os; print([os.environ[n] for n in ('VALUE', 'PYTHONPATH')])"
    done = run(replace(box, env_file="env.sh"), tmp_path, "python3", "-c", code)
    assert done.stdout == f"{[value, '/own']}\n"


def test_the_environment_of_the_image_is_set(demo_image: Path, tmp_path: Path) -> None:
    changed = tmp_path / "image"
    subprocess.run(["cp", "-a", "--reflink=auto", demo_image, changed], check=True)
    (changed / "ch").mkdir()
    (changed / "ch" / "environment").write_text(
        "PATH=/opt/x:/usr/bin\nFOO=a $HOME 'b'\nQUOTED='c d'\nnot a pair\n1X=1\nA.B=1\nLAST=1"
    )
    (tmp_path / "job").mkdir()
    box = Box(job_dir=str(tmp_path / "job"), image=str(changed))
    done = run(box, tmp_path, "env")
    lines = set(done.stdout.splitlines())
    assert {"PATH=/opt/x:/usr/bin", "FOO=a $HOME 'b'", "QUOTED=c d", "LAST=1"} <= lines
    assert done.stderr == ""


def test_an_exit_code_comes_through(box: Box, tmp_path: Path) -> None:
    assert run(box, tmp_path, "sh", "-c", "exit 42").returncode == 42


def test_a_program_that_is_not_in_the_image_is_said_so(box: Box, tmp_path: Path) -> None:
    done = run(box, tmp_path, "no such program")
    assert done.returncode != 0
    assert "no such program" in done.stderr


@pytest.mark.real
def test_an_image_that_is_gone_is_said_so(tmp_path: Path) -> None:
    done = run(Box(job_dir=str(tmp_path), image="/gone/x"), tmp_path, "true")
    explained = CHARLIECLOUD.explain(done.stderr)
    assert done.returncode == 1
    assert explained is not None
    assert "/gone/x" in str(explained.sentence)


@pytest.mark.parametrize("to_everybody", [True, False])
def test_a_signal_reaches_the_program_which_can_still_use_the_image(
    to_everybody: bool, box: Box, tmp_path: Path
) -> None:
    """Slurm signals every process of a job; the batch script only the one that it started."""
    launch = CHARLIECLOUD.launch(["true"], box)
    with started(box, tmp_path, "python3", "-c", SAVES) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if to_everybody:
            os.killpg(process.pid, signal.SIGTERM)
        elif launch.pid_file is not None:
            os.kill(int(Path(launch.pid_file).read_text()), signal.SIGTERM)
        else:
            process.terminate()
        assert process.stdout.read() == "saved\n"
        assert process.wait() == 3


def test_a_program_that_minds_no_signal_ends_by_it(box: Box, tmp_path: Path) -> None:
    launch = CHARLIECLOUD.launch(["true"], box)
    with started(box, tmp_path, "sh", "-c", "echo ready; exec sleep 60") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGTERM)
        # ch-run gives 1 for a SquashFS image, whatever the signal.
        assert process.wait() == (1 if launch.pid_file else -signal.SIGTERM)
