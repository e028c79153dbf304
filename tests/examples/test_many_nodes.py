"""The four engines, on three nodes that are this machine."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.plugin import SlurmCluster
from tests.examples.reading import LIMIT_S, run
from tests.ssh.profile import write_profile


@pytest.mark.timeout(2 * LIMIT_S)
def test_each_engine_uses_all_nodes(
    private_cluster: Callable[..., SlurmCluster], engines_python: Path, tmp_path: Path
) -> None:
    cluster = private_cluster(nodes=3, cpus=4)
    told = tomllib.loads(cluster.profile_path.read_text(encoding="utf-8"))
    write_profile(
        cluster.profile_path.parents[2], cluster.name, {**told, "python": str(engines_python)}
    )
    reading = run("many-nodes", cluster.env, tmp_path)
    assert "498501.0 from [165834, 166167, 166500]" in reading.text('"of PyTorch"')
    assert "498501 from [165834, 166167, 166500]" in reading.text('"of MPI"')
    assert "999 squares, from 3 nodes" in reading.text('"squares, from"')
    assert "3 workers" in reading.text('"workers"')
    assert "331835499" in reading.text("map(square")
