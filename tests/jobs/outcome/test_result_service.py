"""Files of variables between clients, agent and transport."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_slurm import places
from jupyter_slurm.jobs.outcome.result_service import remove_old_files


def test_old_variables_stay_as_long_as_their_job_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    for name in ("aaaaaaaa.vars", "aaaaaaaa.params.vars", "bbbbbbbb.vars", "bbbbbbbb.params.json"):
        path = places.spool_dir() / name
        path.touch()
        os.utime(path, (0, 0))
    remove_old_files({"aaaaaaaa.vars", "aaaaaaaa.params.vars"})
    left = sorted(path.name for path in places.spool_dir().iterdir())
    assert left == ["aaaaaaaa.params.vars", "aaaaaaaa.vars"]
