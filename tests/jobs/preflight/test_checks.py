"""Warnings about a partition's maxima."""

from __future__ import annotations

import pytest

from jupyter_slurm.jobs.preflight.checks import check_maxima
from tests.jobs.judged import job, partition


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("--time 2h", "time"),
        ("--time UNLIMITED", "time"),
        ("-N 3", "nodes"),
        ("-c 9", "cpus-per-task"),
        ("--mem 17G", "mem"),
        ("--gres gpu:5", "gpus"),
        ("--time 1h -N 2 -c 8 --mem 16G --gres gpu:4", None),
        ("--mem 0", None),
        ("--gpus 8", None),
    ],
)
def test_exceeded_maximum_yields_a_warning_at_its_option(words: str, option: str | None) -> None:
    found = list(check_maxima(job(words), partition("small", max_nodes=2)))
    assert [(one.ok, one.option) for one in found] == ([(None, option)] if option else [])


def test_partition_without_maxima_never_warns() -> None:
    endless = partition("x", limit_s=None, cpus=None, memory_mib=None, nodes=0, gpus_per_node=0)
    assert list(check_maxima(job("--time 99d -N 9 -c 999 --mem 9T --gpus 9"), endless)) == []


def test_partition_without_gpus_warns_about_gpus() -> None:
    [found] = check_maxima(job("--gpus 1"), partition("cpu", gpus=0, gpus_per_node=0))
    assert found.option == "gpus"
