"""Images in folders with other files."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from jupyter_slurm.jobs.cluster.image_store import site_images
from jupyter_slurm.transport.local import LocalTransport

SQUASH = ["old+22.sqfs", "q.sqsh"]
FOLDERS = ["own image", "pytorch+22.11"]
SIF = ["a.sif", "b.simg", "c.img"]
TOOLS = {
    "charliecloud": [*FOLDERS, *SQUASH],
    "apptainer": [*FOLDERS, *SIF, *SQUASH],
    "enroot": SQUASH,
    "pyxis": SQUASH,
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with images of all tools and other files."""
    home = tmp_path / "it's [mine]"
    for folder in ("pytorch+22.11", "own image", ".hidden"):
        for part in ("bin", "dev", "usr"):
            (home / folder / part).mkdir(parents=True)
    for folder in ("data", "prefix/bin", "prefix/usr", "x.sif"):
        (home / folder).mkdir(parents=True)
    for file in ("a.sif", "b.simg", "c.img", "old+22.sqfs", "q.sqsh", ".x.sif", "notes.txt"):
        (home / file).touch()
    return home


@pytest.mark.parametrize(("runtime", "names"), TOOLS.items())
def test_only_files_that_the_tool_can_run_are_images(
    home: Path, runtime: str, names: list[str]
) -> None:
    found = site_images(LocalTransport(), ["/no/folder", str(home)], runtime)
    assert found == [PurePosixPath(home / name) for name in sorted(names)]


def test_runtime_none_finds_images_of_all_tools(home: Path) -> None:
    found = site_images(LocalTransport(), [str(home)], "none")
    assert [path.name for path in found] == sorted(TOOLS["apptainer"])
