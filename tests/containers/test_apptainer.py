"""Command lines of Apptainer and Singularity, passed to a stand-in. `test_apptainer_real.py` runs
the real tool."""

import csv
import io
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_slurm.containers import Box, Mount, runtime_named
from jupyter_slurm.containers.references import parse_reference
from jupyter_slurm.errors import RequestError

APPTAINER = runtime_named("apptainer")
BOX = Box(job_dir="/home/u/jobs/abc", image="/images/a.sif")


def words(box: Box, *argv: str, name: str = "apptainer") -> list[str]:
    """Return the script's arguments: both names, the verbosity, and the words after `exec`."""
    launch = runtime_named(name).launch(argv, box)
    assert launch.argv[:2] == ("/bin/sh", "-c")
    assert (launch.setup, launch.pid_file) == ((), None)
    return list(launch.argv[4:])


@pytest.mark.parametrize("name", ["apptainer", "singularity"])
def test_command_line_is_equal_for_apptainer_and_singularity(name: str) -> None:
    found = words(BOX, "python3", "/home/u/jobs/abc/runner.py", name=name)
    assert found[1] in {"apptainer", "singularity"} - {name}
    assert [found[0], *found[2:7]] == [
        name,
        "--quiet",
        "--pwd=/",
        "--bind=/home/u/jobs/abc:/home/u/jobs/abc",
        "/images/a.sif",
        "/bin/sh",
    ]
    assert found[-2:] == ["python3", "/home/u/jobs/abc/runner.py"]


def test_environment_values_are_read_from_a_file() -> None:
    found = words(Box(job_dir="/j", image="/i.sif", env_file="env.sh"), "true")
    assert any(". /j/env.sh\n" in word for word in found)


@pytest.mark.parametrize(
    ("mount", "option"),
    [
        (Mount("/a b", "/mnt/x"), "--bind=/a b:/mnt/x"),
        (Mount("/a", "/mnt/x", read_only=True), "--bind=/a:/mnt/x:ro"),
        (Mount("/it's $x", "/mnt/é"), "--bind=/it's $x:/mnt/é"),
    ],
)
def test_mount_becomes_a_bind_option(mount: Mount, option: str) -> None:
    assert option in words(Box(job_dir="/j", image="/i", mounts=(mount,)), "true")


@pytest.mark.parametrize("path", ["/a:b", "/a,b", '/a"b', "/a\\b", "/a\nb"])
def test_path_with_separators_uses_the_mount_option(path: str) -> None:
    for mount in (Mount(path, "/mnt/x"), Mount("/x", path, read_only=True)):
        found = words(Box(job_dir="/j", image="/i", mounts=(mount,)), "true")
        (option,) = [word for word in found if word.startswith("--mount=")]
        (fields,) = csv.reader(io.StringIO(option.removeprefix("--mount="), newline=""))
        read_only = ["ro"] * mount.read_only
        assert fields == [
            "type=bind",
            f"source={mount.src}",
            f"destination={mount.dst}",
            *read_only,
        ]


@pytest.mark.parametrize(
    ("mount", "said"),
    [
        (Mount("a", "/mnt/x"), "absolute"),
        (Mount("/a", "x"), "absolute"),
        (Mount("/a", "/x/.."), "Cannot mount"),
        (Mount("/a\0", "/mnt/x"), "NUL"),
    ],
)
def test_invalid_mounts_are_rejected(mount: Mount, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        APPTAINER.launch(["true"], Box(job_dir="/j", image="/i", mounts=(mount,)))


@pytest.fixture(params=["dash", "bash --posix"])
def run_script(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., list[str]]:
    """Run the script in a shell with the variables `env`. The stand-in `program` prints its
    arguments."""

    def run_script(program: str = "apptainer", **env: str) -> list[str]:
        tool = tmp_path / program
        tool.write_text('#!/bin/sh\nprintf \'%s\\n\' "${0##*/}" "$@" ; env >&2\n')
        tool.chmod(0o755)
        shell, *options = request.param.split()
        _, _, *rest = APPTAINER.launch(["true"], BOX).argv
        done = subprocess.run(
            [f"/bin/{shell}", *options, "-c", *rest],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"} | env,
            capture_output=True,
            text=True,
            check=True,
        )
        names = {line.partition("=")[0] for line in done.stderr.splitlines()}
        assert names.isdisjoint({"PYTHONPATH", "CONDA_PREFIX", "BASH_FUNC_x%%", "LD_PRELOAD"})
        said = done.stdout.splitlines()
        return said[: said.index("--pwd=/")]

    return run_script


def test_job_without_gpus_gets_no_gpu_option(run_script: Callable[..., list[str]]) -> None:
    quiet = ["apptainer", "--nocolor", "--quiet", "exec"]
    assert run_script() == quiet
    assert run_script(CUDA_VISIBLE_DEVICES="") == quiet
    assert run_script(CUDA_VISIBLE_DEVICES="NoDevFiles") == quiet


def test_gpu_job_gets_the_driver_libraries(
    run_script: Callable[..., list[str]],
) -> None:
    assert run_script(CUDA_VISIBLE_DEVICES="0,1")[3:] == ["exec", "--nv"]
    assert run_script(ROCR_VISIBLE_DEVICES="0")[3:] == ["exec", "--rocm"]


def test_tool_is_found_under_its_other_name(
    run_script: Callable[..., list[str]],
) -> None:
    assert run_script("singularity")[:3] == ["singularity", "--nocolor", "--quiet"]


_DIGEST = "sha256:" + 64 * "0"


@pytest.mark.parametrize(
    ("name", "fetched"),
    [
        ("pytorch:22.11", "docker://nvcr.io/nvidia/pytorch:22.11-py3"),
        ("nvcr.io#nvidia/cuda:12.0.0-base", "docker://nvcr.io/nvidia/cuda:12.0.0-base"),
        ("ubuntu", "docker://docker.io/library/ubuntu:latest"),
        (f"a.b/c:1@{_DIGEST}", f"docker://a.b/c@{_DIGEST}"),
    ],
)
def test_registry_image_has_a_docker_uri(name: str, fetched: str) -> None:
    assert APPTAINER.fetched(parse_reference(name)) == fetched
