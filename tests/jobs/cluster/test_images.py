"""Images made by the real tools through a real Slurm, and cells that run in them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.wire import ImageBuild, ImageOrigin, ImageSpec, Job, JobKind, JobState, Stream
from tests.cluster.apptainer import ApptainerEngine
from tests.cluster.docker import DockerEngine
from tests.cluster.plugin import SlurmCluster
from tests.containers.leftovers import processes
from tests.jobs.conftest import Site, spec
from tests.ssh.processes import kill
from tests.ssh.waiting import wait_until

MADE = '#!/bin/sh\nset -e\nmkdir -p /opt\necho "it\'s $((6 * 7))" >/opt/made\n'


@dataclass
class Ground:
    site: Site
    runtime: str
    base: str
    folder: Path
    engine: DockerEngine | None = None
    makes_folders: bool = False

    def left_in_engine(self) -> list[str]:
        """Return the containers and the unnamed layers that the engine holds."""
        if self.engine is None:
            return []
        unnamed = ("images", "--all", "--quiet", "--filter", "dangling=true")
        made = self.engine.run("images", "--quiet", "jupyter-slurm/image")
        return [*self.engine.containers(), *self.engine.run(*unnamed).split(), *made.split()]

    def image_spec(self, recipe: str | None, name: str = "mine", **changes: Any) -> ImageSpec:
        changes = {"base": self.base, "runtime": self.runtime, **changes}
        return ImageSpec(id=spec("").id, name=name, recipe=recipe, **changes)

    def build(self, recipe: str, **changes: Any) -> ImageBuild:
        """Once it is there."""
        build = self.site.service.make_image(self.image_spec(recipe, **changes))
        if build.job is not None:
            job = self.site.wait(build.job.id, limit_s=180)
            assert job.state is JobState.COMPLETED, self.site.text(job.id)
        return build

    def cancelled(self, recipe: str, **changes: Any) -> Job:
        """Cancel the job when the recipe has said `begun`, and return it as it ended."""
        build = self.site.service.make_image(self.image_spec(recipe, **changes))
        assert build.job is not None
        job_id = build.job.id
        wait_until(lambda: "\nbegun\n" in self.so_far(job_id), 120)
        self.site.service.cancel(job_id)
        return self.site.wait(job_id)

    def so_far(self, job_id: str) -> str:
        outputs = self.site.service.logs(job_id, budget_bytes=None).outputs
        return "".join(one.text for one in outputs if isinstance(one, Stream))

    def output_in(self, command: str, image: str = "mine") -> str:
        """What a program in the image prints."""
        asked = spec(
            f"#!/bin/sh\n{command}", kind=JobKind.PROGRAM, image=image, runtime=self.runtime
        )
        job = self.site.wait(self.site.service.submit(asked).id)
        assert job.state is JobState.COMPLETED, (job.why, self.site.text(job.id))
        return self.site.text(job.id)


def charliecloud(request: pytest.FixtureRequest) -> tuple[str, str]:
    """On nodes that cannot make SquashFS files: the program there is a stand-in that fails."""
    programs: Path = request.getfixturevalue("tmp_path") / "programs"
    programs.mkdir()
    (programs / "mksquashfs").write_text("#!/bin/sh\nexit 1\n")
    (programs / "mksquashfs").chmod(0o700)
    # Debian's Python after it: for want of one, ch-image is given a PATH that has no stand-in.
    setup = f"export PATH={programs}:/usr/bin:/bin:$PATH"
    return str(request.getfixturevalue("shell_image")), setup


def charliecloud_squash(request: pytest.FixtureRequest) -> tuple[str, str]:
    return str(request.getfixturevalue("shell_image")), ""


def docker(request: pytest.FixtureRequest) -> tuple[str, str]:
    engine: DockerEngine = request.getfixturevalue("docker_engine")
    engine.load(request.getfixturevalue("shell_image"), "small:1")
    return "small:1", engine.setup


def apptainer(request: pytest.FixtureRequest) -> tuple[str, str]:
    engine: ApptainerEngine = request.getfixturevalue("apptainer_engine")
    env = engine.unprivileged | {"APPTAINER_MKSQUASHFS_ARGS": "-noI -noD -noF -noX"}
    setup = "; ".join(f"export {name}={shlex.quote(value)}" for name, value in env.items())
    return str(request.getfixturevalue("shell_image")), setup


ENGINES = {one.__name__: one for one in (charliecloud, docker, apptainer)}
"""Each gives an image to start from, and what the profile's set-up says."""
PACKED = {"charliecloud squash": charliecloud_squash, "docker": docker, "apptainer": apptainer}


