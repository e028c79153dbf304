"""Parts of the JupyterLab extension that an administrator disables in page_config.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.ui.lab import Lab, at_rest, running_lab

PARTS = (
    "card",
    "commands",
    "files",
    "job",
    "kernels",
    "labs",
    "model",
    "running",
    "sidebar",
    "submit",
    "terminals",
    "welcome",
)
ACTIVE = """parts => jupyterapp.restored.then(
  () => parts.filter(part => jupyterapp.isPluginActivated(`jupyter-slurm:${part}`)))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of Jupyter's configuration for all users."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "labconfig").mkdir()
    return folder


@pytest.fixture(scope="module")
def lab(lab_home: tuple[Path, dict[str, str]], site: Path) -> Iterator[Lab]:
    home, env = lab_home
    with running_lab({**env, "JUPYTER_CONFIG_PATH": str(site)}, home / "off") as started:
        yield started


def opened_without(page: Page, lab: Lab, site: Path, *disabled: str) -> list[str]:
    """Open JupyterLab with these extensions or plugins disabled; return our active plugins."""
    settings = {
        "disabledExtensions": dict.fromkeys(disabled, True),
        "exposeAppInBrowser": True,
    }
    (site / "labconfig" / "page_config.json").write_text(json.dumps(settings))
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    active: list[str] = page.evaluate(ACTIVE, PARTS)
    return active


@pytest.mark.own_page
def test_each_part_of_the_extension_can_be_disabled_separately(
    page: Page, lab: Lab, site: Path
) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    assert opened_without(page, lab, site) == [*PARTS]
    for part in PARTS:
        if part != "model":  # the other plugins need it
            left = opened_without(page, lab, site, f"jupyter-slurm:{part}")
            assert left == [one for one in PARTS if one != part]
    assert errors == []


@pytest.mark.own_page
def test_disabled_extension_does_not_change_jupyterlab(page: Page, lab: Lab, site: Path) -> None:
    assert opened_without(page, lab, site, "jupyter-slurm") == []
    expect(page.get_by_role("tab", name="Slurm")).to_have_count(0)
    expect(page.get_by_role("main")).not_to_contain_text("Slurm")
