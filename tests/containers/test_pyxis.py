"""Command lines of pyxis, recorded by a stand-in for srun. `test_cells.py` runs cells in steps of a
real Slurm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.containers import Box, Mount, runtime_named
from jupyter_slurm.containers.references import parse_reference
from jupyter_slurm.containers.runtime import HasSteps
from jupyter_slurm.errors import RequestError

PYXIS = runtime_named("pyxis")
BOX = Box(job_dir="/jobs/abc", image="nvcr.io#nvidia/pytorch:22.11-py3")
SRUN = """#!/usr/bin/python3
import json, os, sys
if sys.argv[1:] == ["--help"]:
    sys.exit(print(os.environ.get("HELP", "--container-image")))
with open(os.environ["CALL"], "w") as call:
    json.dump({"words": sys.argv[1:], "env": dict(os.environ)}, call)
print("srun: error: n1: task 0: Exited with exit code 3", file=sys.stderr)
print("slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 12 ***", file=sys.stderr)
print("pyxis: importing docker image: x", file=sys.stderr)
sys.exit(int(os.environ.get("RC", "0")))
"""
SMI = """#!/bin/sh
[ "$2" = 0,1 ] || exit 6
printf 'GPU-aa\\nGPU-bb\\n'
"""

Called = Callable[..., dict[str, Any]]


def options(box: Box) -> list[str]:
    argv = PYXIS.launch(["true"], box).argv
    return [word for word in argv[7 : argv.index("--")] if word]


@pytest.fixture
def called(tmp_path: Path) -> Called:
    """Run the script. Return srun's arguments and the output."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"srun": SRUN, "nvidia-smi": SMI}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)

    def call(image: str = "/i.sqsh", **env: str) -> dict[str, Any]:
        launch = PYXIS.launch(["prog", "a b"], Box(job_dir=str(tmp_path), image=image))
        done = subprocess.run(
            ["bash", *launch.argv[1:]],
            env={"PATH": f"{programs}:/usr/bin:/bin", "CALL": str(tmp_path / "call"), **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        found: dict[str, Any] = json.loads((tmp_path / "call").read_text())
        return found | {"rc": done.returncode, "stderr": done.stderr}

    return call


def test_container_user_is_root_on_request() -> None:
    as_root = options(replace(BOX, as_root=True))
    assert set(options(BOX)) - set(as_root) == {"--no-container-remap-root"}
    assert set(as_root) - set(options(BOX)) == {"--container-remap-root"}


def test_step_runs_one_task_on_the_batch_host_without_input(
    called: Called,
) -> None:
    words = called(SLURMD_NODENAME="n7")["words"]
    assert words[:5] == ["--nodes=1", "--ntasks=1", "--export=ALL", "--input=none", "--quiet"]
    assert "--nodelist=n7" in words
    assert words[-2:] == ["prog", "a b"]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, []),
        ({"SLURM_CPUS_PER_TASK": "8", "SLURM_TASKS_PER_NODE": "1"}, ["--cpus-per-task=8"]),
        ({"SLURM_CPUS_PER_TASK": "2", "SLURM_TASKS_PER_NODE": "4(x2),1"}, ["--cpus-per-task=8"]),
        ({"SLURM_CPUS_PER_TASK": "2"}, ["--cpus-per-task=2"]),
    ],
)
def test_step_has_the_cpus_of_the_job_on_its_node(
    env: dict[str, str], expected: list[str], called: Called
) -> None:
    words = called(**env)["words"]
    assert [word for word in words if word.startswith("--cpus")] == expected


@pytest.mark.parametrize("several", [{"SLURM_NTASKS": "2"}, {"SLURM_JOB_NUM_NODES": "2"}])
def test_step_gets_the_gpus_of_the_batch_host(several: dict[str, str], called: Called) -> None:
    job = {**several, "SLURM_GPUS_PER_TASK": "1", "SLURM_GPUS": "8"}
    step = called(**job, CUDA_VISIBLE_DEVICES="0,3")
    assert "--gpus=2" in step["words"]
    assert {"SLURM_NTASKS", "SLURM_GPUS_PER_TASK", "SLURM_GPUS"} & step["env"].keys() == set()


@pytest.mark.parametrize(("devices", "shown"), [("0,1", "all"), ("7", None)])
def test_many_nodes_run_one_step_with_container_options(
    devices: str, shown: str | None, called: Called, tmp_path: Path
) -> None:
    """The step requests GPUs from NVIDIA's hook only if the node's tools list the job's GPUs."""
    assert isinstance(PYXIS, HasSteps)
    step = PYXIS.step(Box(job_dir=str(tmp_path), image="@mine"))
    argv = [*step.before, "srun", "--mpi=pmi2", *step.options, *step.inside, "python3"]
    programs = tmp_path / "bin"
    env = {"PATH": f"{programs}:/usr/bin:/bin", "CALL": str(tmp_path / "call")}
    given = {"CUDA_VISIBLE_DEVICES": devices, "PYTHONPATH": "/x", "HELP": "--container-env"}
    subprocess.run(argv, env=env | given, capture_output=True, check=True, timeout=60)
    found = json.loads((tmp_path / "call").read_text())
    assert found["words"][:2] == ["--container-name=mine:no_exec", "--mpi=pmi2"]
    assert f"--container-mounts={tmp_path}:/mnt/job" in found["words"]
    assert found["words"][-1] == "python3"
    assert found["env"].get("NVIDIA_VISIBLE_DEVICES") == shown
    assert found["env"]["JSLURM_GPUS"] == ""
    assert "PYTHONPATH" not in found["env"]


