"""The grid of a sweep's tasks, in its card and in the panel of its job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.ui.lab import Notebook
from tests.ui.looks import look

_SWEEP = """%%slurm --name tries --sweep rate=0.1,0.3 --sweep seed=range(10) --out loss
import os, time
print("seed", seed, "at", rate)
if seed == 7 and not os.path.exists({fixed!r}):
    raise ValueError("no loss")
while seed == 9 and not os.path.exists({gate!r}):
    time.sleep(0.05)
loss = rate * seed"""


def test_sweep_grid_works_by_pointer_and_keyboard_and_retries_failed_tasks(
    opened: Callable[[Sequence[str]], Notebook], page: Page, tmp_path: Path
) -> None:
    gate, fixed = tmp_path / "gate", tmp_path / "fixed"
    notebook = opened([_SWEEP.format(gate=str(gate), fixed=str(fixed))])
    notebook.run(0, 1)
    card = notebook.card(1)
    for count in ("done 16", "failed 2", "running 2"):
        expect(card.get_by_role("button", name=count)).to_be_visible()
    grid = card.get_by_role("listbox", name="Tasks")
    # Cells are 20 pixels wide, so that 20 are in one row.
    grid.hover(position={"x": 7 * 20 + 10, "y": 10})
    told = page.get_by_role("tooltip")
    expect(told).to_contain_text("Task 7 failed")
    expect(told).to_contain_text("rate = 0.1seed = 7ValueError: no loss")
    look(page, "sweep", card)

    _press(grid, "End")
    expect(_task(grid)).to_have_text("Task 19 running, rate = 0.3, seed = 9, n1")
    _press(grid, "ArrowLeft", "ArrowLeft", "Enter")
    log = page.get_by_role("log", name="Output")
    expect(log).to_contain_text("seed 7 at 0.3")
    expect(log).to_contain_text("ValueError")
    page.get_by_role("tab", name="Tasks", exact=True).click()
    panel = page.get_by_role("tabpanel")
    look(page, "sweep-panel", panel.get_by_role("listbox", name="Tasks"))
    panel.get_by_role("button", name="running 2").click()
    _press(panel.get_by_role("listbox", name="Tasks"), "Home", "Enter")
    expect(log).to_contain_text("seed 9 at 0.1")

    gate.touch()
    fixed.touch()
    page.get_by_role("group", name="Actions").get_by_role("button", name="Retry").click()
    page.get_by_role("tab", name="Tasks", exact=True).click()
    expect(panel.get_by_role("button", name="done 20")).to_be_visible()
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)


def _press(grid: Locator, *keys: str) -> None:
    grid.focus()
    for key in keys:
        grid.press(key)


def _task(grid: Locator) -> Locator:
    """Return the task at the keyboard's cursor."""
    return grid.get_by_role("option")
