"""`jupyter slurm image …`, over an Api in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_slurm.cli import main
from tests.magics.fake import FakeApi


class Run:
    """Runner of command lines over `api`."""

    def __init__(self, api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
        self.api = api
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        try:
            code = main(["image", *words], lambda: self.api)
        except SystemExit as exc:
            code = int(exc.code or 0)
        return code, *self._capsys.readouterr()


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    monkeypatch.delenv("JUPYTER_SLURM_CLUSTER", raising=False)
    monkeypatch.chdir(tmp_path)
    api = FakeApi(tmp_path)
    yield Run(api, capsys)
    api.close()


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that sets standard input to something that is not a terminal."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_image_is_built_from_a_recipe_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "recipe").write_text("pip install x\n")
    code, out, _ = run("build", "mine", "recipe", "--from", "base", "--cluster", "other")
    assert (code, out) == (0, "making it\n")
    [spec] = run.api.image_specs
    assert (spec.name, spec.base, spec.cluster) == ("mine", "base", "other")
    assert (spec.recipe, spec.folder) == ("pip install x\n", str(tmp_path))
    assert run("build", "mine", "recipe", "--from", "base")[:2] == (
        0,
        "Image mine exists: /images/mine\n",
    )


def test_image_is_built_from_standard_input(run: Run, typed: Callable[[str], None]) -> None:
    typed("FROM x\n")
    assert run("build", "mine")[0] == 0
    assert run.api.image_specs[0].recipe == "FROM x\n"


def test_images_are_pulled_listed_and_removed(run: Run) -> None:
    assert run("ls")[:2] == (
        0,
        "No images yet. Build one with `jupyter slurm image build` or %%slurm_image.\n",
    )
    assert run("pull", "ubuntu:22.04", "--detach")[0] == 0
    assert run.api.image_specs[0].recipe is None
    assert "ubuntu:22.04" in run()[1]
    assert json.loads(run("ls", "--json")[1])[0]["origin"] == "pulled"
    assert run("rm", "ubuntu:22.04")[:2] == (0, "ubuntu:22.04: removed\n")
    assert run("rm", "ubuntu:22.04")[0] == 1
    assert run("pull", "loaded", "--detach")[0] == 0
    assert "loaded: removed. Docker or Podman on n1, n2 still stores" in run("rm", "loaded")[1]