@pytest.fixture(params=list(ENGINES.values()), ids=list(ENGINES))
def ground(
    request: pytest.FixtureRequest,
    slurm_cluster: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ground]:
    base, setup = request.param(request)
    runtime = request.param.__name__.partition("_")[0]
    folder = tmp_path / "our images"
    (tmp_path / "node").mkdir()
    setup += f"\nexport TMPDIR={shlex.quote(str(tmp_path / 'node'))}"
    settings = {"image_dir": str(folder), "runtime": runtime, "setup": setup}
    site = Site(slurm_cluster, tmp_path, monkeypatch, **settings)
    engine: DockerEngine | None = None
    if runtime == "docker":
        engine = request.getfixturevalue("docker_engine")
    makes_folders = request.param is charliecloud
    yield Ground(site, runtime, base, folder, engine, makes_folders)
    site.service.close()


@pytest.mark.parametrize(
    "ground",
    [*ENGINES.values(), charliecloud_squash],
    ids=[*ENGINES, "charliecloud squash"],
    indirect=True,
)
def test_a_script_makes_an_image_that_a_cell_runs_in_and_that_is_not_made_twice(
    ground: Ground,
) -> None:
    first = ground.build(MADE)
    assert first.job is not None
    assert "The image mine is there" in ground.site.text(first.job.id)
    assert ground.output_in("cat /opt/made") == "it's 42\n"
    again = ground.build(MADE)
    assert again.job is None
    assert Path(again.image.path).is_dir() is ground.makes_folders
    assert Path(again.image.path).exists()
    assert [path.name for path in ground.folder.glob(".*") if "partial" in path.name] == []
    changed = ground.build(MADE + "echo more >>/opt/made\n")
    assert changed.job is not None
    assert ground.output_in("cat /opt/made") == "it's 42\nmore\n"
    assert Path(again.image.path).exists()


_PIP = """#!/bin/sh
# A stand-in for a Python with pip, which finds no packages here: it notes what pip is told. What a
# tool has it run (`python3 -IS -c TEXT PROGRAM`) to become a program becomes that.
set -e
mkdir -p /opt
cat >/usr/bin/python3 <<'END'
#!/bin/sh
[ "$1" = -m ] || { shift 3; exec "$@"; }
echo "pip says hello"
echo "$@" >>/opt/pip
END
chmod 755 /usr/bin/python3
"""


@pytest.mark.parametrize("ground", PACKED.values(), ids=PACKED, indirect=True)
def test_packages_are_put_into_an_image_that_was_made_before(ground: Ground) -> None:
    """Charliecloud has a packed one here to start from, and a folder below a Dockerfile."""
    recipe = "pip install -q 'numpy < 2' tqdm\n!pip install x"
    ground.build(_PIP, name="base")
    lines = ground.build(recipe, base="base")
    assert lines.job is not None
    assert "pip says hello" in ground.site.text(lines.job.id)
    assert ground.output_in("cat /opt/pip") == (
        "-m pip install --no-cache-dir numpy < 2 tqdm\n-m pip install --no-cache-dir x\n"
    )
    ground.build(_PIP + "# changed\n", name="base")
    again = ground.site.service.make_image(ground.image_spec(recipe, base="base"))
    assert again.job is not None
    ground.site.service.cancel(again.job.id)
    ground.site.wait(again.job.id)


def test_a_dockerfile_stands_on_an_image_that_was_made_before(ground: Ground) -> None:
    ground.build(MADE, name="base")
    dockerfile = (
        'FROM base\nENV A="b c"\nWORKDIR /srv\nRUN echo $A >here \\\n  && cat /opt/made >>here\n'
    )
    ground.build(dockerfile, base=None)
    assert ground.output_in("cat /srv/here; echo $A") == "b c\nit's 42\nb c\n"


def _beside(tmp_path: Path) -> Path:
    """Make a folder of files beside a recipe."""
    folder = tmp_path / "beside it"
    (folder / "code" / "ünter").mkdir(parents=True)
    (folder / "a b.txt").write_text("it's 42\n")
    (folder / "code" / "main.sh").write_text("#!/bin/sh\necho main\n")
    (folder / "code" / "main.sh").chmod(0o755)
    (folder / "code" / "ünter" / "data").write_text("deep\n")
    (folder / "code" / "left.log").write_text("left\n")
    (folder / "other").write_text("never named\n")
    (folder / ".dockerignore").write_text("# these\n**/*.log\n")
    return folder


