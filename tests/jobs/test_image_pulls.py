"""Images of a real registry that wants a password, pulled by real tools through a real Slurm."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import ImageSpec, Job, JobKind, JobState
from tests.cluster.docker import DockerEngine
from tests.cluster.plugin import SlurmCluster
from tests.cluster.registry import Registry
from tests.jobs.conftest import Site, spec


def test_an_image_is_pulled_with_the_login_that_was_given_once(
    docker_engine: DockerEngine,
    registry: Registry,
    slurm_cluster: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = registry.push(docker_engine, docker_engine.image, "ours/demo:1")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    setup = f"export DOCKER_HOST={docker_engine.env['DOCKER_HOST']}"
    folder = tmp_path / "images"
    site = Site(
        slurm_cluster, tmp_path, monkeypatch, runtime="docker", setup=setup, image_dir=str(folder)
    )
    try:
        refused = pulled(site, full)
        assert refused.state is JobState.FAILED
        assert refused.why is not None
        assert f"was not made: it failed while pulling {full}. " in refused.why
        assert "no basic auth credentials" in refused.why
        assert refused.advice
        login = (registry.address, registry.user, registry.password)
        written = Path(site.service.registry_login(*login))
        assert written == home / ".docker" / "config.json"
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
        job = pulled(site, full)
        assert job.state is JobState.COMPLETED, site.text(job.id)
        told = job_dir_texts(Path(job.job_dir)) + site.text(job.id)
        assert registry.password not in told
        docker_engine.run("rmi", full)  # as on a node that has never seen it
        program = spec(
            "#!/bin/sh\npython3 -c 'import numpy; print(6 * 7)'", kind=JobKind.PROGRAM, image=full
        )
        used = site.wait(site.service.submit(program).id)
        assert used.state is JobState.COMPLETED, site.text(used.id)
        assert site.text(used.id) == "42\n"
        again = site.service.make_image(ImageSpec(id=spec("").id, base=full))
        assert again.job is None
    finally:
        site.service.close()


def pulled(site: Site, reference: str) -> Job:
    build = site.service.make_image(ImageSpec(id=spec("").id, base=reference))
    assert build.job is not None
    return site.wait(build.job.id, limit_s=180)


def job_dir_texts(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.iterdir() if path.is_file())


def test_a_cluster_without_a_container_tool_has_no_registries(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(slurm_cluster, tmp_path, monkeypatch, runtime="none")
    try:
        with pytest.raises(RequestError, match="none"):
            site.service.registry_login("x.org", "a", "b")
        with pytest.raises(RequestError, match="none"):
            site.service.make_image(ImageSpec(id=spec("").id, base="ubuntu:22.04"))
        assert site.service.images() == []
    finally:
        site.service.close()
