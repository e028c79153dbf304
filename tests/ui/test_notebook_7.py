"""Jupyter Notebook 7 in place of JupyterLab: cards, form and views beside its document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.ui.lab import Lab, running_lab
from tests.ui.looks import look
from tests.ui.side import jobs

_LINGER = """%%slurm --detach --name seven
import os, time
print("step 0", flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.05)"""


@pytest.fixture(scope="module")
def lab(lab_home: tuple[Path, dict[str, str]]) -> Iterator[Lab]:
    home, env = lab_home
    with running_lab(env, home / "7", front_end="notebook") as started:
        yield started


_OWN = re.compile(r"undefined \(reading '(schema|last_modified)'\)$")
"""Messages that Notebook prints, even without extensions: 7.6 at each start, 7.2 for a notebook
without a checkpoint."""


@pytest.fixture
def complaints(page: Page) -> list[str]:
    """Return the errors in the page's console."""
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda one: said.append(one.text) if one.type == "error" else None)
    return said


@pytest.mark.own_page
def test_notebook_7_has_live_cards_and_the_form(
    lab: Lab, page: Page, tmp_path: Path, complaints: list[str]
) -> None:
    gate = tmp_path / "gate"
    linger = _LINGER.format(gate=str(gate))
    path = lab.write("seven.ipynb", ["%load_ext jupyter_slurm", linger, "print(6 * 7)"])
    page.goto(f"{lab.url}notebooks/{path.name}?token={lab.token}")
    # The logo appears with the kernel. No other sign shows that cells can run.
    expect(page.get_by_role("banner").get_by_role("img", name="Python 3")).to_be_visible()
    cells = page.locator(".jp-Notebook .jp-CodeCell")
    for at in (0, 1):
        cells.nth(at).locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
    card = cells.nth(1).get_by_role("region", name="Job seven")
    expect(card).to_contain_text("running")
    card.get_by_role("button", name="Log", exact=True).click()
    expect(card.get_by_role("log", name="Log")).to_contain_text("step 0")
    card.get_by_role("button", name="Open", exact=True).click()
    panel = page.get_by_role("log", name="Output")
    expect(panel).to_contain_text("step 0")
    gate.touch()
    expect(card).to_contain_text("done")

    cells.nth(2).locator(".cm-content").click()
    page.get_by_role("button", name="Run this cell or this notebook on Slurm").click()
    page.get_by_role("menuitem", name="Run this cell on Slurm").click()
    form = page.get_by_role("form", name="Slurm job")
    expect(form.get_by_label("The cell")).to_contain_text("print(6 * 7)")
    expect(form.get_by_text("Expected to start")).to_be_visible()
    look(page, "notebook-7-submit", form)
    form.get_by_role("button", name="Submit").click()
    expect(cells.nth(2)).to_contain_text("%%slurm --cluster local")
    expect(cells.nth(2).locator(".jp-Cell-outputArea")).to_contain_text("42")
    expect(cells.nth(2).locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"))
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Shift+c")
    page.locator(".lm-CommandPalette").get_by_role("textbox").fill("show slurm jobs")
    page.get_by_role("menuitem", name="Show Slurm jobs").click()
    expect(jobs(page).get_by_text("seven").first).to_be_visible()
    assert [one for one in complaints if not _OWN.search(one)] == []
