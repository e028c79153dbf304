"""Images made by the real tools through a real Slurm, and cells that run in them."""

from __future__ import annotations

import re
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
from tests.cluster.image import ch_image_with
from tests.cluster.plugin import SlurmCluster
from tests.containers.leftovers import processes
from tests.jobs.conftest import Site, spec
from tests.ssh.processes import kill
from tests.ssh.waiting import wait_until

MADE = ("mkdir -p /opt", 'echo "it\'s $((6 * 7))" >/opt/made')
"""Commands of a recipe."""
ENDLESS = ("echo begun; while :; do sleep 1; done",)


@dataclass
class Ground:
    site: Site
    runtime: str
    base: str
    """The image to start from, as the tool's own recipe names it."""
    folder: Path
    engine: DockerEngine | None = None
    makes_folders: bool = False

    def recipe(self, *commands: str, taking: str = "") -> str:
        """Return a recipe of the tool's own that runs the commands; `taking`: the lines before them
        that copy files."""
        if self.runtime == "apptainer":
            run = "".join(f"    {one}\n" for one in commands)
            return f"Bootstrap: localimage\nFrom: {self.base}\n\n{taking}\n%post\n{run}"
        return f"FROM {self.base}\n{taking}" + "".join(f"RUN {one}\n" for one in commands)

    def left_in_engine(self) -> list[str]:
        """Return the containers and our images that the engine holds."""
        if self.engine is None:
            return []
        made = self.engine.run("images", "--quiet", "jupyter-slurm/image")
        return [*self.engine.containers(), *made.split()]

    def image_spec(self, recipe: str | None, name: str = "mine", **changes: Any) -> ImageSpec:
        changes = {"runtime": self.runtime, **changes}
        return ImageSpec(id=spec("").id, name=name, recipe=recipe, **changes)

    def build(self, recipe: str, **changes: Any) -> ImageBuild:
        """Once it is there."""
        build = self.site.service.make_image(self.image_spec(recipe, **changes))
        if build.job is not None:
            job = self.site.wait(build.job.id, limit_s=180)
            assert job.state is JobState.COMPLETED, self.site.text(job.id)
        return build

    def failed(self, recipe: str, **changes: Any) -> Job:
        """The job that could not build it."""
        build = self.site.service.make_image(self.image_spec(recipe, **changes))
        assert build.job is not None
        job = self.site.wait(build.job.id, limit_s=120)
        assert job.state is JobState.FAILED
        return job

    def said(self, job: Job) -> str:
        return self.site.text(job.id) + self.site.text(job.id, "stderr")

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
    base, setup = charliecloud_squash(request)
    programs: Path = request.getfixturevalue("tmp_path") / "programs"
    (programs / "mksquashfs").write_text("#!/bin/sh\nexit 1\n")
    (programs / "mksquashfs").chmod(0o700)
    return base, setup


def charliecloud_squash(request: pytest.FixtureRequest) -> tuple[str, str]:
    programs: Path = request.getfixturevalue("tmp_path") / "programs"
    programs.mkdir()
    ch_image_with(programs, "small:1", request.getfixturevalue("shell_image"))
    # Debian's Python after it: for want of one, ch-image is given a PATH that has no stand-in.
    return "small:1", f"export PATH={shlex.quote(str(programs))}:/usr/bin:/bin:$PATH"


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
def test_a_recipe_makes_an_image_that_a_cell_runs_in_and_that_is_not_made_twice(
    ground: Ground,
) -> None:
    first = ground.build(ground.recipe(*MADE))
    assert first.job is not None
    assert "The image mine is there" in ground.site.text(first.job.id)
    assert ground.output_in("cat /opt/made") == "it's 42\n"
    again = ground.build(ground.recipe(*MADE))
    assert again.job is None
    assert Path(again.image.path).is_dir() is ground.makes_folders
    assert Path(again.image.path).exists()
    assert [path.name for path in ground.folder.glob(".*") if "partial" in path.name] == []
    changed = ground.build(ground.recipe(*MADE, "echo more >>/opt/made"))
    assert changed.job is not None
    assert ground.output_in("cat /opt/made") == "it's 42\nmore\n"
    assert Path(again.image.path).exists()


