"""A cluster with shared images, with the real Apptainer and Slurm."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_slurm.wire import JobState
from tests.cluster.apptainer import ApptainerEngine, exports
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "user" / "share" / "singularity" / "images"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def site(
    slurm_cluster: SlurmCluster,
    apptainer_engine: ApptainerEngine,
    shared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    site = Site(
        slurm_cluster,
        tmp_path,
        monkeypatch,
        runtime="singularity",
        image_dirs=[str(tmp_path / "none"), str(shared)],
        setup=exports(apptainer_engine.env),
    )
    yield site
    site.service.close()


def test_site_image_is_used_instead_of_a_pull(
    site: Site, shared: Path, apptainer_engine: ApptainerEngine
) -> None:
    kept = shared / "pytorch_22.11-py3.sif"
    kept.symlink_to(apptainer_engine.sif)
    code = "import os; print(os.environ['SINGULARITY_NAME'])"
    job = site.run(code, image="pytorch:22.11")
    assert job.state is JobState.COMPLETED, job.why
    assert site.text(job.id) == f"{kept.name}\n"
