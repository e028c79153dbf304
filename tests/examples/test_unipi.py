"""The guide of Pisa's Intel cluster: a Charliecloud image, a job array in it, and Ray."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.dressed import Dress, Dressed
from tests.cluster.dressed_slurm import Shape
from tests.cluster.image import ch_image_with, lean_copy
from tests.examples.conda import miniconda, on_this_machine
from tests.examples.reading import LIMIT_S, add, read
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


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.long
def test_image_is_built_and_the_search_returns_every_model(
    dressed: Callable[[Dress], Dressed],
    demo_image: Path,
    engines_python: Path,
    site_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site_folder.chmod(0o755)
    programs, image = site_folder / "programs", site_folder / "miniconda"
    programs.mkdir(mode=0o755)
    ch_image_with(programs, "continuumio/miniconda3", image)
    unipi = dressed(replace(UNIPI, mounts={"/usr/local/bin": programs}))
    # Two questions: the user name, and whether to keep the shown profile.
    add(unipi, unipi.account.name, "")
    home = unipi.account.home
    miniconda(lean_copy(demo_image, image), home, engines_python)
    for folder in ("/home", str(image)):
        unipi.inside.run("chown", "--recursive", "--no-dereference", unipi.account.name, folder)
    on_this_machine(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    reading = read("unipi-hpc2019", unipi, tmp_path)

    assert "stand-in for conda: numpy installed" in reading.text("%%slurm_image antonio-base")
    assert "Successfully installed fbpca" in reading.text("%%slurm_image antonio-base")
    assert "ray-core installed" in reading.text("%%slurm_image antonio-ray")
    assert "cpu" in reading.text("%slurm info")
    assert "antonio-base" in reading.text("%slurm image")
    assert "width 8 loss" in reading.text("--name try")
    assert "and 2 components by fbpca" in reading.text("--name packages")
    assert "USER STATE NODES CPUS" in reading.text("%squeue --format")
    assert "/0/48" in reading.text("%sinfo")
    tasks = reading.text("{selection.slurm_id}").splitlines()[-8:]
    assert [task.split()[2] for task in tasks] == ["1"] * 8
    assert "width 8 loss" in reading.text("%slurm logs")
    assert "8 models, computed on c0" in reading.text("best = models")
    assert reading.pictures("best = models") == 1
    assert "[0, 1, 4, 9, 16, 25] from 3 nodes" in reading.text("slurm submit")
    assert "15 CPUs on 3 nodes" in reading.text("ray.cluster_resources")
    assert "ObjectRef of a function that ran on c0" in reading.text("f.remote()")
    assert "with num_cpus=2: [2, 5] threads" in reading.text("threads.remote")
    assert "width 8 loss" in reading.text("--name bare")
    assert "RUNNING 15 c[01-03]" in reading.text("--jobs {session_job}")
    assert "load average" in reading.text("slurm shell")
    assert "threads, then 5" in reading.text("before = torch")
    assert "cancellation requested" in reading.text("session stop")
    wait_until(lambda: unipi.queue() == [], LIMIT_S)