_PIP = """#!/bin/sh
# A stand-in for a Python with pip, which finds no packages here: it notes what pip is told. What a
# tool has it run (`python3 -IS -c TEXT PROGRAM`) to become a program becomes that.
[ "$1" = -m ] || { shift 3; exec "$@"; }
echo "pip says hello"
echo "$@" >>/opt/pip
"""


@pytest.mark.parametrize("ground", PACKED.values(), ids=PACKED, indirect=True)
def test_packages_are_put_into_an_image_that_was_made_before(
    ground: Ground, tmp_path: Path
) -> None:
    """Charliecloud has a packed one here to start from."""
    folder = tmp_path / "python"
    folder.mkdir()
    (folder / "python3").write_text(_PIP)
    (folder / "python3").chmod(0o755)
    taking = "COPY python3 /usr/bin/\n"
    if ground.runtime == "apptainer":
        taking = "%files\n    python3 /usr/bin/python3\n"
    python = ground.recipe("mkdir -p /opt", taking=taking)
    ground.build(python, name="base", folder=str(folder))
    recipe = "pip install -q 'numpy < 2' tqdm\n!pip install x"
    lines = ground.build(recipe, base="base")
    assert lines.job is not None
    assert lines.image.base == "base"
    assert "pip says hello" in ground.site.text(lines.job.id)
    assert ground.output_in("cat /opt/pip") == (
        "-m pip install --no-cache-dir numpy < 2 tqdm\n-m pip install --no-cache-dir x\n"
    )
    (folder / "python3").write_text(_PIP + "# changed\n")
    ground.build(python, name="base", folder=str(folder))
    again = ground.site.service.make_image(ground.image_spec(recipe, base="base"))
    assert again.job is not None
    ground.site.service.cancel(again.job.id)
    ground.site.wait(again.job.id)


def _beside(tmp_path: Path) -> Path:
    """Make a folder of files beside a recipe."""
    folder = tmp_path / "beside it"
    (folder / "code" / "ünter").mkdir(parents=True)
    (folder / "a b.txt").write_text("it's 42\n")
    (folder / "code" / "main.sh").write_text("#!/bin/sh\necho main\n")
    (folder / "code" / "main.sh").chmod(0o755)
    (folder / "code" / "ünter" / "data").write_text("deep\n")
    (folder / "code" / "left.log").write_text("left\n")
    (folder / ".gitignore").write_text("data\n")
    (folder / ".dockerignore").write_text("# these\n**/*.log\n")
    return folder


@pytest.mark.parametrize("ground", PACKED.values(), ids=PACKED, indirect=True)
def test_files_beside_a_recipe_are_in_the_image_that_is_made_again_when_one_changes(
    ground: Ground, tmp_path: Path
) -> None:
    folder = _beside(tmp_path)
    taking = 'WORKDIR /srv\nCOPY ["a b.txt", "my data/"]\nCOPY code /opt/code\n'
    if ground.runtime == "apptainer":
        taking = '%files\n    "a b.txt" "/srv/my data/a b.txt"\n    code /opt/code\n'
    recipe = ground.recipe("/opt/code/main.sh >/srv/said", taking=taking)
    first = ground.build(recipe, folder=str(folder))
    assert first.job is not None
    look = "cd /srv; cat 'my data/a b.txt' said; cd /opt/code; find . -type f | sort"
    there = "it's 42\nmain\n./main.sh\n./ünter/data\n"
    assert ground.output_in(look) == there
    sent = {one.name for one in Path(first.job.job_dir, "work").rglob("*")}
    ignore = {".gitignore", ".dockerignore"}
    assert sent == {"a b.txt", "code", "main.sh", "ünter", "data", *ignore}
    (folder / "code" / "left.log").write_text("changed\n")
    (folder / "a b.txt").touch()
    assert ground.build(recipe, folder=str(folder)).job is None
    (folder / "a b.txt").write_text("it's 43\n")
    assert ground.build(recipe, folder=str(folder)).job is not None
    assert ground.output_in(look) == there.replace("42", "43")


