"""The history without accounting, and Slurm's own commands. `test_accounting.py` tests the history
with accounting."""

from __future__ import annotations

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import JobState
from tests.jobs.conftest import Site


def test_history_is_empty_without_accounting(site: Site) -> None:
    site.run("1")
    assert site.service.history() == []


def test_profile_can_disable_slurm_commands(site: Site) -> None:
    assert site.service.command(["squeue", "--version"]).returncode == 0
    site.edit_profile(allow_commands=False)
    with pytest.raises(RequestError, match="does not allow"):
        site.service.command(["squeue", "--version"])
    assert site.run("1").state is JobState.COMPLETED
