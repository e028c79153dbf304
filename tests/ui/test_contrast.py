"""The views with strong contrast: JupyterLab's own theme for it, and the colours of the system."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.ui.lab import Lab, adopt, running_lab
from tests.ui.looks import look_as_it_is
from tests.ui.side import Sbatch, open_sidebar, row

THEMES = "settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"


@pytest.fixture(scope="module")
def lab(lab_home: tuple[Path, dict[str, str]], port: int) -> Iterator[Lab]:
    """One whose user has chosen the theme of high contrast."""
    home, env = lab_home
    with running_lab(env, home, port) as started:
        chosen = {"theme": "JupyterLab Dark High Contrast", "adaptive-theme": False}
        (home / THEMES).write_text(json.dumps(chosen))
        yield started


def test_every_view_can_be_read_with_strong_contrast(page: Page, lab: Lab, sbatch: Sbatch) -> None:
    sbatch("runs", "--gpus-per-node=1")
    held = sbatch("held", "-H")
    sidebar = open_sidebar(page, lab)
    expect(page.locator("body")).to_have_attribute(
        "data-jp-theme-name", "JupyterLab Dark High Contrast"
    )
    adopt(page, held)
    expect(row(sidebar, "runs")).to_contain_text("1 GPU")
    row(sidebar, "held").focus()
    page.keyboard.press("Space")

    def shown(name: str) -> None:
        look_as_it_is(page, f"{name}-contrast")
        page.emulate_media(forced_colors="active")
        look_as_it_is(page, f"{name}-forced")
        page.emulate_media(forced_colors="none")

    sidebar.get_by_role("button", name="Queue", exact=True).click()
    grid = page.get_by_role("grid", name="Queue of local")
    grid.get_by_role("row").nth(1).click()
    shown("queue")
    sidebar.get_by_role("button", name="Nodes", exact=True).click()
    expect(page.get_by_role("rowheader", name="debug")).to_be_visible()
    shown("nodes")
    row(sidebar, "held").click()
    page.get_by_role("tab", name="Details", exact=True).click()
    expect(page.get_by_role("rowheader", name="JobId")).to_be_visible()
    shown("job")
