"""The guide of Santos Dumont: environment modules, a home that nodes do not see, reports."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.dressed import Dress, Dressed
from tests.cluster.dressed_slurm import Shape
from tests.examples.reading import LIMIT_S, read
from tests.ssh.waiting import wait_until

PROJECT = "deepfun"
_K40 = "CPUs=24 RealMemory=65536 Gres=gpu:k40:2"
_QUEUES = {"nvidia_dev": "00:20:00", "nvidia_small": "01:00:00", "nvidia_long": "31-00:00:00"}

_TENSORFLOW = '''"""A stand-in for TensorFlow, whose release for this Python cannot be had."""
import os
from collections import namedtuple

__version__ = "2.6.0"
Device = namedtuple("Device", "name device_type")


class config:
    class experimental:
        @staticmethod
        def set_memory_growth(device, enable):
            assert device.device_type == "GPU"

    @staticmethod
    def list_physical_devices(kind):
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        numbers = [one for one in visible.split(",") if one]
        return [Device("/physical_device:GPU:" + one, kind) for one in numbers]
'''


def sdumont(software: Path) -> Dress:
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
            "/usr/share/modules/modulefiles": software / "modulefiles",
            "/etc/profile.d": software / "profile.d",
        },
    )


def make_software(folder: Path) -> Path:
    """What the site has for everybody. Its Python 3.9 is this machine's Python with the tests' own
    packages; its pip finds what is in a folder."""
    folder.chmod(0o755)
    python = folder / "python"
    venv = ("-m", "venv", "--system-site-packages", "--without-pip", str(python))
    subprocess.run([sys.executable, *venv], check=True, timeout=LIMIT_S)
    (python / "bin/python3.9").symlink_to("python")
    (packages,) = python.glob("lib/python3*/site-packages")
    (packages / "site.pth").write_text("/scratch/app/python/3.9.1-packages\n")
    modules = folder / "modulefiles"
    for name, lines in {
        "gcc/7.4": "setenv CC gcc",
        "cudnn/8.2_cuda-11.1": "setenv CUDA_HOME /scratch/app/cuda/11.1",
        "python/3.9.1": "prepend-path PATH /scratch/app/python/3.9.1/bin\n"
        "setenv PIP_NO_INDEX 1\nsetenv PIP_FIND_LINKS /scratch/app/wheels",
    }.items():
        (modules / name).parent.mkdir(parents=True)
        (modules / name).write_text(f"#%Module\n{lines}\n")
    shutil.copytree("/etc/profile.d", folder / "profile.d")
    set_scratch = f"export SCRATCH=/scratch/{PROJECT}/$(id -un)\n"
    (folder / "profile.d/zz-scratch.sh").write_text(set_scratch)
    (folder / "wheels").mkdir()
    about = "tensorflow-2.6.0.dist-info"
    with zipfile.ZipFile(folder / "wheels/tensorflow-2.6.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tensorflow/__init__.py", _TENSORFLOW)
        wheel.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.6.0\n"
        )
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    return folder


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.long
@pytest.mark.real
def test_modules_scratch_and_reports_are_the_guides_and_the_home_stays_unseen(
    dressed: Callable[[Dress], Dressed], site_folder: Path, tmp_path: Path
) -> None:
    site = dressed(sdumont(make_software(site_folder)))
    scratch = f"/scratch/{PROJECT}/{site.account.name}"
    reading = read("sdumont", site, tmp_path)

    assert "nvidia_small" in reading.text("%slurm info")
    assert "12 UA" in reading.text("--dry-run")
    installed = reading.text("--name install")
    assert "python/3.9.1" in installed
    assert "Successfully installed tensorflow-2.6.0" in installed
    assert "TensorFlow 2.6.0 with 2 GPUs" in reading.text('print("TensorFlow"')
    assert "GPU:1" in reading.text("set_memory_growth")
    assert "'dataset': 'cityscapes'" in reading.text("--name train")
    assert "in 100 steps" in reading.text('print(f"loss {losses')
    assert "sdumont300" in reading.text("print(job.output)")
    assert "training with" in reading.text("print(job.output)")
    assert "by 4 ranks on sdumont3001 and sdumont3002" in reading.text('print(f"loss {loss:.3f} by')
    assert "Cluster/Account/User Utilization" in reading.text("%sreport")
    jobs = reading.text("%sacct")
    assert "nvidia_dev" in jobs
    assert PROJECT in jobs

    assert site.file(f"{scratch}/experiments/logs/losses.json").exists()
    assert not (site.account.home / "experiments").exists()
    wait_until(lambda: site.queue() == [], LIMIT_S)