@pytest.mark.parametrize("ground", PACKED.values(), ids=PACKED, indirect=True)
def test_files_beside_a_dockerfile_are_in_the_image_that_is_made_anew_when_one_changes(
    ground: Ground, tmp_path: Path
) -> None:
    folder = _beside(tmp_path)
    ground.build(MADE, name="base")
    recipe = (
        'FROM base\nWORKDIR /srv\nCOPY ["a b.txt", "my data/"]\nCOPY code /opt/code\n'
        "ADD ./code/main.sh .\nRUN ./main.sh\n"
    )
    first = ground.build(recipe, base=None, folder=str(folder))
    assert first.job is not None
    look = "cd /srv; cat 'my data/a b.txt'; ./main.sh; cd /opt/code; find . -type f | sort"
    there = "it's 42\nmain\n./main.sh\n./ünter/data\n"
    assert ground.output_in(look) == there
    sent = {one.name for one in Path(first.job.job_dir, "work").rglob("*")}
    assert sent == {"a b.txt", "code", "main.sh", "ünter", "data"}
    (folder / "other").write_text("changed\n")
    (folder / "a b.txt").touch()
    assert ground.build(recipe, base=None, folder=str(folder)).job is None
    (folder / "a b.txt").write_text("it's 43\n")
    assert ground.build(recipe, base=None, folder=str(folder)).job is not None
    assert ground.output_in(look) == there.replace("42", "43")


@pytest.mark.parametrize("ground", [apptainer], ids=["apptainer"], indirect=True)
def test_files_beside_a_definition_are_in_the_image(ground: Ground, tmp_path: Path) -> None:
    folder = _beside(tmp_path)
    (folder / "link").symlink_to("code/main.sh")
    (folder / "base.sif").write_bytes(
        Path(ground.build(MADE, name="base").image.path + ".sif").read_bytes()
    )
    recipe = (
        "Bootstrap: localimage\nFrom: base.sif\nStage: one\n\n%files\n"
        '    # a remark\n    "a b.txt" "/taken/my data"\n    code/*.sh /taken/\n'
        "    link /taken/link\n"
        "\n%post\n    echo late >/taken/late\n\n"
        "Bootstrap: localimage\nFrom: base.sif\n\n%files from one\n    /taken /taken\n"
    )
    ground.build(recipe, base=None, folder=str(folder))
    look = "cd /taken; cat 'my data' late link; ./main.sh"
    assert ground.output_in(look) == "it's 42\nlate\n#!/bin/sh\necho main\nmain\n"


def test_one_that_fails_says_where_and_leaves_nothing(ground: Ground, tmp_path: Path) -> None:
    recipe = "#!/bin/sh\necho 'no such luck' >&2\nexit 3"
    before = ground.left_in_engine()
    build = ground.site.service.make_image(ground.image_spec(recipe))
    assert build.job is not None
    job = ground.site.wait(build.job.id, limit_s=120)
    assert job.state is JobState.FAILED
    text = ground.site.text(job.id) + ground.site.text(job.id, "stderr")
    assert "no such luck" in text
    assert "mine was not made" in text
    assert job.why is not None
    assert str(job.why).startswith("The image mine was not made: it failed while building.")
    assert job.advice
    assert [one.name for one in ground.folder.iterdir()] == [".mine.lock"]
    assert list((tmp_path / "node").iterdir()) == []
    assert ground.left_in_engine() == before
    with pytest.raises(NotFoundError):
        ground.site.service.remove_image("mine")
    again = ground.site.service.make_image(ground.image_spec(recipe))
    assert again.job is not None
    assert ground.site.wait(again.job.id, limit_s=120).state is JobState.FAILED


@pytest.mark.parametrize("ground", PACKED.values(), ids=PACKED, indirect=True)
def test_the_line_of_the_recipe_at_which_it_stopped_is_told_and_nothing_is_left(
    ground: Ground, tmp_path: Path
) -> None:
    ground.build(MADE, name="base")
    before = ground.left_in_engine()
    recipes = {
        "RUN ls /nowhere": "FROM base\nENV A=1\nRUN echo fine\nRUN ls /nowhere\nRUN echo no\n",
        "pip install numpy": "pip install numpy\napt install git\n",
    }
    if ground.runtime == "apptainer":
        head = (
            f"Bootstrap: localimage\nFrom: {ground.folder}/{next(ground.folder.glob('*.sif')).name}"
        )
        recipes["ls /nowhere"] = f"{head}\n%post\n  echo fine\n  ls /nowhere\n  echo no\n"
    else:
        recipes["COPY --from=0"] = "FROM base\nCOPY --from=0 /missing /x\n"
    for line, recipe in recipes.items():
        base = "base" if line.startswith("pip") else None
        build = ground.site.service.make_image(ground.image_spec(recipe, base=base))
        assert build.job is not None
        job = ground.site.wait(build.job.id, limit_s=120)
        said = f"The image mine was not made: it failed while building. It stopped at `{line}"
        assert str(job.why).startswith(said), ground.site.text(job.id)
    endless = "echo begun; while :; do sleep 1; done"
    job = ground.cancelled(f"FROM base\nRUN {endless}\n", base=None)
    said = f"Cancelled by you. It stopped at `RUN {endless}`."
    assert (job.state, str(job.why)) == (JobState.CANCELLED, said)
    wait_until(lambda: [one.name for one in ground.folder.glob(".mine*")] == [".mine.lock"], 60)
    wait_until(lambda: not list((tmp_path / "node").iterdir()), 60)
    assert ground.left_in_engine() == before
    with pytest.raises(RequestError, match="`RUM ls`"):
        ground.site.service.make_image(ground.image_spec("FROM base\nRUM ls\n", base=None))


