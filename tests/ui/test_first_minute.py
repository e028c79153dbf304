"""The first minute of somebody who has no cluster: found by labels alone, on a real Slurm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page, expect

from tests.cluster.plugin import ROOT, jupyter_homes, kept
from tests.ui.lab import Lab, Notebook, at_rest, running_lab
from tests.ui.looks import fits, look, look_as_it_is
from tests.ui.newcomer import PATIENCE_MS, Newcomer

_NOTHING = "No cluster yet"


@pytest.fixture(scope="module")
def lab(port_apart: int) -> Iterator[Lab]:
    """A JupyterLab of a user without any cluster; what is started in it is gone at the end."""
    home = Path(tempfile.mkdtemp(prefix="ui-"))
    ours = {key: text for key, text in os.environ.items() if not key.startswith(("SLURM", "JPY_"))}
    env = ours | jupyter_homes(home) | {"IPYTHONDIR": str(home / "ipython")}
    env["PYTHONPATH"] = str(ROOT)
    env.pop("JUPYTER_SLURM_AGENT", None)
    with kept(home, None):
        with running_lab(env, home, port_apart) as running:
            yield running
        stop = [sys.executable, "-m", "jupyter_slurm", "agent", "stop"]
        subprocess.run(stop, env=env, check=True, timeout=60, capture_output=True)
    shutil.rmtree(home)


@pytest.fixture
def newcomer(page: Page, lab: Lab) -> Newcomer:
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    return Newcomer(page)


def test_without_a_cluster_every_view_says_so_and_leads_to_the_ways_to_one(
    newcomer: Newcomer, page: Page
) -> None:
    expect(page.get_by_role("button", name="Slurm: no cluster yet")).to_be_visible()
    main = page.locator("#jp-main-dock-panel")
    for view in ("Jupyter on a node", "New remote kernel", "Slurm job"):
        page.keyboard.press("ControlOrMeta+Shift+L")
        page.locator(".jp-LauncherCard").filter(has_text=view).last.click()
        expect(main.get_by_text(_NOTHING).last).to_be_visible()
    for view in ("Slurm queue", "Slurm nodes", "Remote kernels…"):
        page.keyboard.press("ControlOrMeta+Shift+C")
        page.get_by_role("textbox", name="SEARCH").fill(view)
        page.keyboard.press("Enter")
        expect(main.get_by_role("tab").filter(has_text=view.rstrip("…"))).to_be_visible()
        expect(main.get_by_text(_NOTHING).last).to_be_visible()
    for view in ("Slurm job", "Jupyter on a node", "New remote kernel", "Slurm queue", "Remote"):
        main.get_by_role("tab").filter(has_text=view).first.click()
        panel = main.get_by_role("tabpanel").filter(visible=True)
        expect(panel.get_by_role("button", name="Start one on this machine")).to_be_visible()
        look_as_it_is(page, f"no-cluster-{view.split()[-1]}")
        panel.get_by_role("button", name="Connect to a cluster…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Host")).to_be_focused()
        dialog.get_by_role("button", name="Cancel").click()
    sidebar = page.get_by_role("region", name="Slurm")
    for way in ("Connect to a cluster…", "Start one on this machine", "Open the quickstart"):
        expect(sidebar.get_by_role("button", name=way)).to_be_visible()
    look(page, "welcome")
    fits(page, sidebar.locator(".jp-slurm-Welcome"))


def test_a_newcomer_comes_from_no_cluster_to_a_finished_job_without_a_terminal(
    newcomer: Newcomer,
) -> None:
    sidebar = newcomer.open_sidebar()
    newcomer.press(sidebar, "Start one on this machine")
    newcomer.run_first_job(sidebar, "print('hello from a job')", "hello from a job")


def test_the_quickstart_runs_to_its_end_with_nothing_more_installed(
    newcomer: Newcomer, page: Page, lab: Lab
) -> None:
    page.keyboard.press("ControlOrMeta+Shift+C")
    page.get_by_role("textbox", name="SEARCH").fill("Open the quickstart")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="A cell is a Slurm job")).to_be_visible()
    notebook = Notebook(page, lab, "quickstart.ipynb")
    notebook.run_all()
    expect(page.get_by_text("2 CPUs in job").last).to_be_visible(timeout=PATIENCE_MS)
    # JupyterLab takes cells that are out of sight out of the page: the file has all outputs.
    text = nbformat.writes(notebook.saved())
    assert "Hello from" in text
    assert '"31"' in text
