import subprocess
from pathlib import Path

import pytest

from jupyter_slurm.containers import Box, Mount, runtime_named
from jupyter_slurm.errors import RequestError

NONE = runtime_named("none")


def run(box: Box, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    launch = NONE.launch(argv, box)
    assert launch.setup == ()
    return subprocess.run(
        launch.argv,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", **env},
    )


@pytest.mark.parametrize("folder", [None, "~", "."])
def test_default_working_directory_is_the_home(folder: str | None, tmp_path: Path) -> None:
    done = run(Box(job_dir="/j", workdir=folder), "pwd", HOME=str(tmp_path))
    assert done.stdout == f"{tmp_path}\n"


@pytest.mark.parametrize("name", ["plain", "a b", "-n", "$(x)`y`", "quo'te\"", "new\nline", "é"])
@pytest.mark.parametrize("start", ["{home}/", "~/", ""])
def test_working_directory_can_have_any_name(start: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    box = Box(job_dir="/j", workdir=start.format(home=tmp_path) + name)
    done = run(box, "pwd", HOME=str(tmp_path), CDPATH="/:/tmp")
    assert (done.stdout, done.stderr) == (f"{tmp_path / name}\n", "")


def test_error_names_missing_working_directory(tmp_path: Path) -> None:
    done = run(Box(job_dir="/j", workdir="/nowhere/at all"), "pwd", HOME=str(tmp_path))
    assert done.returncode != 0
    assert "/nowhere/at all" in done.stderr


def test_environment_is_read_from_a_file_in_the_job_folder(tmp_path: Path) -> None:
    folder = tmp_path / "it's $HOME"
    folder.mkdir()
    (folder / "env.sh").write_text("export GREETING='a $b\nc'\n")
    done = run(Box(job_dir=str(folder), env_file="env.sh"), "printenv", "GREETING", HOME="/")
    assert done.stdout == "a $b\nc\n"


def test_runtime_none_rejects_an_image() -> None:
    with pytest.raises(RequestError, match="does not use images such as /x") as caught:
        NONE.launch(["true"], Box(job_dir="/j", image="/x"))
    assert "--runtime charliecloud" in str(caught.value.hint)


def test_runtime_none_rejects_a_mount() -> None:
    with pytest.raises(RequestError, match="cannot mount /data"):
        NONE.launch(["true"], Box(job_dir="/j", mounts=(Mount("/data", "/data"),)))
