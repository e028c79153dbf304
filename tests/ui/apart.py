"""Separate home, profiles, agent and JupyterLab, for modules that change profiles or settings or
stop shared parts: `cluster, lab, lab_home = apart.cluster, apart.lab, apart.lab_home`. The Slurm is
shared."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.plugin import SlurmCluster
from tests.ui.conftest import home_of_a_lab
from tests.ui.lab import Lab, running_lab


@pytest.fixture(scope="module")
def cluster(cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> SlurmCluster:
    """Return the shared cluster with the module's own profiles."""
    config = tmp_path_factory.mktemp("apart") / "config"
    theirs = Path(cluster.env["JUPYTER_CONFIG_DIR"])
    shutil.copytree(theirs, config)
    return dataclasses.replace(
        cluster,
        profile_path=config / cluster.profile_path.relative_to(theirs),
        env=cluster.env | {"JUPYTER_CONFIG_DIR": str(config)},
    )


@pytest.fixture(scope="module")
def lab_home(cluster: SlurmCluster) -> Iterator[tuple[Path, dict[str, str]]]:
    with home_of_a_lab(cluster) as made:
        yield made


@pytest.fixture(scope="module")
def lab(lab_home: tuple[Path, dict[str, str]], port_apart: int) -> Iterator[Lab]:
    home, env = lab_home
    with running_lab(env, home, port_apart) as running:
        yield running
