"""The guide of Arandu: Docker, a folder of each node's own, a training in background."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.dressed import Dress, Dressed
from tests.cluster.dressed_docker import DressedDocker
from tests.cluster.dressed_slurm import Shape
from tests.cluster.image import plain_copy
from tests.examples.reading import LIMIT_S, read
from tests.ssh.kept import Keeper
from tests.ssh.waiting import wait_until

ARANDU = Dress(
    template="arandu",
    login="c4aiscm1",
    shape=Shape(
        cluster="arandu",
        nodes={
            "dgx01": "CPUs=256 RealMemory=1024000 Gres=gpu:a100:8",
            "c4aiscw2": "CPUs=16 RealMemory=64000 Gres=gpu:rtx:1",
        },
        lines=(
            "DefMemPerCPU=1024",
            "PartitionName=devwork Nodes=c4aiscw2 Default=YES DefaultTime=60 MaxTime=7-0",
            "PartitionName=arandu Nodes=dgx01 DefaultTime=60 MaxTime=7-0",
        ),
    ),
    home="/home/{user}",
    node_only=("/output/{user}",),
)


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.long
def test_the_guides_steps_are_done_and_nothing_is_left_on_the_nodes(
    dressed: Callable[[Dress], Dressed], site_keeper: Keeper, demo_image: Path, tmp_path: Path
) -> None:
    arandu = dressed(ARANDU)
    image = "nvcr.io/nvidia/pytorch:22.11-py3"
    files = plain_copy(demo_image, tmp_path / "image")
    docker = DressedDocker.make(site_keeper, arandu, files, [image])
    reading = read("arandu", arandu, tmp_path)

    assert "a100" in reading.text("%slurm info")
    assert "node dgx01, GPU " in reading.text("--name look")
    assert f"/output/{arandu.account.name}" in reading.text("--name look")
    inside = reading.text("--name inside")
    assert "in a container: True" in inside
    assert f"user {arandu.account.uid} with GPU" in inside
    assert "1000 values are still here" in reading.text('print(f"{waves.size}')
    assert "Running on\n" in reading.text("print(job.output)")
    assert "Done" in reading.text("print(job.output)")

    trained = reading.text("--name train")
    assert "Running on c4aiscw2 in /mnt/work" in trained
    losses = [float(line.split()[1]) for line in trained.splitlines() if line.startswith("1")]
    assert losses[-1] < losses[0]
    assert "Result: y = " in trained
    assert (reading.folder / "models/trained_model.npy").exists()
    assert "array([" in reading.text("model.round(3)")
    assert reading.pictures("--name plot") == 1
    assert "train" in reading.text("%slurm jobs")

    wait_until(lambda: arandu.queue() == [], LIMIT_S)
    assert docker.containers() == []
    assert list(arandu.file("/output/{user}").iterdir()) == []
