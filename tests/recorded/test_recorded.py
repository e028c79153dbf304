"""Comparison of submissions, help texts and generated pages with their recorded versions.

A failed test shows a change. If the change is intended, record it with the command in the message.
"""

from __future__ import annotations

from functools import cache

import pytest

from jupyter_slurm.wire import JobKind
from tests.recorded import help_texts, reference, sites, submitted

_HINT = "Record an intended change with: python -m tests.recorded."
_RECORDED = {path.stem: path for path in sorted(submitted.FOLDER.iterdir())}


@cache
def sent() -> dict[str, str]:
    return dict(submitted.texts(submitted.digest))


def test_every_kind_of_job_has_a_recorded_spec() -> None:
    assert {*submitted.OF_KIND} == {*JobKind}, "Add a spec of each kind to submitted.py."


def test_every_job_is_recorded() -> None:
    assert set(sent()) == set(_RECORDED), f"{_HINT}submitted"


@pytest.mark.parametrize("name", _RECORDED)
def test_submission_matches_the_recorded_submission(name: str) -> None:
    assert sent()[name] == _RECORDED[name].read_text(encoding="utf-8"), f"{_HINT}submitted"


def test_help_texts_match_the_recorded_help_texts() -> None:
    recorded = help_texts.FILE.read_text(encoding="utf-8")
    assert help_texts.whole() == recorded, f"{_HINT}help_texts"


def test_reference_pages_match_the_code() -> None:
    for path, text in reference.pages().items():
        page = reference.FOLDER / path
        assert page.read_text(encoding="utf-8") == text, f"{_HINT}reference"


def test_site_pages_match_their_notebooks() -> None:
    assert sorted(path.stem for path in sites.FOLDER.glob("*.md")) == sites.names(), f"{_HINT}sites"
    for name in sites.names():
        page = (sites.FOLDER / f"{name}.md").read_text(encoding="utf-8")
        assert page == sites.page(name), f"{_HINT}sites"
