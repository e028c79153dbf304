"""Containers that stay on their node, in steps of a real Slurm: made once, changed, found again,
removed. pyxis and enroot are the stand-ins of `tests/cluster/enroot_standin.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import Image, ImageOrigin, Job, JobKind, JobState
from tests.cluster.plugin import SlurmCluster
from tests.cluster.pyxis import EnrootStandIn
from tests.containers.leftovers import processes_of
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0
_WAITS = "#!/bin/sh\ntouch /mnt/job/up; while [ ! -e /mnt/job/go ]; do sleep 0.1; done"


@pytest.fixture(params=["pyxis", "enroot"])
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def site(
    slurm_cluster: SlurmCluster,
    enroot_standin: EnrootStandIn,
    runtime: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    settings: dict[str, Any] = {
        "setup": enroot_standin.setup,
        "job_root": str(tmp_path / "jobs"),
        "runtime": runtime,
    }
    site = Site(slurm_cluster, tmp_path, monkeypatch, **settings)
    yield site
    wait_until(lambda: not processes_of(site), _PATIENCE_S)
    site.service.close()


def program(code: str, **changes: Any) -> Any:
    return spec(f"#!/bin/sh\n{code}\n", kind=JobKind.PROGRAM, container_name="myrepo", **changes)


def ended(site: Site, code: str, **changes: Any) -> Job:
    job = site.wait(site.service.submit(program(code, **changes)).id)
    assert job.state is JobState.COMPLETED, (job.why, site.text(job.id))
    return job


def kept(site: Site) -> list[Image]:
    return [one for one in site.service.images() if one.origin is ImageOrigin.CONTAINER]


def test_what_is_changed_in_it_stays_and_the_next_job_goes_to_its_node(
    site: Site, runtime: str, enroot_standin: EnrootStandIn, small_image: Path
) -> None:
    image = str(small_image)
    made = ended(site, "echo mine >/opt/mine", image=image, options={"nodelist": "n2"})
    assert "Making the container myrepo on n2." in site.text(made.id, "stderr") + site.text(made.id)
    assert enroot_standin.containers() == ["pyxis_myrepo" if runtime == "pyxis" else "myrepo"]
    (one,) = kept(site)
    assert (one.name, one.node, one.base, one.tool) == ("myrepo", "n2", image, runtime)
    assert one.made_s is not None
    again = ended(site, "cat /opt/mine")
    assert again.nodes == ("n2",)
    assert site.text(again.id) == "mine\n"
    assert again.warning is None
    assert again.container_name == "myrepo"

    (removal,) = site.service.remove_image("myrepo").jobs
    assert site.wait(removal.id).state is JobState.COMPLETED, site.text(removal.id)
    assert enroot_standin.containers() == []
    assert kept(site) == []


def test_a_session_keeps_its_container_and_a_job_beside_it_uses_the_same(
    site: Site, enroot_standin: EnrootStandIn, lean_squash_image: Path
) -> None:
    asked = spec(
        "",
        kind=JobKind.SESSION,
        idle_s=600,
        container_name="myrepo",
        image=str(lean_squash_image),
        options={"nodelist": "n2"},
    )
    session = site.service.submit(asked)
    cell = spec("open('/opt/mine', 'w').write('mine')", session=session.id)
    assert site.wait(site.service.submit(cell).id).state is JobState.COMPLETED
    beside = ended(site, "cat /opt/mine; test -d /mnt/job/claim.0")
    assert (site.text(beside.id), beside.nodes) == ("mine", ("n2",))
    site.service.cancel(session.id)
    site.wait(session.id)
    assert len(enroot_standin.containers()) == 1


def test_two_jobs_that_want_it_at_once_make_it_once(
    site: Site, enroot_standin: EnrootStandIn, small_image: Path
) -> None:
    image = str(small_image)
    held = {"nodelist": "n1"}
    jobs = [site.service.submit(program("ls /opt", image=image, options=held)) for _ in range(2)]
    told = ""
    for job in jobs:
        assert site.wait(job.id).state is JobState.COMPLETED
        told += site.so_far(job.id)
    assert told.count("Making the container myrepo on n1.") == 1
    assert len(enroot_standin.containers()) == 1


def test_what_cannot_be_is_refused_before_it_is_sent(site: Site, small_image: Path) -> None:
    with pytest.raises(RequestError, match="no container myrepo") as none:
        site.service.submit(program("ls"))
    assert "--image IMAGE" in str(none.value.hint)
    waits = spec(
        _WAITS,
        kind=JobKind.PROGRAM,
        container_name="myrepo",
        image=str(small_image),
        options={"begin": "now+1hour"},
    )
    waiting = site.service.submit(waits)
    with pytest.raises(RequestError, match=f"{waiting.id} is about to make"):
        site.service.submit(program("ls"))
    site.service.cancel(waiting.id)
    site.wait(waiting.id)

    ended(site, "true", image=str(small_image), options={"nodelist": "n1"})
    with pytest.raises(RequestError, match="on n1 only, and --nodelist names n2"):
        site.service.submit(program("ls", options={"nodelist": "n2"}))
    with pytest.raises(RequestError, match="on n1 only, and the job asks for 2 nodes"):
        site.service.submit(program("ls", options={"nodes": "2"}))
    uses = site.service.submit(spec(_WAITS, kind=JobKind.PROGRAM, container_name="myrepo"))
    with pytest.raises(RequestError, match=f"{uses.id} runs in the container myrepo"):
        site.service.remove_image("myrepo")
    Path(uses.job_dir, "go").touch()
    site.wait(uses.id)


def test_a_container_that_is_gone_from_its_node_is_told_and_forgotten(
    site: Site, runtime: str, enroot_standin: EnrootStandIn, small_image: Path
) -> None:
    ended(site, "true", image=str(small_image))
    (name,) = enroot_standin.containers()
    enroot_standin.run("remove", "--force", name)
    job = site.wait(site.service.submit(program("ls")).id)
    assert job.state is JobState.FAILED
    assert "on this node" in str(job.why)
    assert "The container myrepo is not on n" in site.text(job.id)
    assert kept(site) == []


def test_what_a_job_that_was_killed_has_left_of_it_is_made_anew(
    site: Site, runtime: str, enroot_standin: EnrootStandIn, small_image: Path, tmp_path: Path
) -> None:
    name = "pyxis_myrepo" if runtime == "pyxis" else "myrepo"
    (enroot_standin.folder / "data" / name).mkdir()
    folder = tmp_path / "images" / "containers"
    folder.mkdir(parents=True)
    (folder / f"myrepo@{runtime}@n1.lock").write_text("making\n")
    ended(site, "test -d /opt", image=str(small_image), options={"nodelist": "n1"})
    assert [one.base for one in kept(site)] == [str(small_image)]


def test_one_that_was_made_by_hand_is_taken_over_by_the_name_of_its_node(
    site: Site, runtime: str, enroot_standin: EnrootStandIn, small_image: Path
) -> None:
    name = "pyxis_myrepo" if runtime == "pyxis" else "myrepo"
    enroot_standin.run("create", "--name", name, str(small_image))
    job = ended(site, "echo up", options={"nodelist": "n1"})
    assert site.text(job.id) == "up\n"
    assert [(one.node, one.base) for one in kept(site)] == [("n1", None)]


def test_another_image_than_it_was_made_from_changes_nothing_and_that_is_told(
    site: Site, small_image: Path, tmp_path: Path
) -> None:
    ended(site, "echo mine >/opt/mine", image=str(small_image))
    other = tmp_path / "other.sqsh"
    other.symlink_to(small_image)
    job = ended(site, "cat /opt/mine", image=str(other))
    assert site.text(job.id) == "mine\n"
    assert f"was made from {small_image}, and {other} changes nothing in it" in str(job.warning)


@pytest.mark.parametrize("runtime", ["pyxis"], indirect=True)
def test_where_pyxis_ends_containers_with_the_job_that_is_told_and_nothing_is_noted(
    site: Site, enroot_standin: EnrootStandIn, small_image: Path
) -> None:
    (enroot_standin.folder / "scope_job").touch()
    job = ended(site, "echo up", image=str(small_image))
    assert "goes with the job (pyxis: container_scope=job)" in site.text(job.id)
    assert site.text(job.id).endswith("up\n")
    assert kept(site) == []


@pytest.mark.parametrize("runtime", ["pyxis"], indirect=True)
def test_where_no_container_stays_nobody_is_root_in_one(site: Site) -> None:
    with pytest.raises(RequestError, match="needs pyxis or enroot, and the runtime is none"):
        site.service.submit(spec("1", runtime="none", container_remap_root=True))


@pytest.mark.parametrize("asked", ["docker", "apptainer", "charliecloud", "none"])
@pytest.mark.parametrize("runtime", ["pyxis"], indirect=True)
def test_a_runtime_that_keeps_none_says_what_to_do_instead(site: Site, asked: str) -> None:
    with pytest.raises(RequestError, match=f"runtime {asked} keeps no container") as refused:
        site.service.submit(program("ls", image="/i.sqsh", runtime=asked))
    assert "%%slurm_image" in str(refused.value.hint)
