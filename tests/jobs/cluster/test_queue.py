"""The history without accounting, and a site without Slurm's own commands; `test_accounting.py` has
the rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.cluster import queue
from jupyter_slurm.profiles.profile import ClusterProfile
from tests.jobs.conftest import Site


def test_history_is_empty_without_accounting(site: Site) -> None:
    site.run("1")
    assert site.service.history() == []


def test_profile_can_forbid_slurms_own_commands() -> None:
    profile = ClusterProfile(name="c", allow_commands=False, origin="here.toml")
    cluster: Any = SimpleNamespace(name="c", profile=profile)  # it cannot run anything
    with pytest.raises(RequestError, match="here"):
        queue.command(cluster, ["squeue"])