@pytest.mark.parametrize("ground", [apptainer], ids=["apptainer"], indirect=True)
def test_a_definition_starts_from_an_image_beside_it(ground: Ground, tmp_path: Path) -> None:
    folder = _beside(tmp_path)
    made = ground.build(ground.recipe(*MADE), name="base").image.path
    (folder / "base.sif").write_bytes(Path(f"{made}.sif").read_bytes())
    recipe = (
        "Bootstrap: localimage\nFrom: base.sif\nStage: one\n\n%files\n"
        '    # a remark\n    "a b.txt" "/taken/my data"\n    code/*.sh /taken/\n'
        "\n%post\n    echo late >/taken/late\n\n"
        "Bootstrap: localimage\nFrom: base.sif\n\n%files from one\n    /taken /taken\n"
    )
    ground.build(recipe, folder=str(folder))
    look = "cd /taken; cat 'my data' late; ./main.sh"
    assert ground.output_in(look) == "it's 42\nlate\nmain\n"


def test_one_that_fails_says_where_and_leaves_nothing(ground: Ground, tmp_path: Path) -> None:
    recipe = ground.recipe("echo 'no such luck' >&2; exit 3")
    before = ground.left_in_engine()
    job = ground.failed(recipe)
    assert "no such luck" in ground.said(job)
    assert "mine was not made" in ground.said(job)
    assert job.why is not None
    assert str(job.why).startswith("The image mine was not made: it failed while building.")
    assert job.advice
    assert [one.name for one in ground.folder.iterdir()] == [".mine.lock"]
    assert list((tmp_path / "node").iterdir()) == []
    assert ground.left_in_engine() == before
    with pytest.raises(NotFoundError):
        ground.site.service.remove_image("mine")
    ground.failed(recipe)


@pytest.mark.parametrize("ground", PACKED.values(), ids=PACKED, indirect=True)
def test_the_line_of_the_recipe_at_which_it_stopped_is_told(ground: Ground) -> None:
    is_definition = ground.runtime == "apptainer"
    run = "" if is_definition else "RUN "
    failing = ground.recipe("echo fine", "ls /nowhere", "echo no")
    recipes = {f"{run}ls /nowhere": failing, "-m pip install": "pip install numpy\napt install git"}
    if not is_definition:
        recipes["COPY --from=0"] = ground.recipe(taking="COPY --from=0 /missing /x\n")
    for line, recipe in recipes.items():
        # Lines start from an image that was built before, as ch-image has no other here.
        base = None
        if "pip" in line:
            ground.build(ground.recipe("true"), name="base")
            base = "base"
        job = ground.failed(recipe, base=base)
        said = "The image mine was not made: it failed while building. It stopped at `"
        assert str(job.why).startswith(said), ground.said(job)
        assert line in str(job.why)
    job = ground.cancelled(ground.recipe(*ENDLESS))
    said = f"Cancelled by you. It stopped at `{run}"
    assert job.state is JobState.CANCELLED
    assert str(job.why).startswith(said)


@pytest.mark.parametrize("ground", PACKED.values(), ids=PACKED, indirect=True)
def test_an_error_in_a_recipe_is_told_in_the_tools_own_words(ground: Ground) -> None:
    wrong = ground.recipe(taking="%psot\n" if ground.runtime == "apptainer" else "RUM ls\n")
    assert re.search("(?i)rum|psot", ground.said(ground.failed(wrong)))


