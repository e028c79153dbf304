"""What `--dry-run` shows of a container: each runtime's command line as a person would type it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jupyter_slurm.containers import RUNTIMES, Box, Mount, runtime_named
from jupyter_slurm.containers.typed import folder, typed_text

ARGV = ["python3", "-uB", "/mnt/job/runner.py", "/mnt/job", "0"]
DATA = Mount("/my data", "/mnt/data", read_only=True)
CODE = Mount("/code", "/mnt/code")
KEPT = Box(job_dir="/jobs/abc", image="@mine", env_file="environment.sh")
TEXTS = {
    "none": """\
cd '/a b'
python3 -uB /mnt/job/runner.py /mnt/job 0""",
    "charliecloud": """\
mkdir -p -- /jobs/abc/mnt/job /jobs/abc/mnt/code
ch-run \\
  --home \\
  --env-no-expand \\
  '--unset-env=LD_*' \\
  --unset-env=PYTHONPATH \\
  --unset-env=PYTHONHOME \\
  --unset-env=VIRTUAL_ENV \\
  '--unset-env=CONDA_*' \\
  --set-env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
  --set-env=PYTHONNOUSERSITE=1 \\
  --bind=/jobs/abc/mnt:/mnt \\
  --bind=/jobs/abc:/mnt/job \\
  --bind=/code:/mnt/code \\
  --cd '/a b' \\
  /i/pytorch.sqfs -- \\
  python3 -uB /mnt/job/runner.py /mnt/job 0""",
    "apptainer": """\
apptainer exec \\
  --nv \\
  --pwd '/a b' \\
  --bind=/jobs/abc:/jobs/abc \\
  --bind=/code:/mnt/code \\
  '--bind=/my data:/mnt/data:ro' \\
  /i/pytorch.sif \\
  python3 -uB /mnt/job/runner.py /mnt/job 0""",
    "docker": """\
docker run --rm --interactive --init \\
  --name "jslurm-$SLURM_JOB_ID" \\
  --user "$(id -u):$(id -g)" \\
  --gpus "\\"device=$CUDA_VISIBLE_DEVICES\\"" \\
  --network=host \\
  --mount "type=bind,src=$HOME,dst=$HOME" \\
  --mount=type=bind,src=/jobs/abc,dst=/jobs/abc \\
  --mount=type=bind,src=/code,dst=/mnt/code \\
  '--mount=type=bind,src=/my data,dst=/mnt/data,readonly' \\
  --workdir '/a b' \\
  --entrypoint python3 \\
  pytorch:22.11 -uB /mnt/job/runner.py /mnt/job 0""",
    "podman": """\
