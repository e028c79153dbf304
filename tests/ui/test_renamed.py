"""A notebook keeps its jobs when it is renamed."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.ui.lab import Lab, Notebook
from tests.ui.side import row

_KEPT = "%%slurm --name kept\nimport os, time\nwhile not os.path.exists({gate!r}): time.sleep(0.05)"


class NewNotebook(Notebook):
    """A notebook made in the launcher."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.locator('.jp-LauncherCard[data-category="Notebook"]').first.click()
        self.shown()

    def write(self, at: int, source: str) -> None:
        self.cell(at).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)

    def runs(self, at: int, source: str) -> None:
        self.write(at, source)
        self.page.keyboard.press("Shift+Enter")


def test_a_renamed_notebook_keeps_its_jobs_and_its_cells_run_once(
    opened_lab: Page, lab: Lab, tmp_path: Path
) -> None:
    page, gate = opened_lab, tmp_path / "gate"
    notebook = NewNotebook(page)
    notebook.runs(0, "%load_ext jupyter_slurm")
    notebook.runs(1, _KEPT.format(gate=str(gate)))
    expect(notebook.card(1)).to_contain_text("running")
    notebook.interrupt()
    expect(notebook.output(1)).to_contain_text("KeyboardInterrupt")

    page.keyboard.press("Control+S")  # JupyterLab asks for a name at the first time
    asked = page.get_by_role("dialog")
    asked.get_by_role("textbox").fill("trial.ipynb")
    asked.get_by_role("button", name=re.compile("Rename")).click()
    tab = page.get_by_role("main").get_by_role("tab", name="trial.ipynb")
    expect(tab).to_be_visible()

    notebook.runs(2, "%%slurm --name next\n1")
    expect(notebook.card(2)).to_contain_text("done")
    assert (lab.notebook_of("kept"), lab.notebook_of("next")) == ("trial.ipynb", "trial.ipynb")

    notebook.restart()
    notebook.run(0, 1)
    expect(notebook.output(1)).to_contain_text("attached to it")
    assert lab.notebook_of("kept") == "trial.ipynb", "it is the only job"

    page.get_by_role("tab", name="Slurm").first.click()
    side = page.get_by_role("region", name="Slurm")
    notebook.cell(2).locator(".cm-content").click()
    row(side, "kept").click(button="right")
    page.get_by_role("menuitem", name="Go to its cell").click()
    expect(notebook.cell(1)).to_have_class(re.compile("jp-mod-active"))
    gate.touch()
    expect(notebook.card(1)).to_contain_text("done")
