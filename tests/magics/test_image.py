"""`%%slurm_image` and `%slurm image`, over an Api in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.magics.fake import FakeApi
from tests.magics.shell import Shell


def test_unchanged_image_is_not_built_again(shell: Shell, api: FakeApi) -> None:
    cell = "%%slurm_image mine --from base --partition gpu\npip install x\n"
    first = shell.run(cell)
    [spec] = api.image_specs
    assert (spec.name, spec.base, spec.recipe) == ("mine", "base", "pip install x\n")
    assert dict(spec.options) == {"partition": "gpu"}
    assert "making it" in first.out
    assert "Image mine exists: /images/mine" in shell.run(cell).out


def test_files_of_a_recipe_are_in_the_notebooks_folder(
    shell: Shell, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = "%%slurm_image {} --from base\npip install x\n"
    shell.run(cell.format("one"))
    monkeypatch.setenv("JPY_SESSION_NAME", "only its name.ipynb")
    shell.run(cell.format("two"))
    assert [one.folder for one in api.image_specs] == [str(tmp_path), str(Path.cwd())]


def test_failed_build_fails_the_cell(shell: Shell, api: FakeApi) -> None:
    api.making = "1 / 0"
    ran = shell.run("%%slurm_image mine --from base\npip install x\n")
    assert "ZeroDivisionError" in str(ran.error)


def test_images_are_listed_pulled_and_removed(shell: Shell, api: FakeApi) -> None:
    shell.run("%slurm image pull ubuntu:22.04")
    assert (api.image_specs[0].base, api.image_specs[0].recipe) == ("ubuntu:22.04", None)
    listed = shell.run("t = %slurm image\nprint(t.rows[0]['Image'])")
    assert listed.out == "ubuntu:22.04\n"
    shell.run("%slurm image rm ubuntu:22.04")
    assert api.made == {}