def test_gpus_known_to_the_node_are_named_by_uuid(called: Called) -> None:
    env = called(CUDA_VISIBLE_DEVICES="0,1")["env"]
    assert env["NVIDIA_VISIBLE_DEVICES"] == env["JSLURM_GPUS"] == "GPU-aa,GPU-bb"
    assert env["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility,video"


@pytest.mark.parametrize("devices", ["", "NoDevFiles", "7"])
def test_gpus_unknown_to_the_node_are_not_named(devices: str, called: Called) -> None:
    env = called(CUDA_VISIBLE_DEVICES=devices)["env"]
    assert "NVIDIA_VISIBLE_DEVICES" not in env
    assert env["JSLURM_GPUS"] == ""


def test_python_and_pyxis_settings_of_the_node_do_not_enter_the_container(called: Called) -> None:
    wrong = {
        "PYXIS_CONTAINER_IMAGE": "x",
        "PYTHONPATH": "/x",
        "PYTHONHOME": "/x",
        "VIRTUAL_ENV": "/x",
        "CONDA_PREFIX": "/x",
        "LD_PRELOAD": "",
    }
    env = called(**wrong, LD_LIBRARY_PATH="/lib", KEPT="a\nb, c")["env"]
    assert wrong.keys() & env.keys() == set()
    # srun may need LD_LIBRARY_PATH. The container has only the value of its image.
    assert env["LD_LIBRARY_PATH"] == env["JSLURM_LIBRARIES"] == "/lib"
    assert env["KEPT"] == "a\nb, c"
    assert env["ENROOT_LOGIN_SHELL"] == "no"


def test_exit_code_is_passed_on_without_messages_from_srun(called: Called) -> None:
    done = called(RC="3")
    assert (done["rc"], done["stderr"]) == (3, "pyxis: importing docker image: x\n")


@pytest.mark.parametrize(
    ("shown", "name"),
    [("--container-name", "myrepo"), ("--container-name --container-env", "myrepo:no_exec")],
)
def test_named_container_is_started_and_not_entered(shown: str, name: str, called: Called) -> None:
    words = called("@myrepo", HELP=shown)["words"]
    assert f"--container-name={name}" in words
    assert not any(word.startswith("--container-image") for word in words)


def test_container_name_and_flag_are_passed_to_pyxis() -> None:
    launch = PYXIS.launch(["true"], replace(BOX, container_name="myrepo:create"))
    assert "myrepo:create" in launch.argv
    assert any(word.startswith("--container-image=") for word in launch.argv)


@pytest.mark.parametrize(
    ("asked", "uri"),
    [
        ("ubuntu:20.04", "ubuntu:20.04"),
        ("continuumio/miniconda3", "continuumio/miniconda3:latest"),
        ("pytorch:22.11", "nvcr.io#nvidia/pytorch:22.11-py3"),
        ("nvcr.io#nvidia/tensorflow:22.02-tf2-py3", "nvcr.io#nvidia/tensorflow:22.02-tf2-py3"),
        ("docker://quay.io/a/b:1", "quay.io#a/b:1"),
        ("localhost:5000/mine:1", "localhost:5000#mine:1"),
        (f"ubuntu@sha256:{'a' * 64}", f"ubuntu@sha256:{'a' * 64}"),
    ],
)
def test_image_name_becomes_an_enroot_uri(asked: str, uri: str) -> None:
    assert PYXIS.fetched(parse_reference(asked)) == uri


def test_read_only_mounts_and_any_mount_source_are_supported() -> None:
    mounts = (Mount("/data", "/mnt/a", read_only=True), Mount("/it's, $x:", "/srv/b"))
    launch = PYXIS.launch(["true"], Box(job_dir="/j", image="/i", mounts=mounts))
    assert "--container-mounts=/data:/mnt/a:ro,/j/mount.1:/srv/b,/j:/mnt/job" in launch.argv
    assert launch.setup == ("ln -sfn -- '/it'\"'\"'s, $x:' /j/mount.1",)


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (Mount("/a", "/mnt/a,b"), "does not allow blanks, commas"),
        (Mount("/a", "/mnt"), "Cannot mount /a at /mnt"),
        (Mount("a", "/mnt/x"), "absolute path"),
        (Mount("/a\0", "/mnt/x"), "NUL"),
    ],
)
def test_unsupported_mounts_are_rejected_by_pyxis(mount: Mount, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        PYXIS.launch(["true"], Box(job_dir="/j", image="/i", mounts=(mount,)))


@pytest.mark.parametrize("job_dir", ["/a b", "/a$b"])
def test_job_folder_that_pyxis_cannot_mount_is_rejected_with_a_hint(job_dir: str) -> None:
    with pytest.raises(RequestError, match="pyxis cannot mount") as caught:
        PYXIS.launch(["true"], Box(job_dir=job_dir, image="/i"))
    assert "job_root" in str(caught.value.hint)


def test_environment_values_are_read_from_a_file() -> None:
    launch = PYXIS.launch(["true"], Box(job_dir="/j", image="/i", env_file="env.sh"))
    assert any(". /mnt/job/env.sh\n" in word for word in launch.argv)
