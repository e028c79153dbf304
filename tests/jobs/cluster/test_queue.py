"""The history without accounting; `test_accounting.py` has the rest."""

from __future__ import annotations

from tests.jobs.conftest import Site


def test_history_is_empty_without_accounting(site: Site) -> None:
    site.run("1")
    assert site.service.history() == []
