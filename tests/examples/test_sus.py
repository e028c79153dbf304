"""The guide of SUS' AI cloud: enroot and pyxis (of which there are stand-ins), a setup script."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.dressed import Dress, Dressed
from tests.cluster.dressed_slurm import Shape
from tests.cluster.image import plain_copy
from tests.cluster.pyxis import standing_in
from tests.examples.reading import LIMIT_S, read
from tests.ssh.waiting import wait_until

_TENSORFLOW = "nvcr.io#nvidia/tensorflow:22.02-tf2-py3"


def sus(profile: Path) -> Dress:
    return Dress(
        template="sus-aicloud",
        login="yamada.jo.sus.ac.jp",
        port=22217,
        shape=Shape(
            cluster="aicloud",
            nodes=dict.fromkeys(("gpu1", "gpu2"), "CPUs=32 RealMemory=128000 Gres=gpu:rtx:4"),
            lines=(
                "DefMemPerCPU=2000",
                "PartitionName=all Nodes=ALL Default=YES DefaultTime=60 MaxTime=7-0",
            ),
        ),
        home="/data/home/{user}",
        mounts={"/etc/profile.d": profile},
    )


def make_image(demo_image: Path, path: Path) -> Path:
    """With stand-ins for what would fetch packages, which is not to be had: they say so."""
    files = []
    for name in ("apt-get", "pip"):
        program = path.with_name(name)
        program.write_text(f'#!/bin/sh\necho "stand-in for {name} $*"; id -u\n')
        files += ["-p", f"usr/bin/{name} f 755 0 0 cat {program}"]
    folder = plain_copy(demo_image, path.with_suffix(""))
    words = ["mksquashfs", str(folder), str(path), "-quiet", "-no-progress"]
    packed = [*words, "-noI", "-noD", "-noF", *files]
    subprocess.run(packed, stdout=subprocess.DEVNULL, check=True, timeout=LIMIT_S)
    shutil.rmtree(folder)
    return path


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.long
def test_the_setup_script_makes_an_image_that_jobs_run_in(
    dressed: Callable[[Dress], Dressed], demo_image: Path, site_folder: Path, tmp_path: Path
) -> None:
    site_folder.chmod(0o755)
    shutil.copytree("/etc/profile.d", site_folder / "profile.d")
    with standing_in(site_folder / "enroot", "/usr/bin/python3") as enroot:
        enroot.publish(_TENSORFLOW, make_image(demo_image, site_folder / "tensorflow.sqsh"))
        (site_folder / "profile.d/zz-pyxis.sh").write_text(f"{enroot.setup}\n")
        site = dressed(sus(site_folder / "profile.d"))
        reading = read("sus-aicloud", site, tmp_path)

        assert "gpu1" in reading.text("%sinfo")
        assert "rtx" in reading.text("%slurm info")
        look = reading.text("--name look")
        assert "on gpu" in look
        assert "with GPU 0" in look
        assert f"home /data/home/{site.account.name}" in look
        made = reading.text("%%slurm_image")
        assert "stand-in for apt-get install -y time\n0\n" in made
        assert "stand-in for pip install optuna" in made
        assert "myrepo" in reading.text("%slurm image")
        assert "best of 13: rate" in reading.text("--name search")
        assert (reading.folder / "trials.json").exists()
        assert reading.pictures("--name plot") == 1
        wait_until(lambda: site.queue() == [], LIMIT_S)
        wait_until(lambda: enroot.containers() == [], LIMIT_S)