podman --cgroup-manager=cgroupfs run --rm --interactive --init \\
  --name "jslurm-$SLURM_JOB_ID" \\
  --user "$(id -u):$(id -g)" \\
  $(printf -- '--device nvidia.com/gpu=%s ' ${CUDA_VISIBLE_DEVICES//,/ }) \\
  --network=host \\
  --userns=keep-id \\
  --group-add=keep-groups \\
  --security-opt=label=disable \\
  --mount "type=bind,src=$HOME,dst=$HOME" \\
  --mount=type=bind,src=/jobs/abc,dst=/jobs/abc \\
  --mount=type=bind,src=/code,dst=/mnt/code \\
  '--mount=type=bind,src=/my data,dst=/mnt/data,readonly' \\
  --workdir '/a b' \\
  --entrypoint python3 \\
  pytorch:22.11 -uB /mnt/job/runner.py /mnt/job 0""",
    "pyxis": """\
ln -sfn -- '/my data' /jobs/abc/mount.1
srun --nodes=1 --ntasks=1 \\
  '--container-image=nvcr.io#nvidia/pytorch:22.11' \\
  --container-mounts=/code:/mnt/code,/jobs/abc/mount.1:/mnt/data:ro,/jobs/abc:/mnt/job \\
  --container-mount-home \\
  --no-container-entrypoint \\
  --no-container-remap-root \\
  --container-writable \\
  --container-workdir '/a b' \\
  python3 -uB /mnt/job/runner.py /mnt/job 0""",
    "enroot": """\
enroot import --output "$TMPDIR/jslurm-$SLURM_JOB_ID.sqsh" \\
  'docker://nvcr.io#nvidia/pytorch:22.11'
enroot create --name "jslurm-$SLURM_JOB_ID" \\
  "$TMPDIR/jslurm-$SLURM_JOB_ID.sqsh"
ENROOT_MOUNT_HOME=yes NVIDIA_VISIBLE_DEVICES="$CUDA_VISIBLE_DEVICES" enroot start --rw \\
  --mount=/code:/mnt/code:x-create=auto,rbind \\
  '--mount=/my data:/mnt/data:x-create=auto,rbind,ro' \\
  --mount=/jobs/abc:/mnt/job:x-create=auto,rbind \\
  "jslurm-$SLURM_JOB_ID" sh -c 'cd "$0" && exec "$@"' '/a b' \\
  python3 -uB /mnt/job/runner.py /mnt/job 0""",
}
IMAGES = {
    "charliecloud": "/i/pytorch.sqfs",
    "apptainer": "/i/pytorch.sif",
    "docker": "pytorch:22.11",
    "podman": "pytorch:22.11",
    "pyxis": "nvcr.io#nvidia/pytorch:22.11",
    "enroot": "nvcr.io#nvidia/pytorch:22.11",
}
WITHOUT_MOUNTS, WITHOUT_READ_ONLY = {"none"}, {"charliecloud"}
LIKE = {"singularity": "apptainer", "sudo-docker": "docker"}


def typed(name: str, box: Box, gpus: int = 0) -> str:
    return typed_text(runtime_named(name).typed(ARGV, box, gpus))


def full(name: str) -> Box:
    like = LIKE.get(name, name)
    mounts = () if like in WITHOUT_MOUNTS else (CODE, DATA)
    return Box(
        job_dir="/jobs/abc",
        image=IMAGES.get(like),
        mounts=tuple(one for one in mounts if like not in WITHOUT_READ_ONLY or not one.read_only),
        env_file="environment.sh",
        workdir="/a b",
    )


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_command_line_is_told_as_one_would_type_it(name: str) -> None:
    text = typed(name, full(name), gpus=2)
    if name == "singularity":
        text = text.replace("singularity exec", "apptainer exec")
    elif name == "sudo-docker":
        text = text.replace("sudo -n docker run", "docker run")
    assert text == TEXTS[LIKE.get(name, name)]


@pytest.mark.parametrize("name", RUNTIMES)
def test_what_is_told_is_sh_and_says_nothing_of_gpus_without_any(name: str, tmp_path: Path) -> None:
    text = typed(name, full(name))
    assert "DEVICES" not in text
    assert "--nv" not in text
    # None of the programs: what the shell makes of the words is what is looked at.
    program = tmp_path / "said"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    last = text.replace("\\\n", " ").splitlines()[-1]
    at_words = last.replace("ENROOT_MOUNT_HOME=yes ", "")
    done = subprocess.run(
        ["bash", "-c", f"{program} {at_words}"],
        env={"PATH": "/usr/bin:/bin", "HOME": "/h", "SLURM_JOB_ID": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    said = done.stdout.splitlines()
    assert said[-4:] == ARGV[1:]
    if name in {"docker", "podman"}:
        assert {"jslurm-7", "type=bind,src=/h,dst=/h", "/a b"} < set(said)


@pytest.mark.parametrize("name", ["pyxis", "enroot"])
def test_a_container_that_is_kept_is_entered_under_its_name(name: str) -> None:
    text = typed(name, KEPT)
    assert "create --name" not in text
    assert ("--container-name=mine" in text) if name == "pyxis" else ("\n  mine sh -c " in text)


def test_an_image_made_here_is_loaded_first() -> None:
    text = typed("docker", Box(job_dir="/j", image="/i/mine+0123456789ab.tar"))
    assert text.startswith("docker load </i/mine+0123456789ab.tar\ndocker run ")
    assert "\n  /i/" not in text


@pytest.mark.parametrize(
    ("workdir", "piece"),
    [
        (None, "~"),
        ("~", "~"),
        (".", "~"),
        ("~/", "~"),
        ("~/a b", "~/'a b'"),
        ("sub", "~/sub"),
        ("/x", "/x"),
        ("/a $b", "'/a $b'"),
    ],
)
def test_the_folder_is_told_with_the_home_as_a_tilde(workdir: str | None, piece: str) -> None:
    assert folder(Box(job_dir="/j", workdir=workdir)) == piece
