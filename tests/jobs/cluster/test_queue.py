"""The history where nothing can be told; of what accounting tells: `test_accounting.py`."""

from __future__ import annotations

import pytest

from jupyter_slurm.errors import RequestError
from tests.jobs.conftest import Site


def test_without_accounting_there_is_no_history(site: Site) -> None:
    site.run("1")
    assert site.service.history() == []


@pytest.mark.parametrize("days", [0.0, -1.0, 1e9, float("nan")])
def test_a_history_of_no_time_or_of_ages_is_refused(site: Site, days: float) -> None:
    with pytest.raises(RequestError, match="days"):
        site.service.history(days=days)
