"""Shells with the magics loaded, over an Api in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.magics.fake import FakeApi
from tests.magics.shell import Shell, make_shell


@pytest.fixture
def jupyter_dirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use empty Jupyter folders and a named notebook."""
    for name in ("DATA", "CONFIG", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "cell.ipynb"))
    return tmp_path


@pytest.fixture
def api(jupyter_dirs: Path) -> Iterator[FakeApi]:
    made = FakeApi(jupyter_dirs)
    yield made
    made.close()


@pytest.fixture
def shell(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Yield a shell like that of a notebook."""
    for made in make_shell(monkeypatch, notebook=True):
        made.state.agent = api
        yield made
        quiet(made, api)


@pytest.fixture
def terminal(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Yield a shell like that of a terminal."""
    for made in make_shell(monkeypatch, notebook=False):
        made.state.agent = api
        yield made
        quiet(made, api)


def quiet(shell: Shell, api: FakeApi) -> None:
    """End all jobs, so that no card of this test changes during the next test."""
    for job in api.jobs():
        shell.state.live.drop(job.id)
