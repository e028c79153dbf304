"""The real Apptainer in its different installations, run as by a batch script."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from jupyter_slurm.containers import Box, Mount, runtime_named
from tests.cluster.apptainer import ApptainerEngine
from tests.containers.test_charliecloud_real import SAVES
from tests.ssh.processes import kill

APPTAINER = runtime_named("apptainer")
HOSTILE = ["a b", "$(x)`y`", "quo'te\"d", "-n", "new\nline", "é…", "a\\b", "x,y;z&|<>*?", "a:b"]
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Way:
    """An image and an installation of Apptainer."""

    image: str
    env: dict[str, str]


@pytest.fixture(params=["sif", "folder, not set-uid"])
def way(request: pytest.FixtureRequest, apptainer_engine: ApptainerEngine) -> Way:
    image, _, unprivileged = request.param.partition(", ")
    return Way(
        str(apptainer_engine.sif if image == "sif" else apptainer_engine.folder),
        apptainer_engine.unprivileged if unprivileged else apptainer_engine.env,
    )


@pytest.fixture
def box(way: Way, tmp_path: Path) -> Box:
    job_dir = tmp_path / "jobs" / "it's $HOME"
    job_dir.mkdir(parents=True)
    return Box(job_dir=str(job_dir), image=way.image)


def environment(way: Way, tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return way.env | {"HOME": str(home), "LANG": "C.UTF-8"}


def run(
    way: Way, box: Box, tmp_path: Path, *argv: str, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        APPTAINER.launch(argv, box).argv,
        env=environment(way, tmp_path) | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )


@contextmanager
def started(way: Way, box: Box, tmp_path: Path, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program, and yield it once it has printed that it is ready."""
    with subprocess.Popen(
        APPTAINER.launch(argv, box).argv,
        env=environment(way, tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            for one in family(process.pid):
                kill(one)


def family(pid: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def test_arguments_arrive_unchanged(way: Way, box: Box, tmp_path: Path) -> None:
    done = run(way, box, tmp_path, "python3", "-c", "import sys; print(sys.argv[1:])", *HOSTILE)
    assert done.stdout == f"{HOSTILE}\n"


@pytest.mark.parametrize("name", ["a b", "quo'te\"d"])
def test_working_directory_can_have_any_name(name: str, way: Way, box: Box, tmp_path: Path) -> None:
    folder = Path(box.job_dir, name)
    folder.mkdir()
    done = run(way, replace(box, workdir=str(folder)), tmp_path, "sh", "-c", "echo here >file")
    assert done.stderr == ""
    assert (folder / "file").is_file()


@pytest.mark.parametrize("name", ["quo'te\"d", "new\nline", "a:b"])
def test_folders_and_files_with_odd_names_are_mounted(
    name: str, way: Way, box: Box, tmp_path: Path
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "file").write_text(name)
    mounts = (
        Mount(str(folder), f"/new/in/{name}"),
        Mount(str(folder / "file"), "/mnt/one file", read_only=True),
    )
    program = 'cat "$1" "$2"; if echo x >>"$2"; then echo written; fi'
    words = ("sh", "-c", program, "sh", f"/new/in/{name}/file", "/mnt/one file")
    done = run(way, replace(box, mounts=mounts), tmp_path, *words)
    assert done.stdout == name + name
    assert "Read-only file system" in done.stderr


def test_settings_of_the_node_do_not_enter_the_container(
    way: Way, box: Box, tmp_path: Path
) -> None:
    host = {
        "PYTHONPATH": "/x",
        "LD_PRELOAD": "",
        "VIRTUAL_ENV": "/x",
        "CONDA_PREFIX": "/x",
        "BASH_FUNC_module%%": "() { eval x; }",
    }
    done = run(way, box, tmp_path, "env", **host, LD_LIBRARY_PATH="/x")
    lines = done.stdout.splitlines()
    assert {line.partition("=")[0] for line in lines}.isdisjoint(host)
    assert "LD_LIBRARY_PATH=/x" not in lines
    assert "PYTHONNOUSERSITE=1" in lines
    assert "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" in lines
    assert done.stderr == ""


def test_signalled_program_can_still_use_the_image(way: Way, box: Box, tmp_path: Path) -> None:
    with started(way, box, tmp_path, "python3", "-c", SAVES) as process:
        process.terminate()
        assert process.communicate(timeout=_PATIENCE_S)[0] == "saved\n"
        assert process.returncode == 3
