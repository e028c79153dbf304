"""`%%slurm_image` and `%slurm image`, over an Api in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.error import UsageError

from tests.magics.fake import FakeApi
from tests.magics.shell import Shell


def test_an_image_is_made_shown_and_not_made_again(shell: Shell, api: FakeApi) -> None:
    cell = "%%slurm_image mine --from base --partition gpu\npip install x\n"
    first = shell.run(cell)
    [spec] = api.image_specs
    assert (spec.name, spec.base, spec.recipe) == ("mine", "base", "pip install x\n")
    assert dict(spec.options) == {"partition": "gpu"}
    assert "making it" in first.out
    assert "nothing has changed: /images/mine" in shell.run(cell).out


def test_the_files_beside_the_cell_are_those_of_the_notebooks_folder(
    shell: Shell, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = "%%slurm_image {} --from base\npip install x\n"
    shell.run(cell.format("one"))
    monkeypatch.setenv("JPY_SESSION_NAME", "only its name.ipynb")
    shell.run(cell.format("two"))
    assert [one.folder for one in api.image_specs] == [str(tmp_path), str(Path.cwd())]


def test_another_folder_can_go_with_the_recipe(
    shell: Shell, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files").mkdir()
    monkeypatch.chdir(tmp_path)
    shell.run("%%slurm_image mine --push files\nFROM x\nCOPY . .\n")
    assert api.image_specs[0].push == str(tmp_path / "files")
    wrong = shell.run("%%slurm_image mine --push nowhere\nFROM x\nCOPY . .\n")
    assert "there is no folder" in str(wrong.error)


def test_a_detached_one_gives_a_handle(shell: Shell, api: FakeApi) -> None:
    shell.run("%%slurm_image mine --from base --detach\npip install x\n")
    assert shell.ip.user_ns["_"].id == api.image_specs[0].id


def test_one_that_fails_fails_the_cell(shell: Shell, api: FakeApi) -> None:
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


def test_a_cell_without_a_name_is_told_the_line_that_is_right(shell: Shell) -> None:
    error = shell.run("%%slurm_image --from python:3.11\nexit 3").error
    assert str(error).startswith("`%%slurm_image` needs NAME.")
    assert "%slurm slurm_image" not in str(error)


@pytest.mark.parametrize("line", ["nonsense", "rm", "ls x", "pull"])
def test_words_that_cannot_be_are_named(shell: Shell, line: str) -> None:
    assert isinstance(shell.run(f"%slurm image {line}").error, UsageError)
