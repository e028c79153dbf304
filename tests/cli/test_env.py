"""`jupyter slurm env …`, over an Api in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_slurm.cli import main
from jupyter_slurm.wire import InstalledEnvironment
from tests.magics.fake import FakeApi

MADE = InstalledEnvironment(
    id="4aff1919a7",
    packages=("polars", "numpy<2"),
    file="r.txt",
    tool="uv",
    python="3.11.2",
    path="/jobs/envs/4aff1919a7",
    size_mib=175.4,
    made_s=1e9,
    used_s=1e9,
)


@pytest.fixture
def api(tmp_path: Path) -> FakeApi:
    api = FakeApi(tmp_path)
    api.installed = [MADE]
    return api


def run(api: FakeApi, *words: str) -> int:
    return main(["env", *words], lambda: api)


def test_environments_are_listed(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(api) == 0
    shown = capsys.readouterr().out
    for word in (
        "4aff1919a7",
        "r.txt, polars, numpy<2",
        "uv, Python 3.11.2",
        "175 MiB",
        "/jobs/envs",
    ):
        assert word in shown
    assert run(api, "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["id"] == MADE.id


def test_environments_are_removed_by_id_or_if_unused(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(api, "rm", MADE.id) == 0
    assert capsys.readouterr().out == "4aff1919a7: removed\n"
    assert run(api, "rm", "--unused", "30d") == 0
    assert api.removals == [([MADE.id], None), ([], 30 * 86400)]
    assert run(api, "rm") != 0
    assert run(api, "rm", "--unused", "soon") != 0
    assert len(api.removals) == 2
