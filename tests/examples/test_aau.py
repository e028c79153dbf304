"""The slides of AAU's AI Cloud: a gateway that asks for codes, accounting, Singularity."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.apptainer import ApptainerEngine
from tests.cluster.dressed import Dress, Dressed
from tests.cluster.dressed_slurm import Shape
from tests.examples.reading import LIMIT_S, read
from tests.ssh.waiting import wait_until

_DGX2 = "CPUs=96 RealMemory=1474560 Gres=gpu:v100:16"
_QOS = ("normal", "short", "1gpulong", "allgpus")

# Stands in for NVIDIA's, which needs a GPU: one that is idle, looked at again and again.
_SMI = """#!/bin/sh
[ "$1 $2 $5 $6" = "-i 0 -l 1" ] || exit 6
while printf '2026/01/01 00:00:00.000, %s, 7, 3\\n' "$2"; do sleep 0.1; done
"""


def aau(engine: ApptainerEngine, folder: Path) -> Dress:
    folder.chmod(0o755)
    for name in ("profile.d", "home", "nvidia"):
        (folder / name).mkdir()
    shutil.copytree("/etc/profile.d", folder / "profile.d", dirs_exist_ok=True)
    # As it is installed where users may not have it set-uid.
    on_path = f"export PATH={engine.bin}:$PATH APPTAINER_USERNS=1\n"
    on_path += "export PATH=/user/share/bin:$PATH\n"
    (folder / "profile.d/zz-singularity.sh").write_text(on_path)
    (folder / "nvidia/nvidia-smi").write_text(_SMI)
    (folder / "nvidia/nvidia-smi").chmod(0o755)
    # It knows its own place, which lies in a home that nobody else may enter.
    installed = engine.bin.parent
    closed = [one for one in installed.parents if not one.stat().st_mode & 0o001]
    opened = {str(closed[-1]): folder / "home"} if closed else {}
    images = "/user/share/singularity/images"
    return Dress(
        template="aau-aicloud",
        login="ai-pilot.srv.aau.dk",
        gateway="sshgw.aau.dk",
        shape=Shape(
            cluster="aicloud",
            nodes={"nv-ai-01": _DGX2, "nv-ai-03": _DGX2},
            lines=(
                "DefMemPerNode=10000",
                "PriorityType=priority/multifactor",
                "PriorityWeightAge=1000",
                "PriorityWeightQOS=1000",
                "PartitionName=batch Nodes=ALL Default=YES DefaultTime=60 MaxTime=7-0",
            ),
            accounting=(
                *(("add", "qos", name) for name in _QOS[1:]),
                ("add", "account", "es"),
                ("add", "user", "{user}", "account=es", f"qos={','.join(_QOS)}"),
            ),
        ),
        home="/user/student.aau.dk/{user}",
        node_only=("/raid/{user}",),
        mounts={
            "/etc/profile.d": folder / "profile.d",
            "/user/share/bin": folder / "nvidia",
            **opened,
            str(installed): installed,
            f"{images}/tensorflow_20.10-tf2-py3.sif": engine.folder,
        },
    )


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.long
def test_one_login_by_the_gateway_then_containers_sessions_and_accounting(
    dressed: Callable[[Dress], Dressed],
    apptainer_engine: ApptainerEngine,
    site_folder: Path,
    tmp_path: Path,
) -> None:
    site = dressed(aau(apptainer_engine, site_folder))
    reading = read("aau-aicloud", site, tmp_path)

    assert "nv-ai-[01,03]" in reading.text("%sinfo")
    assert "v100" in reading.text("%slurm info")
    assert "hello world from sbatch on node nv-ai-0" in reading.text("print(job.output)")
    assert "QOS" in reading.text("%sprio")
    assert "SubmitError" in reading.text("--gres gpu:17")
    example = reading.text("--name example")
    assert "GPUs 0" in example
    assert "epoch 9: " in example
    assert (reading.folder / "output_data/weights.npy").exists()
    assert "tensorflow_20.10-tf2-py3.sif" in reading.text("SINGULARITY_CONTAINER")
    assert reading.pictures("plt.imshow") == 1
    assert " times: 7 % busy on average" in reading.text("import csv")
    assert "MySlurmJob" in reading.text("%sacct -X")
    assert "Cluster Utilization" in reading.text("%sreport")
    assert "1gpulong" in reading.text("%sacctmgr show qos")
    assert site.account.name in reading.text("%sacctmgr show assoc")
    wait_until(lambda: site.queue() == [], LIMIT_S)
