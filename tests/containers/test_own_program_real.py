"""An image's own program as a job of a real Slurm, with a real Docker and a stand-in for pyxis.
`test_apptainer_registry.py` tests Apptainer."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import ImageSpec, Job, JobKind, JobState
from tests.cluster.docker import DockerEngine
from tests.cluster.plugin import SlurmCluster
from tests.cluster.pyxis import EnrootStandIn
from tests.containers.leftovers import processes_of
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0
HOSTILE = ("a b", "$(x)`y`", "$HOME", "quo'te\"d", "-n", "new\nline", "é…", "a\\b", "")
_PROGRAM = r"""case $1 in
wait) trap 'echo told; exit 7' TERM; echo ready; while :; do sleep 0.1; done ;;
esac
printf '<%s>' "$PWD" "$V" "$@"
exit 3
"""
_DOCKERFILE = """FROM small:1
WORKDIR /srv/own
COPY main.sh .
ENTRYPOINT ["sh", "main.sh"]
CMD ["usual $HOME"]
"""
_STARTS = """cd /srv/own
[ "$#" -gt 0 ] || set -- 'usual $HOME'
exec sh main.sh "$@"
"""
_SCRIPT = f"""#!/bin/sh
set -e
mkdir -p /srv/own
cp main.sh /srv/own/
cat >/etc/rc <<'END'
{_STARTS}END
"""
"""enroot itself writes /etc/rc for an image of a registry, from the image's configuration."""


@dataclass
class Ground:
    site: Site
    base: str

    def build(self, runtime: str, folder: Path) -> None:
        """Build the image `own` with the program."""
        (folder / "main.sh").write_text(_PROGRAM)
        recipes = {"docker": _DOCKERFILE}
        asked = ImageSpec(
            id=spec("").id,
            name="own",
            recipe=recipes.get(runtime, _SCRIPT),
            base=None if runtime in recipes else self.base,
            push=str(folder),
        )
        build = self.site.service.make_image(asked)
        assert build.job is not None
        job = self.site.wait(build.job.id, limit_s=180)
        assert job.state is JobState.COMPLETED, self.site.text(job.id)

    def begin(self, image: str, *arguments: str, **changes: Any) -> Job:
        asked = spec("", kind=JobKind.PROGRAM, image=image, arguments=arguments, **changes)
        return self.site.service.submit(asked)

    def run(self, image: str, *arguments: str, **changes: Any) -> Job:
        return self.site.wait(self.begin(image, *arguments, **changes).id)

    def until_it_says(self, job: Job, words: str) -> None:
        def is_shown() -> bool:
            outputs = self.site.service.logs(job.id, "", wait_s=1, budget_bytes=None).outputs
            return words in "".join(getattr(output, "text", "") for output in outputs)

        wait_until(is_shown, _PATIENCE_S)


def docker(request: pytest.FixtureRequest) -> tuple[str, str, Callable[[], list[str]]]:
    engine: DockerEngine = request.getfixturevalue("docker_engine")
    engine.load(request.getfixturevalue("shell_image"), "small:1")
    return "small:1", engine.setup, engine.containers


def pyxis(request: pytest.FixtureRequest) -> tuple[str, str, Callable[[], list[str]]]:
    standin: EnrootStandIn = request.getfixturevalue("enroot_standin")
    standin.publish("small:1", request.getfixturevalue("small_image"))
    return "docker.io/small:1", standin.setup, standin.containers


TOOLS = {"docker": docker, "pyxis": pyxis}


@pytest.fixture(params=TOOLS)
def ground(
    request: pytest.FixtureRequest,
    slurm_cluster: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ground]:
    """Yield the ground. At the end, check that its jobs left nothing."""
    base, setup, containers = TOOLS[request.param](request)
    (tmp_path / "node").mkdir()
    settings = {
        "runtime": request.param,
        "setup": f"{setup}\nexport TMPDIR={shlex.quote(str(tmp_path / 'node'))}",
        "job_root": str(tmp_path / "jobs"),
        "image_dir": str(tmp_path / "our images"),
    }
    site = Site(slurm_cluster, tmp_path, monkeypatch, **settings)
    yield Ground(site, base)
    wait_until(lambda: not containers() and not processes_of(site), _PATIENCE_S)
    site.service.close()


def shown(words: Sequence[str]) -> str:
    return "".join(f"<{word}>" for word in words)


def test_image_program_gets_arguments_environment_and_signals_and_sets_the_exit_code(
    ground: Ground, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """One image tests everything, since each image needs a job."""
    (tmp_path / "recipe").mkdir()
    ground.build(request.node.callspec.params["ground"], tmp_path / "recipe")
    value = "it's\n$V"

    usual = ground.run("own", env={"V": value})
    assert (usual.state, usual.exit_code) == (JobState.FAILED, 3), ground.site.text(usual.id)
    assert ground.site.text(usual.id) == shown(("/srv/own", value, "usual $HOME"))

    given = ground.run("own", *HOSTILE)
    assert ground.site.text(given.id) == shown(("/srv/own", "", *HOSTILE))

    waits = ground.begin("own", "wait")
    ground.until_it_says(waits, "ready")
    ground.site.service.cancel(waits.id)
    assert ground.site.wait(waits.id).state is JobState.CANCELLED
    assert "told\n" in ground.site.text(waits.id)

    with pytest.raises(RequestError) as caught:
        ground.begin("own", options={"chdir": "/"})
    assert caught.value.option == "chdir"
