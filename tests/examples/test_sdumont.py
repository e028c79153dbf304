"""The guide of Santos Dumont: environment modules, a home not mounted on nodes, reports.
TensorFlow is real, and trains with two replicas without a GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.dressed import Dress, Dressed
from tests.cluster.dressed_slurm import Shape
from tests.examples.reading import LIMIT_S, Reading, add, read
from tests.examples.wheels import make_wheel
from tests.ssh.waiting import wait_until

PROJECT = "deepfun"
_K40 = "CPUs=24 RealMemory=65536 Gres=gpu:k40:2"
_QUEUES = {"nvidia_dev": "00:20:00", "nvidia_small": "01:00:00", "nvidia_long": "31-00:00:00"}

_TENSORFLOW = "/scratch/app/deeplearn"
_MODULES = {
    "gcc/7.4": "setenv CC gcc",
    "cudnn/8.2_cuda-11.1": "setenv CUDA_HOME /scratch/app/cuda/11.1",
    "python/3.9.1": "prepend-path PATH /scratch/app/python/3.9.1/bin\n"
    "setenv PIP_NO_INDEX 1\nsetenv PIP_FIND_LINKS /scratch/app/wheels\n"
    # Silence TensorFlow's messages about processors.
    "setenv TF_CPP_MIN_LOG_LEVEL 2\nsetenv TF_ENABLE_ONEDNN_OPTS 0",
    "deepl/deeplearn-py3.7": "prepend-path PATH /scratch/app/python/3.9.1/bin\n"
    f"prepend-path PYTHONPATH {_TENSORFLOW}",
}


def sdumont(software: Path, tensorflow: Path) -> Dress:
    """Describe a site with `software` and the packages of the Python `tensorflow`."""
    [packages] = tensorflow.parents[1].glob("lib/python3*/site-packages")
    python = "/scratch/app/python/3.9.1"
    return Dress(
        template="sdumont",
        login="login.sdumont.lncc.br",
        shape=Shape(
            cluster="sdumont",
            nodes={
                "sdumont3001": _K40,
                "sdumont3002": _K40,
                "sdumont4000": "CPUs=40 RealMemory=393216 Gres=gpu:v100:8",
            },
            lines=(
                *(
                    f"PartitionName={name} Nodes=sdumont300[1-2] OverSubscribe=EXCLUSIVE "
                    f"MaxTime={limit}"
                    for name, limit in _QUEUES.items()
                ),
                "PartitionName=gdl Nodes=sdumont4000 OverSubscribe=EXCLUSIVE MaxTime=48:00:00",
            ),
            accounting=(
                ("add", "account", PROJECT),
                ("add", "user", "{user}", f"account={PROJECT}"),
            ),
        ),
        home=f"/prj/{PROJECT}/{{user}}",
        home_on_nodes=False,
        both=(f"/scratch/{PROJECT}/{{user}}",),
        answers={"vars.project": PROJECT},
        mounts={
            python: software / "python",
            f"{python}-packages": Path(sysconfig.get_path("purelib")),
            "/scratch/app/wheels": software / "wheels",
            _TENSORFLOW: packages,
            "/scratch/app/bin": software / "bin",
            "/usr/share/modules/modulefiles": software / "modulefiles",
            "/etc/profile.d": software / "profile.d",
        },
    )


def make_software(folder: Path) -> Path:
    """Create the site's shared software. Its Python 3.9 and 3.7 are this machine's Python with the
    tests' packages, and pip installs from a folder. Its TensorFlow 2.6, which has no release for
    this Python, is a link to `_TENSORFLOW`."""
    folder.chmod(0o755)
    python = folder / "python"
    venv = ("-m", "venv", "--system-site-packages", "--without-pip", str(python))
    subprocess.run([sys.executable, *venv], check=True, timeout=LIMIT_S)
    (python / "bin/python3.9").symlink_to("python")
    (packages,) = python.glob("lib/python3*/site-packages")
    (packages / "site.pth").write_text("/scratch/app/python/3.9.1-packages\n")
    for name, lines in _MODULES.items():
        module = folder / "modulefiles" / name
        module.parent.mkdir(parents=True)
        module.write_text(f"#%Module\n{lines}\n")
    shutil.copytree("/etc/profile.d", folder / "profile.d")
    set_scratch = f"export SCRATCH=/scratch/{PROJECT}/$(id -un) PATH=$PATH:/scratch/app/bin\n"
    (folder / "profile.d/zz-scratch.sh").write_text(set_scratch)
    nodeset = folder / "bin/nodeset"
    nodeset.parent.mkdir()
    run = 'exec /scratch/app/python/3.9.1/bin/python3.9 -m ClusterShell.CLI.Nodeset "$@"'
    nodeset.write_text(f"#!/bin/sh\n{run}\n")
    nodeset.chmod(0o755)
    wheels = folder / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "tensorflow", "2.6.0", {"tensorflow.pth": f"{_TENSORFLOW}\n"})
    make_wheel(wheels, "tensorflow_datasets", "4.4.0")
    make_wheel(wheels, "tensorflow_addons", "0.14.0")
    return folder


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.long
@pytest.mark.real
def test_guide_runs_with_modules_and_scratch_and_without_the_home(
    dressed: Callable[[Dress], Dressed], tensorflow_python: Path, site_folder: Path, tmp_path: Path
) -> None:
    site = dressed(sdumont(make_software(site_folder), tensorflow_python))
    # Three questions: the user name, the project's code, and whether to keep the shown profile.
    add(site, site.account.name, PROJECT, "")
    scratch = f"/scratch/{PROJECT}/{site.account.name}"
    old = site.file(f"{scratch}/last_term/losses.json")
    old.parent.mkdir(parents=True)
    old.write_text("[]")
    os.utime(old, (time.time(), time.time() - 50 * 24 * 3600))
    reading = read("sdumont", site, tmp_path)

    assert "Connected to sdumont" in reading.text("!jupyter slurm login")
    assert f"seen from a node: ['{scratch}']" in reading.text("--name where")
    assert "1 file" in reading.text("%slurm pull")
    assert "in 100 steps" in reading.text('print(f"loss {losses[0]')
    erased = reading.text("%slurm doctor")
    assert "Files that the site erases soon: 1 (2B)" in erased
    assert f"{scratch}/last_term/" in erased
    assert "nvidia_small" in reading.text("%slurm info")
    assert "12 UA" in reading.text("--dry-run")
    _check_queues(reading)
    assert "Cluster/Account/User Utilization" in reading.text("%sreport")
    jobs = reading.text("%sacct")
    assert "nvidia_dev" in jobs
    assert "gdl" in jobs
    assert PROJECT in jobs
    assert "failed" not in jobs
    assert "0 GPUs" in reading.text("set_memory_growth")
    spent = reading.text("%slurm usage")
    assert PROJECT in spent
    assert "UA" in spent
    mirrored = reading.text("MirroredStrategy")
    assert "64 samples a step, 32 for each of 2 replicas" in mirrored
    assert "the weights are on CPU:0 CPU:1" in mirrored
    assert "by 2 replicas" in reading.text("history['loss'][-1]")
    assert "by 4 ranks on sdumont3001 and sdumont3002" in reading.text('print(f"loss {loss:.3f} by')
    assert site.file(f"{scratch}/experiments/experiment.py").exists()
    assert not (site.account.home / "experiments").exists()
    wait_until(lambda: site.queue() == [], LIMIT_S)


def _check_queues(reading: Reading) -> None:
    """Check the jobs in the NVIDIA queues and in `gdl`."""
    assert "nvidia_de interact" in reading.text("%squeue -j")
    assert "sdumont300" in reading.text("-- hostname")
    modules = reading.text("LOADEDMODULES")
    assert "gcc/7.4:python/3.9.1:cudnn/8.2_cuda-11.1" in modules
    assert "accuracy" in reading.text("--session {session")
    assert "WARNING" not in reading.text("-m pip install")
    imported = reading.text('print("TensorFlow"')
    assert "TensorFlow 2." in imported
    assert "sees 0 of the GPUs 0,1" in imported
    assert "Permission denied" not in imported
    in_a_cell = reading.text("--name train")
    as_written = reading.text("submit runners/cityscapes.sh")
    assert "sdumont300" in as_written
    for words in ("'dataset': 'cityscapes', 'extra': 'true'", "loss", "accuracy"):
        assert words in in_a_cell
        assert words in as_written
    assert "sees 0 of the GPUs 0,1,2,3,4,5,6,7" in reading.text("python script.py")
    by_batch = reading.text("print(job.output)")
    assert "sdumont4000\nsdumont4000\n" in by_batch
    assert "accuracy" in by_batch
