"""Command lines of Docker and podman, recorded by a stand-in. `test_docker_real.py` runs the real
Docker."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_slurm.containers import Box, Mount, runtime_named
from jupyter_slurm.errors import RequestError

ENGINE = """#!/usr/bin/python3
import json, os, sys
words = sys.argv[1:]
if "prune" in words:  # beside all else
    sys.exit()
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps([os.path.basename(sys.argv[0]), *words]) + "\\n")
sys.exit(int(os.environ.get("RC", "0")))
"""
SMI = """#!/bin/sh
case $2 in
0) echo GPU-aa ;;
0,1) printf 'GPU-aa\\nGPU-bb\\n' ;;
*) echo "No devices were found"; exit 6 ;;
esac
"""

Called = Callable[..., list[str]]


@pytest.fixture
def job_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "jobs" / "it's $HOME"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def called(tmp_path: Path, job_dir: Path) -> Called:
    """Return the engine's arguments. node.sh and the log are in `tmp_path`."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tmp_path / "home").mkdir()

    def called(
        runtime: str = "docker", *, smi: bool = True, box: Box | None = None, **env: str
    ) -> list[str]:
        for name in ("docker", "podman", "sudo", *(["nvidia-smi"] if smi else [])):
            (tools / name).write_text(SMI if name == "nvidia-smi" else ENGINE)
            (tools / name).chmod(0o755)
        box = box or Box(str(job_dir), "image:1")
        launch = runtime_named(runtime).launch(["true"], box)
        done = subprocess.run(
            ["bash", *launch.argv[1:]],
            env={
                "PATH": f"{tools}:/usr/bin:/bin",
                "HOME": str(tmp_path / "home"),
                "SLURM_JOB_ID": "7",
                "CALLS": str(tmp_path / "calls"),
                **env,
            },
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
        (tmp_path / "log").write_text(done.stderr)
        assert done.returncode == int(env.get("RC", "0")), done.stderr
        with (tmp_path / "calls").open() as calls:
            return list(json.loads(calls.readline()))

    return called


def value(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def values(words: list[str], option: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def golden(words: list[str]) -> list[str]:
    """Remove details of this machine, and the program inside the container."""
    place = {"--shm-size": "SHM", "--cpuset-cpus": "CPUS", "--ulimit": "LIMIT", "--group-add": "G"}
    shown = [
        place.get(words[at - 1], word) if at else word
        for at, word in enumerate(words[: words.index("-c")])
    ]
    return [word for at, word in enumerate(shown) if "--group-add" not in {word, shown[at - 1]}]


USER = f"{os.getuid()}:{os.getgid()}"


@pytest.mark.parametrize(
    ("runtime", "engine"), [("docker", "docker"), ("sudo-docker", "sudo -n docker")]
)
def test_command_line_of_docker_is_complete(
    runtime: str, engine: str, called: Called, job_dir: Path, tmp_path: Path
) -> None:
    words = called(runtime, CUDA_VISIBLE_DEVICES="0,1", SLURM_MEM_PER_NODE="2048")
    assert shlex.join(golden(words)) == (
        f"""{engine} run --rm --interactive --init --gpus '"device=GPU-aa,GPU-bb"' """
        "--cpuset-cpus CPUS --memory 2048m --env NVIDIA_VISIBLE_DEVICES=GPU-aa,GPU-bb "
        "--ulimit LIMIT --shm-size SHM "
        f"""{shlex.quote(f"--mount=type=bind,src={job_dir},dst={job_dir}")} """
        f"""--mount 'type=bind,"src={tmp_path}/home","dst={tmp_path}/home"' """
        f"--name jslurm-7-0 --label jupyter-slurm.job=7 --user {USER} --entrypoint=/bin/sh "
        "--network=host --log-driver=none --workdir=/ image:1"
    )
    assert values(words, "--group-add") == [str(group) for group in reversed(_groups())]


def test_command_line_of_podman_is_complete(called: Called, job_dir: Path, tmp_path: Path) -> None:
    words = called("podman", CUDA_VISIBLE_DEVICES="0,1", SLURM_MEM_PER_NODE="2048")
    assert shlex.join(golden(words)) == (
        "podman --cgroup-manager=cgroupfs run --rm --interactive --init "
        "--device nvidia.com/gpu=GPU-bb --device nvidia.com/gpu=GPU-aa "
        "--env NVIDIA_VISIBLE_DEVICES=GPU-aa,GPU-bb --ulimit LIMIT --shm-size SHM "
        f"""{shlex.quote(f"--mount=type=bind,src={job_dir},dst={job_dir}")} """
        f"""--mount 'type=bind,"src={tmp_path}/home","dst={tmp_path}/home"' """
        f"--name jslurm-7-0 --label jupyter-slurm.job=7 --user {USER} --entrypoint=/bin/sh "
        "--network=host --log-driver=none --workdir=/ --userns=keep-id --group-add=keep-groups "
        "--security-opt=label=disable image:1"
    )


def _groups() -> list[int]:
    told = subprocess.run(["id", "-G"], stdout=subprocess.PIPE, text=True, check=True)
    return [int(group) for group in told.stdout.split()]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("0", "GPU-aa"),
        ("MIG-e1,MIG-e2", "MIG-e1,MIG-e2"),
    ],
)
def test_gpus_are_named_by_uuid(given: str, wanted: str, called: Called) -> None:
    words = called(CUDA_VISIBLE_DEVICES=given)
    assert value(words, "--gpus") == f'"device={wanted}"'
    assert f"NVIDIA_VISIBLE_DEVICES={wanted}" in words


@pytest.mark.parametrize("given", [{}, {"CUDA_VISIBLE_DEVICES": ""}])
def test_job_without_gpus_gets_none_from_the_image(given: dict[str, str], called: Called) -> None:
    words = called(**given)
    assert "--gpus" not in words
    assert "NVIDIA_VISIBLE_DEVICES=void" in words


def test_job_with_unidentified_gpus_does_not_get_all_gpus(called: Called) -> None:
    words = called(smi=False, CUDA_VISIBLE_DEVICES="0")
    assert "--gpus" not in words
    assert "NVIDIA_VISIBLE_DEVICES=void" in words


def test_missing_gpus_end_the_job_before_docker_runs(called: Called, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        called(CUDA_VISIBLE_DEVICES="5", RC="66")
    assert "No devices were found" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"SLURM_MEM_PER_NODE": "100"}, ["100m"]),
        ({"SLURM_MEM_PER_CPU": "100", "SLURM_CPUS_ON_NODE": "4"}, ["400m"]),
        ({"SLURM_MEM_PER_GPU": "100", "SLURM_GPUS_ON_NODE": "2"}, ["200m"]),
        ({"SLURM_MEM_PER_NODE": "0"}, []),
        ({}, []),
    ],
)
def test_container_has_the_memory_limit_of_the_job(
    given: dict[str, str], wanted: list[str], called: Called
) -> None:
    assert values(called(**given), "--memory") == wanted


