"""Requested resources, as numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from jupyter_slurm.jobs.submission.options import Resources, resources_of
from jupyter_slurm.slurm.options import parse_options


def of(words: str) -> Resources:
    return resources_of(parse_options(words.split()))


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("", {"nodes": 1, "cpus": 1, "gpus": 0, "limit_s": None}),
        ("-p a,b -q long -A physics", {"partitions": ("a", "b")}),
        ("--time 2h", {"limit_s": 7200}),
        ("--time UNLIMITED", {"limit_s": math.inf}),
        ("-N 2", {"nodes": 2, "cpus": 2}),
        ("-N 2-4 -n 8 -c 3", {"nodes": 2, "cpus": 24, "cpus_per_node": 12}),
        ("-n 8 --ntasks-per-node 3", {"nodes": 3, "cpus": 8, "cpus_per_node": 3}),
        ("-c 6", {"cpus": 6, "cpus_per_node": 6}),
        ("--mem 64G", {"memory_per_node_mib": 65536}),
        ("--mem 0", {"memory_per_node_mib": 0}),
        ("--mem-per-cpu 2G -c 4", {"memory_per_node_mib": 8192}),
        ("--mem-per-gpu 10G --gpus-per-node 2", {"memory_per_node_mib": 20480}),
        ("--gres gpu:a100:2 -N 3", {"gpus_per_node": 2, "gpus": 6}),
        ("--gres gpu", {"gpus_per_node": 1, "gpus": 1}),
        ("--gres shard:4", {"gpus": 0}),
        ("--gpus 8", {"gpus_per_node": 0, "gpus": 8}),
        ("--gpus 8 -N 4", {"gpus_per_node": 2, "gpus": 8}),
        ("--gpus 3 -N 2", {"gpus_per_node": 2, "gpus": 3}),
        ("--gpus-per-task 1 -n 3", {"gpus": 3}),
        ("--gpus-per-node 2 -n 8 --ntasks-per-node 3", {"nodes": 3, "gpus": 6}),
        ("--gpus a100:2,v100:1", {"gpus": 3}),
        ("--gpus 2080ti:1,3090:2", {"gpus": 3}),
        (
            "--tres-per-task cpu=2,gres/gpu:2080ti=1 -n 2 -N 1",
            {"gpus": 2},
        ),
        ("--gpus-per-task 2 -N 1 -n 3", {"gpus_per_node": 6, "gpus": 6}),
        ("--gpus-per-node 2 --cpus-per-gpu 8", {"cpus_per_node": 16, "cpus": 16}),
        ("--exclusive", {"exclusive": True}),
        ("--exclusive=user", {"exclusive": False}),
        ("--array 1-8%2", {"tasks_of_array": 8}),
    ],
)
def test_options_are_converted_to_numbers(words: str, numbers: dict[str, Any]) -> None:
    found = of(words)
    assert {name: getattr(found, name) for name in numbers} == numbers
