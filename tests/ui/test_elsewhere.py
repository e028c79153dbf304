"""A notebook with cards where nothing of ours runs: nbconvert's page, and one without styles, as
GitHub shows it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook, new_output
from playwright.sync_api import Page, expect

from jupyter_slurm.views.card import bundle
from jupyter_slurm.wire import Job, JobKind, JobState
from tests.specs import known
from tests.ui.looks import SCREENSHOTS

NOW_S = time.time()
HOSTILE = "<script>document.title='mine'</script>"


def job(**fields: Any) -> Job:
    told: dict[str, Any] = {
        "id": "a2b4c6d7",
        "cluster": "arandu",
        "name": HOSTILE,
        "kind": JobKind.CELL,
        "state": JobState.RUNNING,
        "slurm_id": "123",
        "created_s": NOW_S - 300,
        "state_since_s": NOW_S - 200,
        "started_s": NOW_S - 200,
        "limit_s": 600,
        "nodes": ("n1",),
        "partition": "gpu",
        "gpus": 2,
    }
    return known(**{**told, **fields})


JOBS = (
    job(),
    job(state=JobState.PENDING, started_s=None, why="It waits for free GPUs.", nodes=()),
    job(state=JobState.COMPLETED, ended_s=NOW_S - 10, delivered=True),
    job(state=JobState.FAILED, ended_s=NOW_S - 10, exit_code=3, why="The program failed."),
)


def exported(theme: str) -> str:
    """What nbconvert makes of a notebook with a card in each state."""
    cells = []
    for one in JOBS:
        output = new_output("display_data", bundle(one, NOW_S))
        cells.append(new_code_cell("%%slurm\n1", outputs=[output], execution_count=1))
    exporter = HTMLExporter(theme=theme)
    html: str = exporter.from_notebook_node(new_notebook(cells=cells))[0]
    return html


def without_styles(html: str) -> str:
    [body] = re.findall("<body.*</body>", html, re.DOTALL)
    return re.sub(r' (style|class)="[^"]*"', "", body)


@pytest.mark.parametrize("seen", ["light", "dark", "github"])
def test_a_card_is_a_plain_table(page: Page, tmp_path: Path, seen: str) -> None:
    shown = without_styles(exported("light")) if seen == "github" else exported(seen)
    (tmp_path / "notebook.html").write_text(shown, encoding="utf-8")
    page.goto((tmp_path / "notebook.html").as_uri())
    cards = page.get_by_role("table")
    expect(cards).to_have_count(len(JOBS))
    for card, words in zip(
        cards.all(),
        ("running since", "It waits for free GPUs.", "done", "The program failed."),
        strict=True,
    ):
        expect(card).to_contain_text(re.compile(words, re.IGNORECASE))
        expect(card).to_contain_text(HOSTILE)
        expect(card.locator("script")).to_have_count(0)
    assert page.title() != "mine"
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"elsewhere-{seen}.png", full_page=True)
