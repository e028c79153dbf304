"""The real Apptainer, in the ways that it is installed, as a batch script would run it."""

import os
import shlex
import signal
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
from tests.ssh.processes import kill, runs
from tests.ssh.waiting import wait_until

APPTAINER = runtime_named("apptainer")
HOSTILE = ["a b", "$(x)`y`", "quo'te\"d", "-n", "new\nline", "é…", "a\\b", "x,y;z&|<>*?", "a:b"]
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Way:
    """An image, and how the tool is installed."""

    image: str
    env: dict[str, str]


@pytest.fixture(params=["sif", "sif, not set-uid", "folder, not set-uid"])
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
    """It has said that it is ready."""
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


def test_python_and_the_job_dir_are_there(way: Way, box: Box, tmp_path: Path) -> None:
    Path(box.job_dir, "cell.py").write_text("print('from the job dir')\n")
    code = f"import numpy, matplotlib, tqdm; exec(open({box.job_dir + '/cell.py'!r}).read())"
    done = run(way, box, tmp_path, "python3", "-c", code)
    assert (done.stdout, done.stderr, done.returncode) == ("from the job dir\n", "", 0)


def test_what_is_written_into_the_job_dir_stays(way: Way, box: Box, tmp_path: Path) -> None:
    run(way, box, tmp_path, "sh", "-c", 'echo hi >"$1/result"', "sh", box.job_dir)
    found = Path(box.job_dir, "result")
    assert (found.read_text(), found.stat().st_uid) == ("hi\n", os.getuid())


def test_arguments_arrive_unchanged(way: Way, box: Box, tmp_path: Path) -> None:
    done = run(way, box, tmp_path, "python3", "-c", "import sys; print(sys.argv[1:])", *HOSTILE)
    assert done.stdout == f"{HOSTILE}\n"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_working_folder(name: str, way: Way, box: Box, tmp_path: Path) -> None:
    folder = Path(box.job_dir, name)
    folder.mkdir()
    done = run(way, replace(box, workdir=str(folder)), tmp_path, "sh", "-c", "echo here >file")
    assert done.stderr == ""
    assert (folder / "file").is_file()


def test_a_working_folder_that_is_not_there_is_said_so(way: Way, box: Box, tmp_path: Path) -> None:
    done = run(way, replace(box, workdir="/no/such"), tmp_path, "true")
    assert done.returncode != 0
    assert "/no/such" in done.stderr


@pytest.mark.parametrize("name", HOSTILE)
def test_folders_and_files_are_mounted_whatever_they_are_called(
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


def test_what_is_to_be_mounted_must_be_there(way: Way, box: Box, tmp_path: Path) -> None:
    done = run(way, replace(box, mounts=(Mount("/no/such", "/x"),)), tmp_path, "true")
    explained = APPTAINER.explain(done.stderr)
    assert done.returncode == 255
    assert explained is not None
    assert "to be mounted is not on the node" in str(explained.sentence)


def test_the_environment_of_the_job_comes_through(way: Way, box: Box, tmp_path: Path) -> None:
    value = "".join(HOSTILE)
    done = run(
        way,
        box,
        tmp_path,
        *("python3", "-c", "import os; print([os.environ[n] for n in ('G', 'VALUE')])"),
        CUDA_VISIBLE_DEVICES="0,1",
        G="0,1",
        VALUE=value,
    )
    assert (done.stdout, done.stderr) == (f"{['0,1', value]}\n", "")


def test_the_gpus_of_the_job_stay_its_own(way: Way, box: Box, tmp_path: Path) -> None:
    """No driver here: Apptainer says nothing of that to who asked it to be quiet."""
    done = run(way, box, tmp_path, "printenv", "CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES="2,3")
    assert (done.stdout, done.stderr) == ("2,3\n", "")


def test_the_nodes_own_settings_do_not(way: Way, box: Box, tmp_path: Path) -> None:
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


def test_the_users_environment_wins_and_arrives_unchanged(
    way: Way, box: Box, tmp_path: Path
) -> None:
    value = "'" + "".join(HOSTILE)
    lines = f"export VALUE={shlex.quote(value)} PYTHONPATH=/own PYTHONNOUSERSITE=\n"
    Path(box.job_dir, "env.sh").write_text(lines)
    code = "import os; print([os.environ[n] for n in ('VALUE', 'PYTHONPATH')])"
    done = run(way, replace(box, env_file="env.sh"), tmp_path, "python3", "-c", code)
    assert done.stdout == f"{[value, '/own']}\n"


def test_an_exit_code_comes_through(way: Way, box: Box, tmp_path: Path) -> None:
    assert run(way, box, tmp_path, "sh", "-c", "exit 42").returncode == 42


def test_a_program_that_is_not_in_the_image_is_said_so(way: Way, box: Box, tmp_path: Path) -> None:
    done = run(way, box, tmp_path, "no such program")
    assert done.returncode == 127
    assert "no such program" in done.stderr


def test_a_signal_reaches_the_program_which_can_still_use_the_image(
    way: Way, box: Box, tmp_path: Path
) -> None:
    with started(way, box, tmp_path, "python3", "-c", SAVES) as process:
        process.terminate()
        assert process.communicate(timeout=_PATIENCE_S)[0] == "saved\n"
        assert process.returncode == 3


def test_a_program_that_minds_no_signal_ends_by_it(way: Way, box: Box, tmp_path: Path) -> None:
    with started(way, box, tmp_path, "sh", "-c", "echo ready; exec sleep 600") as process:
        process.send_signal(signal.SIGUSR2)
        assert process.wait(_PATIENCE_S) in {-signal.SIGUSR2, 128 + signal.SIGUSR2}


def test_all_of_it_is_gone_when_each_process_is_killed(way: Way, box: Box, tmp_path: Path) -> None:
    """As Slurm kills a job; the image is no longer mounted either."""
    with started(way, box, tmp_path, "sh", "-c", "echo ready; sleep 600") as process:
        processes = family(process.pid)
        assert len(processes) > 1
        for one in processes:
            kill(one)
        wait_until(lambda: not any(runs(one) for one in processes), _PATIENCE_S)
    assert way.image not in Path("/proc/self/mountinfo").read_text()


def test_a_squashfs_file_is_an_image_too(apptainer_engine: ApptainerEngine, tmp_path: Path) -> None:
    image = tmp_path / "a b.sqsh"
    subprocess.run(
        ["mksquashfs", apptainer_engine.folder, image, "-quiet", "-no-progress", "-noD", "-noF"],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=_PATIENCE_S,
    )
    way = Way(str(image), apptainer_engine.env)
    done = run(way, Box(str(tmp_path), way.image), tmp_path, "python3", "-c", "print(1)")
    assert (done.stdout, done.stderr) == ("1\n", "")
