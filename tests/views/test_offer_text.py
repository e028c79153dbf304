"""The table and lines of `info`."""

from __future__ import annotations

import time
from typing import Any

from jupyter_slurm.views import offer_text
from jupyter_slurm.wire import ClusterInfo, Reservation
from tests.jobs.judged import NOW_S, cluster_info, partition

GPU = partition(
    "gpu",
    default=True,
    gpus_by_type={"a100": (8, 3), "v100": (4, None)},
    exclusive=True,
    allow_qos=("long",),
    cost=80.0,
    about="DGX",
)
CPU = partition("cpu", up=False, gpus=0, gpus_per_node=0, limit_s=None, memory_mib=None)


def offered(**changes: Any) -> ClusterInfo:
    settings: dict[str, Any] = {
        "cost_unit": "UA",
        "accounts": ("chem", "physics"),
        "qos": ("long", "normal"),
        "reservations": (
            Reservation(name="upgrade", start_s=NOW_S + 60, end_s=NOW_S + 90, maintenance=True,
                        partitions={"gpu": 2}),
            Reservation(name="gone", start_s=1, end_s=2, maintenance=True, partitions={}),
        ),
    }  # fmt: skip
    return cluster_info(GPU, CPU, **{**settings, **changes})


def test_row_shows_limits_free_resources_and_cost() -> None:
    gpu, cpu = offer_text.rows(offered())
    assert dict(zip(offer_text.HEAD, gpu, strict=True)) == {
        "Partition": "gpu (default)",
        "Time limit": "1 h",
        "Nodes idle": "1 of 2",
        "GPUs free": "a100 3 of 8, v100 4",
        "A node has": "8 CPUs, 16.0 GiB, 4 GPUs",
        "Cost per hour": "80 UA a node",
        "Note": "DGX; whole nodes; QOS long only",
    }
    assert cpu == ("cpu, down", "none", "1 of 2", "", "8 CPUs", "", "")


def test_accounts_qos_and_reservations_follow_the_table() -> None:
    first, *said = offer_text.lines(offered(), NOW_S)
    at = time.strftime("%H:%M:%S", time.localtime(NOW_S))
    assert first == f"sd at {at}: Slurm 22.05.8, with accounting."
    assert said[:2] == ["Your accounts: chem, physics.", "Your QOS: long, normal."]
    (maintenance,) = said[2:]
    assert maintenance.startswith("Maintenance (`upgrade`), ")
    assert maintenance.endswith(": 2 of gpu nodes.")
