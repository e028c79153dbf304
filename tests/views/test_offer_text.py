"""What a cluster offers, as people look at it before they choose."""

from __future__ import annotations

import time
from typing import Any

from jupyter_slurm.views import offer_text
from jupyter_slurm.wire import Association, ClusterInfo, InUse, Qos, Reservation
from tests.jobs.judged import NOW_S, cluster_info, partition

GPU = partition(
    "gpu",
    default=True,
    gpus_by_type={"a100": (8, 3), "v100": (4, None)},
    exclusive=True,
    allow_qos=("long",),
    cost=80.0,
    about="DGX",
    billing={"cpu": 1.0, "mem": 0.25 / 1024, "gres/gpu": 2.0},
)
CPU = partition("cpu", up=False, gpus=0, gpus_per_node=0, limit_s=None, memory_mib=None)


def offered(**changes: Any) -> ClusterInfo:
    settings: dict[str, Any] = {
        "cost_unit": "UA",
        "enforced": ("limits",),
        "accounts": ("chem", "physics"),
        "qos": ("long", "normal"),
        "associations": (
            Association(account="physics", default=True, default_qos="normal"),
            Association(account="physics", whole=True, in_all={"gres/gpu": 6, "mem": 2048}),
        ),
        "qos_limits": (Qos(name="long", limit_s=86400, per_user={"gres/gpu": 2}),),
        "in_use": (
            InUse(qos="long", account="physics", partition="gpu", jobs=1, queued=3,
                  tres={"gres/gpu": 2}),
        ),
        "reservations": (
            Reservation(name="upgrade", start_s=NOW_S + 60, end_s=NOW_S + 90, maintenance=True,
                        partitions={"gpu": 2}),
            Reservation(name="gone", start_s=1, end_s=2, maintenance=True, partitions={}),
        ),
    }  # fmt: skip
    return cluster_info(GPU, CPU, **{**settings, **changes})


def test_a_partition_is_told_with_all_that_one_chooses_by() -> None:
    gpu, cpu = offer_text.rows(offered())
    assert dict(zip(offer_text.HEAD, gpu, strict=True)) == {
        "Partition": "gpu (default)",
        "Time limit": "1 h",
        "Nodes idle": "1 of 2",
        "GPUs free": "a100 3 of 8, v100 4",
        "A node has": "8 CPUs, 16.0 GiB, 4 GPUs",
        "Cost": "80 UA a node; billing 1 a CPU, 0.25 a GiB, 2 a GPU",
        "Note": "DGX; whole nodes; QOS long only",
    }
    assert cpu == ("cpu, down", "none", "1 of 2", "", "8 CPUs", "", "")
    (largest, _) = offer_text.rows(offered(max_tres=True))
    assert largest[5].endswith("2 a GPU (the most of these)")


def test_what_is_mine_and_what_is_kept_for_others_stands_below() -> None:
    first, *said = offer_text.lines(offered(), NOW_S)
    at = time.strftime("%H:%M:%S", time.localtime(NOW_S))
    assert first == f"sd at {at}: Slurm 22.05.8, with accounting."
    assert said[:5] == [
        "Your accounts: chem, physics (default).",
        "Your QOS: long, normal (default).",
        "QOS long: a job 1 d; a user 2 GPU.",
        "Account physics: in all 6 GPU, 2.0 GiB of memory.",
        "You have 1 running and 2 waiting in gpu (QOS long), 2 GPUs.",
    ]
    (maintenance,) = said[5:]
    assert maintenance.startswith("Maintenance (`upgrade`), ")
    assert maintenance.endswith(": 2 of gpu nodes.")