def test_requeued_attempt_has_its_own_container_name(called: Called) -> None:
    assert value(called(SLURM_RESTART_COUNT="2"), "--name") == "jslurm-7-2"


@pytest.mark.parametrize(
    ("mount", "option"),
    [
        (Mount("/a,b", "/c"), '--mount=type=bind,"src=/a,b",dst=/c'),
        (Mount("/a:b", "/c:d"), "--mount=type=bind,src=/a:b,dst=/c:d"),
        (Mount("/it's $x\né", "/c"), '--mount=type=bind,"src=/it\'s $x\né",dst=/c'),
        (Mount("/a", "/c", read_only=True), "--mount=type=bind,src=/a,dst=/c,readonly"),
    ],
)
def test_mounts_keep_odd_names(mount: Mount, option: str, called: Called, job_dir: Path) -> None:
    words = called(box=Box(str(job_dir), "image:1", mounts=(mount,)))
    assert words[words.index("image:1") - 1] == option


def test_locally_built_image_is_loaded_on_the_node(
    called: Called, job_dir: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "my $image+0123456789ab.tar"
    archive.touch()
    name = "jupyter-slurm/image:0123456789ab"
    there = ["docker", "image", "inspect", name]
    assert called(box=Box(str(job_dir), str(archive))) == there
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert [words[1] for words in calls] == ["image", "run"]
    assert name in calls[1]
    (tmp_path / "calls").unlink()
    called(box=Box(str(job_dir), str(archive)), RC="125")
    explained = runtime_named("docker").explain((tmp_path / "log").read_text())
    assert explained is not None
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert [words[1] for words in calls] == ["image", "load"]


def test_environment_values_are_not_in_the_command_line(called: Called, job_dir: Path) -> None:
    secret = "a, b='c'\n\"$HOME\" `x` \\ é"
    words = called(https_proxy=secret, SLURM_JOB_NAME=secret, SECRET=secret, PYTHONPATH="/x")
    assert not any("`x`" in word for word in words)
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    told = subprocess.run(
        ["sh", "-c", '. "$1"; exec python3 -c "$2"', "sh", job_dir / "node.sh", code],
        env={"PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    inside = json.loads(told.stdout)
    assert (inside["https_proxy"], inside["SLURM_JOB_NAME"]) == (secret, secret)
    assert inside["PYTHONNOUSERSITE"] == "1"
    assert inside.keys().isdisjoint({"SECRET", "PYTHONPATH", "CALLS"})
    assert (job_dir / "node.sh").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("rc", ["42", "125"])
def test_exit_code_is_passed_on(rc: str, called: Called) -> None:
    called(RC=rc)


def test_image_file_is_rejected() -> None:
    with pytest.raises(RequestError, match=r"not the file /x\.sif") as caught:
        runtime_named("podman").launch(["true"], Box("/j", "/x.sif"))
    assert "podman load" in str(caught.value.hint)
