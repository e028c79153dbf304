"""Lists of a Python's packages, from generated folders and from the running Python."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

from jupyter_slurm.commands import packages_here
from jupyter_slurm.containers.recipe import Kind, read_recipe


def package(folder: Path, name: str, version: str, **files: str) -> None:
    place = folder / f"{name}-{version}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for file, content in files.items():
        (place / file.replace("_json", ".json")).write_text(content)


def collected(tmp_path: Path) -> packages_here.Here:
    found = metadata.distributions(path=[str(tmp_path / "first"), str(tmp_path / "second")])
    return packages_here.collect(found, tmp_path / "conda-meta")


def commands(here: packages_here.Here) -> list[list[str]]:
    return read_recipe(here.recipe(), here.base, Kind.DOCKERFILE, "docker").commands()


def test_packages_have_versions_and_local_packages_are_left_out(
    tmp_path: Path,
) -> None:
    package(tmp_path / "first", "numpy", "1.26.4")
    package(tmp_path / "second", "numpy", "1.0")
    package(tmp_path / "second", "Zebra", "2")
    package(tmp_path / "second", "pip", "25.1")
    editable = {"url": "file:///home/ada/mine", "dir_info": {"editable": True}}
    package(tmp_path / "first", "mine", "0.1", direct_url_json=json.dumps(editable))
    package(tmp_path / "first", "broken", "0.2", direct_url_json="{")
    here = collected(tmp_path)
    assert here.left_out == ("mine",)
    assert here.pip == ("broken==0.2", "numpy==1.26.4", "Zebra==2")
    assert here.base == f"python:{here.python}-slim"


def test_conda_packages_are_installed_by_conda(tmp_path: Path) -> None:
    package(tmp_path / "first", "scipy", "1.11", INSTALLER="conda\n")
    package(tmp_path / "first", "extra", "3", INSTALLER="pip\n")
    meta = tmp_path / "conda-meta"
    meta.mkdir()
    for name, asked in (("scipy", True), ("libblas", False), ("python", True)):
        spec = name if asked else None
        known = {"name": name, "version": "1.11", "requested_spec": spec}
        (meta / f"{name}-1.11-0.json").write_text(json.dumps(known))
    (meta / "history").write_text("")
    (meta / "odd.json").write_text("[]")
    here = collected(tmp_path)
    assert (here.conda, here.pip) == (("scipy=1.11",), ("extra==3",))
    assert here.base.startswith("continuumio/miniconda3")
    (conda, _), (pip,) = commands(here)
    assert conda == f"conda install -y python={here.python} scipy=1.11"
    assert pip.endswith(" extra==3")


def test_current_python_yields_a_recipe() -> None:
    here = packages_here.read()
    assert any(one.startswith("msgspec==") for one in here.pip)
    assert not any(one.lower().startswith(("jupyter-slurm", "jupyter_slurm")) for one in here.pip)
    assert commands(here)
