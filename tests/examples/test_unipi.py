"""The guide of Pisa's Intel cluster: an image by Charliecloud, a job array in it, and Ray."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.dressed import Dress, Dressed
from tests.cluster.dressed_slurm import Shape
from tests.cluster.image import plain_copy
from tests.examples.reading import LIMIT_S, read
from tests.ssh.waiting import wait_until

UNIPI = Dress(
    template="unipi-hpc2019",
    login="hpc2019.unipi.it",
    shape=Shape(
        cluster="hpc2019",
        nodes={f"c0{number}": "CPUs=16 RealMemory=32000" for number in (1, 2, 3)},
        lines=(
            "DefMemPerCPU=1000",
            "PartitionName=cpu Nodes=ALL Default=YES DefaultTime=60 MaxTime=7-0",
        ),
    ),
    home="/home/{user}",
)

_CONDA = """#!/bin/sh
# A stand-in for conda, whose channels cannot be reached: what it is to install is in the image.
echo "stand-in for conda $*"
"""
_NOT_FOR_RAY = ("bokeh", "dask", "debugpy", "distributed", "jedi", "numpy*", "pip", "tensorboard*")


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.long
def test_an_image_is_made_and_every_model_of_the_search_comes_back(
    dressed: Callable[[Dress], Dressed], demo_image: Path, engines_python: Path, tmp_path: Path
) -> None:
    unipi = dressed(UNIPI)
    image = unipi.account.home / "continuumio%miniconda3"
    plain_copy(demo_image, image)
    programs = image / "opt/conda/bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to("/usr/bin/python3")
    (image / "usr/bin/conda").write_text(_CONDA)
    (image / "usr/bin/conda").chmod(0o755)
    [packages] = engines_python.parents[1].glob("lib/python3*/site-packages")
    there = image / "usr/local/lib" / packages.parent.name / "dist-packages"
    without = shutil.ignore_patterns(*_NOT_FOR_RAY)
    shutil.copytree(packages, there, ignore=without, dirs_exist_ok=True)
    unipi.inside.run("chown", "--recursive", "--no-dereference", unipi.account.name, "/home")
    reading = read("unipi-hpc2019", unipi, tmp_path)

    assert "cpu" in reading.text("%slurm info")
    assert "stand-in for conda install" in reading.text("%%slurm_image")
    assert "antonio-base" in reading.text("images = %slurm image")
    assert "degree 5 loss" in reading.text("--name try")
    assert "COMPLETED" in reading.text("job.wait()")
    assert "8 models on" in reading.text("best = min")
    assert reading.pictures("--name plot") == 1
    assert "[0, 1, 4, 9, 16, 25] from 3 nodes" in reading.text("print([number for")
    assert len(list((reading.folder / "results").glob("*.json"))) == 8
    wait_until(lambda: unipi.queue() == [], LIMIT_S)
