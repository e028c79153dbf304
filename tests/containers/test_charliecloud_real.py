"""The real ch-run with a folder image and a SquashFS image, run as by a batch script."""

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
"""Python code that needs more files of its image when it gets the signal to end."""


@pytest.fixture(scope="session", params=["folder", "squash"])
def image(
    request: pytest.FixtureRequest, demo_image: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the image in both of Charliecloud's formats."""
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


def test_arguments_arrive_unchanged(box: Box, tmp_path: Path) -> None:
    done = run(box, tmp_path, "python3", "-c", "import sys; print(sys.argv[1:])", *HOSTILE)
    assert done.stdout == f"{HOSTILE}\n"


def test_default_working_directory_is_the_home_on_the_node(box: Box, tmp_path: Path) -> None:
    done = run(box, tmp_path, "sh", "-c", 'pwd; echo "$HOME"; echo kept >file')
    where, home = done.stdout.splitlines()
    assert where == home
    assert (tmp_path / "home" / "file").read_text() == "kept\n"


@pytest.mark.parametrize("name", ["a b", "quo'te\"d"])
def test_working_directory_can_be_below_the_home(name: str, box: Box, tmp_path: Path) -> None:
    (tmp_path / "home" / name).mkdir(parents=True)
    done = run(replace(box, workdir=f"~/{name}"), tmp_path, "sh", "-c", "echo here >file")
    assert done.stderr == ""
    assert (tmp_path / "home" / name / "file").is_file()


@pytest.mark.parametrize("name", ["quo'te\"d", "new\nline", "x,y;z&|<>*?"])
def test_folders_and_files_with_odd_names_are_mounted(name: str, box: Box, tmp_path: Path) -> None:
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


def test_python_settings_of_the_node_do_not_enter_the_container(box: Box, tmp_path: Path) -> None:
    host = {"PYTHONPATH": "/x", "LD_PRELOAD": "", "VIRTUAL_ENV": "/x", "CONDA_PREFIX": "/x"}
    done = run(box, tmp_path, "env", **host)
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert names.isdisjoint(host)
    assert "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n" in done.stdout
    assert "PYTHONNOUSERSITE=1\n" in done.stdout


def test_environment_of_the_image_is_set(demo_image: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("to_everybody", [True, False])
def test_signalled_program_can_still_use_the_image(
    to_everybody: bool, box: Box, tmp_path: Path
) -> None:
    """Slurm signals every process of a job. The batch script signals only the process that it
    started."""
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