def test_one_that_is_cancelled_leaves_nothing(ground: Ground, tmp_path: Path) -> None:
    before = ground.left_in_engine()
    assert ground.cancelled(ground.recipe(*ENDLESS)).state is JobState.CANCELLED
    wait_until(lambda: [one.name for one in ground.folder.iterdir()] == [".mine.lock"], 60)
    wait_until(lambda: not list((tmp_path / "node").iterdir()), 60)
    wait_until(lambda: ground.left_in_engine() == before, 60)


@pytest.mark.parametrize("ground", [docker], ids=["docker"], indirect=True)
def test_a_killed_build_leaves_no_container_and_no_image_in_the_engine(ground: Ground) -> None:
    before = ground.left_in_engine()
    build = ground.site.service.make_image(ground.image_spec(ground.recipe(*ENDLESS)))
    assert build.job is not None
    job_id = build.job.id
    wait_until(lambda: "\nbegun\n" in ground.so_far(job_id), 120)
    for process, _ in processes(ground.site.service.job(job_id)):
        kill(process)
    assert ground.site.wait(job_id, limit_s=120).state.final
    wait_until(lambda: ground.left_in_engine() == before, 60)


def test_two_who_ask_for_the_same_at_once_get_one_job(ground: Ground) -> None:
    with ThreadPoolExecutor(2) as pool:
        asked = [ground.image_spec(ground.recipe("sleep 5")) for _ in range(2)]
        first, second = pool.map(ground.site.service.make_image, asked)
    assert first.job is not None
    assert second.job is not None
    assert first.job.id == second.job.id
    ground.site.service.cancel(first.job.id)
    ground.site.wait(first.job.id)


def test_images_are_listed_and_removed(ground: Ground) -> None:
    service = ground.site.service
    ground.build(ground.recipe(*MADE))
    ground.build(ground.recipe(*MADE), again=True)
    listed = {one.name: one for one in service.images()}
    mine = listed["mine"]
    assert mine.origin is ImageOrigin.BUILT
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
def test_one_that_is_built_again_is_not_taken_from_the_engines_cache(ground: Ground) -> None:
    recipe = ground.recipe("mkdir -p /opt", "cat /proc/sys/kernel/random/uuid >/opt/made")
    ground.build(recipe)
    first = ground.output_in("cat /opt/made")
    ground.build(recipe, again=True)
    assert ground.output_in("cat /opt/made") != first


@pytest.mark.parametrize("ground", [docker], ids=["docker"], indirect=True)
def test_what_was_removed_leaves_a_nodes_engine_with_the_next_job_there(ground: Ground) -> None:
    before = set(ground.left_in_engine())
    ground.build(ground.recipe(*MADE))
    (mine,) = set(ground.left_in_engine()) - before
    ground.build(ground.recipe(*MADE, "true"), name="other")
    (node,) = ground.site.service.remove_image("mine").held_on
    assert mine in ground.left_in_engine()
    assert ground.output_in("cat /opt/made", image="other") == "it's 42\n"
    wait_until(lambda: mine not in ground.left_in_engine(), 60)
    wait_until(lambda: not list(ground.folder.glob(".mine+*")), 60)
    assert ground.site.service.remove_image("other").held_on == (node,)


def test_what_cannot_be_made_is_refused_before_there_is_a_job(ground: Ground) -> None:
    own = ground.recipe(*MADE)
    script = "#!/bin/sh\necho\n"
    other = "FROM x\n" if ground.runtime == "apptainer" else "Bootstrap: docker\nFrom: x\n"
    for name, recipe, base, said in (
        ("Mine", own, None, "not a name for an image"),
        ("a/b", own, None, "not a name for an image"),
        ("mine", own, "x", "--from"),
        ("mine", "pip install x", None, "--from IMAGE"),
        ("mine", "make it so", "x", "Line 1"),
        ("mine", other, None, f"{ground.runtime} does not read"),
        ("mine", script, "x", f"{ground.runtime} does not read"),
    ):
        with pytest.raises(RequestError, match=said):
            ground.site.service.make_image(ground.image_spec(recipe, name, base=base))
    assert ground.site.service.jobs() == []
