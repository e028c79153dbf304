"""The first minute of a user without a cluster, who knows only labels, on a real Slurm."""

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
from tests.ui.looks import look
from tests.ui.newcomer import PATIENCE_MS, Newcomer


@pytest.fixture(scope="module")
def lab(port_apart: int) -> Iterator[Lab]:
    """Run a JupyterLab for a user without clusters, and purge the clusters that it starts."""
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


def test_new_user_runs_a_job_without_a_cluster_or_terminal(newcomer: Newcomer, page: Page) -> None:
    expect(page.get_by_role("button", name="Slurm: no cluster yet")).to_be_visible()
    sidebar = newcomer.open_sidebar()
    look(page, "welcome")
    newcomer.press(sidebar, "Start a local cluster")
    newcomer.run_first_job(sidebar, "print('hello from a job')", "hello from a job")


def test_quickstart_runs_without_further_packages(newcomer: Newcomer, page: Page, lab: Lab) -> None:
    page.keyboard.press("ControlOrMeta+Shift+C")
    page.get_by_role("textbox", name="SEARCH").fill("Open the quickstart")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="A cell is a Slurm job")).to_be_visible()
    notebook = Notebook(page, lab, "quickstart.ipynb")
    notebook.run_all()
    expect(page.get_by_text("2 CPUs in job").last).to_be_visible(timeout=PATIENCE_MS)
    # JupyterLab removes invisible cells from the page, but the file has all outputs.
    text = nbformat.writes(notebook.saved())
    assert "Hello from" in text
    assert '"31"' in text
