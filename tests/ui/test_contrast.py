"""The views in JupyterLab's high-contrast theme and with forced colours of the system."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.ui.lab import Lab, submit_script
from tests.ui.looks import look_as_it_is
from tests.ui.side import Sbatch, open_sidebar, row

THEMES = "settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"


@pytest.fixture
def high_contrast(lab_home: tuple[Path, dict[str, str]]) -> Iterator[None]:
    """Select JupyterLab's high-contrast theme."""
    settings = lab_home[0] / THEMES
    before = settings.read_text()
    chosen = {"theme": "JupyterLab Dark High Contrast", "adaptive-theme": False}
    settings.write_text(json.dumps(chosen))
    yield
    settings.write_text(before)


@pytest.mark.usefixtures("high_contrast")
def test_every_view_is_readable_in_high_contrast(page: Page, lab: Lab, sbatch: Sbatch) -> None:
    sbatch("runs strongly", "--gpus-per-node=1")
    sidebar = open_sidebar(page, lab)
    expect(page.locator("body")).to_have_attribute(
        "data-jp-theme-name", "JupyterLab Dark High Contrast"
    )
    _, held = submit_script(page, "strongly-held", "#!/bin/sh\nsleep 600\n", hold="")
    sbatch.ids.append(held)
    expect(row(sidebar, "runs strongly")).to_contain_text("1 GPU")
    row(sidebar, "strongly-held").focus()
    page.keyboard.press("Space")

    def shown(name: str) -> None:
        look_as_it_is(page, f"{name}-contrast")
        page.emulate_media(forced_colors="active")
        look_as_it_is(page, f"{name}-forced")
        page.emulate_media(forced_colors="none")

    sidebar.get_by_role("button", name="Queue", exact=True).click()
    grid = page.get_by_role("grid", name="Queue \N{EN DASH} local")
    grid.get_by_role("row").nth(1).click()
    shown("queue")
    sidebar.get_by_role("button", name="Nodes", exact=True).click()
    expect(page.get_by_role("rowheader", name="debug")).to_be_visible()
    shown("nodes")
    row(sidebar, "strongly-held").dblclick()
    page.get_by_role("tab", name="Details", exact=True).click()
    expect(page.get_by_role("rowheader", name="JobId")).to_be_visible()
    shown("job")
