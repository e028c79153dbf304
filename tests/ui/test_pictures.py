"""The pictures of docs/pictures. CONTRIBUTING explains how to renew them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import FloatRect, Locator, Page, ViewportSize, expect

from tests.ui.lab import Lab, Notebook
from tests.ui.looks import SCREENSHOTS, are_lines, shown_themes
from tests.ui.side import Sbatch, jobs, row

_FOLDER = SCREENSHOTS / "docs"
_SIZE: ViewportSize = {"width": 1280, "height": 760}
_NAME = "fit.ipynb"
_CELLS = (
    "%load_ext jupyter_slurm",
    "rates = [0.1, 0.3, 1.0]",
    """%%slurm --gpus 1 --image python:3.11 --time 30m --in rates --out losses --name fit
import matplotlib.pyplot as plt
from tqdm import tqdm

losses = {r: [r / (r + step) for step in tqdm(range(100))] for r in rates}
plt.figure(figsize=(6, 2))
for rate, loss in losses.items():
    plt.plot(loss, label=f"rate {rate}")
plt.legend()
print("best loss", min(loss[-1] for loss in losses.values()))""",
    "losses[0.1][-1]",
)

_SWEEP = """%%slurm --name tries --sweep rate=0.1,1.0 --sweep seed=range(20) --out loss
import os, time
while rate == 1.0 and not os.path.exists({gate!r}):
    time.sleep(0.05)
if seed == 7:
    raise ValueError("the loss is not finite")
loss = rate * seed"""


@pytest.fixture
def notebook(page: Page, lab: Lab, sbatch: Sbatch) -> Notebook:
    """Open a notebook, with two jobs from a terminal. The second job waits for the first."""
    page.set_viewport_size(_SIZE)
    lab.write(_NAME, _CELLS)
    sbatch("nightly-train", "--gres=gpu:1", "-t", "2:00:00")
    sbatch("sweep", "-a", "1-20", "--gres=gpu:2", "-t", "8:00:00")
    return Notebook(page, lab, _NAME)


def test_pictures_of_the_docs_are_taken(page: Page, notebook: Notebook) -> None:
    notebook.run(0, 1, 2, 3)
    page.get_by_role("tab", name="Slurm").click()
    expect(row(page, "nightly-train")).to_have_accessible_name(re.compile("running"))
    expect(row(page, "sweep")).to_have_accessible_name(re.compile("waiting"))
    notebook.ended(3)
    expect(notebook.card(2)).to_contain_text("done")
    expect(notebook.output(2).locator("img")).to_be_visible()
    are_lines(jobs(page).get_by_role("row"))
    _take(page, "notebook")

    notebook.card(2).get_by_role("button", name="Open").click()
    panel = page.get_by_role("log", name="Output")
    expect(panel).to_contain_text("best loss")
    _take(page, "job", panel)

    page.get_by_role("button", name="Queue", exact=True).click()
    queue = page.get_by_role("grid", name="Queue \N{EN DASH} local")
    expect(queue.get_by_role("row").filter(has_text="sweep")).to_be_visible()
    _take(page, "queue", queue)

    page.get_by_role("button", name="Submit…", exact=True).click()
    form = page.get_by_role("form", name="Slurm job")
    form.get_by_label("Code").fill("import socket\n\nprint('hello from', socket.gethostname())")
    form.get_by_label("Image").fill("python:3.11")
    expect(form.get_by_text("CPU-hour")).to_be_visible()
    _take(page, "form", form)


def test_picture_of_a_sweep_shows_its_grid(
    opened: Callable[[Sequence[str]], Notebook], page: Page, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    page.set_viewport_size(_SIZE)
    notebook = opened([_SWEEP.format(gate=str(gate))])
    notebook.run(0, 1)
    card = notebook.card(1)
    for count in ("done 19", "failed 1", "running 8", "waiting 12"):
        expect(card.get_by_role("button", name=count)).to_be_visible()
    told = page.get_by_role("tooltip")
    for theme in shown_themes(page):
        card.get_by_role("listbox", name="Tasks").hover(position={"x": 7 * 20 + 10, "y": 10})
        expect(told).to_contain_text("ValueError")
        around, below = card.bounding_box(), told.bounding_box()
        assert around is not None
        assert below is not None
        clip = FloatRect(
            x=around["x"] - 8,
            y=around["y"] - 8,
            width=around["width"] + 16,
            height=below["y"] + below["height"] - around["y"] + 16,
        )
        page.screenshot(path=_path("sweep", theme), clip=clip)
        page.mouse.move(0, 0)
        expect(told).to_have_count(0)
    gate.touch()


def _take(page: Page, name: str, *shown: Locator) -> None:
    """Take a picture in each theme, once no pop-up covers the page."""
    for one in shown:
        expect(one).to_be_in_viewport()
    expect(page.locator(".Toastify__toast")).to_have_count(0)
    for theme in shown_themes(page):
        page.screenshot(path=_path(name, theme))


def _path(name: str, theme: str) -> Path:
    return _FOLDER / (f"{name}.png" if theme == "light" else f"{name}-dark.png")
