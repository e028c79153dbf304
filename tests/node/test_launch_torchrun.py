"""The command line of torchrun on a node, without PyTorch."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
WORLD = {
    "nodes": [{"address": "10.0.0.1"}, {"address": "10.0.0.2"}],
    "processes": [2, 2],
    "port": 29_000,
}


def words(
    monkeypatch: pytest.MonkeyPatch, max_restarts: int, index: int, **known: Any
) -> list[str]:
    """Return torchrun's arguments. `known` lists the options of this release."""
    monkeypatch.syspath_prepend(str(NODE))
    import launch_torchrun

    run = SimpleNamespace(parse_args=lambda _: SimpleNamespace(**known))
    plan = {"max_restarts": max_restarts}
    return list(launch_torchrun.words_of(run, WORLD, plan, "/logs", index))


def test_torchrun_uses_a_static_rendezvous(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = words(monkeypatch, 0, 1)
    assert {"--nnodes=2", "--nproc_per_node=2", "--node_rank=1"} < {*found}
    assert {"--rdzv_backend=static", "--rdzv_endpoint=10.0.0.1:29000"} < {*found}


@pytest.mark.parametrize(("index", "is_host"), [(0, "true"), (1, "false")])
def test_torchrun_with_restarts_uses_c10d(
    monkeypatch: pytest.MonkeyPatch, index: int, is_host: str
) -> None:
    found = words(monkeypatch, 3, index, local_addr=None)
    assert {"--max_restarts=3", "--rdzv_backend=c10d"} < {*found}
    assert f"--rdzv_conf=is_host={is_host},timeout=900" in found
    assert f"--local_addr=10.0.0.{index + 1}" in found
    assert not any("local_addr" in one for one in words(monkeypatch, 3, index))