_ENDLESS = "#!/bin/sh\necho begun\nwhile :; do sleep 1; done"


def test_one_that_is_cancelled_leaves_nothing(ground: Ground, tmp_path: Path) -> None:
    before = ground.left_in_engine()
    assert ground.cancelled(_ENDLESS).state is JobState.CANCELLED
    wait_until(lambda: [one.name for one in ground.folder.iterdir()] == [".mine.lock"], 60)
    wait_until(lambda: not list((tmp_path / "node").iterdir()), 60)
    assert ground.left_in_engine() == before


@pytest.mark.parametrize("ground", [docker], ids=["docker"], indirect=True)
def test_what_a_killed_build_leaves_in_the_engine_goes_with_the_next(ground: Ground) -> None:
    before = ground.left_in_engine()
    build = ground.site.service.make_image(ground.image_spec(_ENDLESS))
    assert build.job is not None
    job_id = build.job.id
    wait_until(lambda: "begun" in ground.so_far(job_id), 120)
    for process, _ in processes(ground.site.service.job(job_id)):
        kill(process)
    assert ground.site.wait(job_id, limit_s=120).state.final
    wait_until(lambda: ground.engine is not None and not ground.engine.containers(), 60)
    failing = ground.site.service.make_image(ground.image_spec("#!/bin/sh\nexit 3"))
    assert failing.job is not None
    ground.site.wait(failing.job.id, limit_s=120)
    assert ground.left_in_engine() == before


def test_two_who_ask_for_the_same_at_once_get_one_job(ground: Ground) -> None:
    with ThreadPoolExecutor(2) as pool:
        asked = [ground.image_spec("#!/bin/sh\nsleep 5") for _ in range(2)]
        first, second = pool.map(ground.site.service.make_image, asked)
    assert first.job is not None
    assert second.job is not None
    assert first.job.id == second.job.id
    ground.site.service.cancel(first.job.id)
    ground.site.wait(first.job.id)


def test_images_are_listed_and_removed(ground: Ground) -> None:
    service = ground.site.service
    ground.build(MADE)
    ground.build(MADE, again=True)
    listed = {one.name: one for one in service.images()}
    mine = listed["mine"]
    assert (mine.origin, mine.base) == (ImageOrigin.BUILT, ground.base)
    assert mine.made_s is not None
    assert mine.size_mib is not None
    assert mine.size_mib > 10
    versions = [one for one in ground.folder.iterdir() if one.name.startswith("mine+")]
    assert len(versions) == 2
    assert Path(mine.path) in versions
    nodes = service.remove_image("mine").held_on
    left = [one.name for one in ground.folder.iterdir() if "@" not in one.name]
    assert left == [".mine.lock"]
    with pytest.raises(NotFoundError, match="mine"):
        service.remove_image("mine")
    assert (nodes != ()) is (ground.engine is not None)


@pytest.mark.parametrize("ground", [docker], ids=["docker"], indirect=True)
def test_what_was_removed_leaves_a_nodes_engine_with_the_next_job_there(ground: Ground) -> None:
    before = set(ground.left_in_engine())
    ground.build(MADE)
    (mine,) = set(ground.left_in_engine()) - before
    ground.build(MADE + "# other\n", name="other")
    (node,) = ground.site.service.remove_image("mine").held_on
    assert mine in ground.left_in_engine()
    assert ground.output_in("cat /opt/made", image="other") == "it's 42\n"
    wait_until(lambda: mine not in ground.left_in_engine(), 60)
    wait_until(lambda: not list(ground.folder.glob(".mine+*")), 60)
    assert ground.site.service.remove_image("other").held_on == (node,)


def test_what_cannot_be_made_is_refused_before_there_is_a_job(ground: Ground) -> None:
    for name, recipe, base, said in (
        ("Mine", MADE, ground.base, "not a name for an image"),
        ("a/b", MADE, ground.base, "not a name for an image"),
        ("mine", MADE, None, "--from IMAGE"),
        ("mine", "make it so", ground.base, "Line 1"),
        ("mine", "FROM x\nCOPY a b", None, "Line 2 of the recipe, `COPY a b`"),
    ):
        with pytest.raises(RequestError, match=said):
            ground.site.service.make_image(ground.image_spec(recipe, name, base=base))
    assert ground.site.service.jobs() == []
