"""The guide of Arandu: Docker, local folders of nodes, training in the background."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.dressed import Dress, Dressed
from tests.cluster.dressed_docker import DressedDocker
from tests.cluster.dressed_slurm import Shape
from tests.cluster.image import lean_copy
from tests.examples.reading import LIMIT_S, add, read
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


IMAGE = "nvcr.io/nvidia/pytorch:22.11-py3"
_PYTHON = "usr/local/lib/python{}.{}/dist-packages".format(*sys.version_info)
_PACKAGES = "/mnt/packages"


def with_docker(keeper: Keeper, site: Dressed, image: Path) -> DressedDocker:
    """Run a Docker with the guide's image, with this machine's PyTorch and the tests' JupyterLab.
    `image` is a folder of this machine's distribution with its Python. It is modified."""
    packages = image / _PYTHON
    packages.mkdir(parents=True)
    (packages / "tests.pth").write_text(f"{_PACKAGES}\n")
    for name, module in {"jupyter": "jupyter", "jupyter-lab": "jupyterlab"}.items():
        program = image / "usr/bin" / name
        program.write_text(f'#!/bin/sh\nexec python3 -m {module} "$@"\n')
        program.chmod(0o755)
    (image / "workspace").mkdir()
    (image / "workspace/README.md").write_text("As in the images of NVIDIA.\n")
    seen = {
        "/usr/lib": Path("/usr/lib"),
        "/etc/alternatives": Path("/etc/alternatives"),
        # The distribution's NumPy, since the tests' own is too new for PyTorch.
        f"/{_PYTHON}/numpy": Path("/usr/lib/python3/dist-packages/numpy"),
        _PACKAGES: Path(sysconfig.get_path("purelib")),
        "/usr/local/share/jupyter": Path(sysconfig.get_path("data"), "share/jupyter"),
    }
    return DressedDocker.make(keeper, site, image, [IMAGE], seen)


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.long
def test_guide_runs_and_leaves_nothing_on_the_nodes(
    dressed: Callable[[Dress], Dressed], site_keeper: Keeper, demo_image: Path, tmp_path: Path
) -> None:
    arandu = dressed(ARANDU)
    docker = with_docker(site_keeper, arandu, lean_copy(demo_image, tmp_path / "image"))
    # Two questions: the user name, and whether to keep the shown profile.
    add(arandu, arandu.account.name, "")

    reading = read("arandu", arandu, tmp_path)

    user = arandu.account.name
    assert "Connected to arandu" in reading.text("%slurm login")
    assert "to Jupyter's kernels as `arandu`." in reading.text("!jupyter slurm kernel add")
    assert "PyTorch 1." in reading.text("NotebookClient(there")
    assert f"/output/{user} can be written to: True" in reading.text("--name folders")
    assert "latest.txt" in reading.text("--name keep")

    assert "dgx01" in reading.text("!jupyter slurm shell -- hostname")
    assert "c4aiscw2\r\n0" in reading.text("!jupyter slurm shell --gres")
    assert "node dgx01 with 8 CPUs" in reading.text("--name look")
    ran = reading.text("print(job.output)")
    assert "Running on\n" in ran
    assert "the sum is 45\nDone" in ran
    assert "results/sum.txt: 45" in reading.text("%slurm pull")
    assert "a100" in reading.text("%slurm info")

    assert "README.md" in reading.text("-- ls /workspace")
    inside = reading.text("--name inside")
    assert "in a container: True" in inside
    assert f"user {arandu.account.uid} with GPUs 0,1" in inside
    assert "Successfully built" in reading.text("!jupyter slurm image build")
    assert "Successfully built" in reading.text("%%slurm_image")
    assert "Hello world" in reading.text("--name greet")
    assert "Hello world" in reading.text("%slurm run greeter")
    assert "in /workspace/data: computed on c4aiscw2" in reading.text("--chdir /workspace/data")
    assert f"removed directory '/output/{user}/kept'" in reading.text("--name clean")

    assert "to log in." in reading.text("%slurm lab start")
    assert "cancellation requested" in reading.text("%slurm lab stop")
    assert '"kernels": 0' in reading.text("urlopen(f")

    trained = reading.text("%slurm attach")
    assert "Running on c4aiscw2" in trained
    losses = [float(line.split()[-1]) for line in trained.splitlines() if "loss" in line]
    assert losses[-1] < losses[0]
    assert (reading.folder / "models/trained_model.pt").exists()
    assert "sin(1.57) is about 0.99" in reading.text("--name use")

    wait_until(lambda: arandu.queue() == [], LIMIT_S)
    assert docker.containers() == []
    assert list(arandu.file("/output/{user}").iterdir()) == []
