"""A kernel in a job as JupyterLab has it in a browser: what it does there is what a local one does.

`python3` is the local one: what fails with both is JupyterLab's.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.profile import write_profile
from tests.ssh.waiting import wait_until
from tests.ui import apart
from tests.ui.lab import Lab, Notebook
from tests.ui.looks import look_as_it_is

cluster, lab, lab_home = apart.cluster, apart.lab, apart.lab_home

START_MS = 120_000
"""A first cell waits for the job."""
_CELLS = (
    "import ipywidgets\nslider = ipywidgets.IntSlider(value=3)\nslider",
    "print(slider.value)\nvalue_of_mine = 1",
    "",
    "print('y' * 2_000_000)",
    "x = 3\ny = x + 4\nprint(y)",
)


@pytest.fixture(scope="module")
def kernels(cluster: SlurmCluster, lab_home: tuple[Path, dict[str, str]]) -> None:
    """There is one `far`, in a job."""
    told = tomllib.loads(cluster.profile_path.read_text(encoding="utf-8"))
    settings = {**told, "images": None, "python": sys.executable}
    write_profile(Path(cluster.env["JUPYTER_CONFIG_DIR"]), "far", settings)
    add = ("kernel", "add", "--cluster", "far", "--name", "far", "--mem", "1G")
    _, env = lab_home
    argv = [sys.executable, "-m", "jupyter_slurm", *add]
    subprocess.run(argv, env=env, check=True, timeout=60)


@pytest.mark.parametrize("kernel", ["python3", "far"])
@pytest.mark.usefixtures("kernels")
def test_widgets_completion_inspection_large_output_and_the_debugger(
    page: Page, lab: Lab, kernel: str
) -> None:
    name = f"{kernel}.ipynb"
    lab.write(name, _CELLS, kernel)
    notebook = Notebook(page, lab, name)

    notebook.run(0)
    notebook.output(0).get_by_role("slider").focus(timeout=START_MS)
    page.keyboard.press("ArrowRight")
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("4")

    typed = notebook.cell(2).locator(".cm-content")
    typed.click()
    page.keyboard.type("value_of_m")
    expect(notebook.cell(2).locator(".jp-mod-completer-enabled")).to_be_visible()
    # The only thing that fits is offered, or put there at once. JupyterLab may drop an answer that
    # comes while it does something else (a local kernel's, too): one presses the key again.
    offered = page.locator(".jp-Completer-item").filter(has_text="value_of_mine")
    completed = offered.or_(typed.filter(has_text="value_of_mine")).first

    def tried() -> bool:
        page.keyboard.press("Tab")
        with suppress(AssertionError):
            expect(completed).to_be_visible(timeout=15_000)
        return completed.is_visible()

    wait_until(tried)
    if offered.is_visible():
        offered.click()
    expect(typed).to_have_text("value_of_mine")
    page.keyboard.press("Control+a")
    page.keyboard.type("len")
    page.keyboard.press("Shift+Tab")
    expect(page.locator(".jp-Tooltip")).to_contain_text("number of items")
    page.keyboard.press("Escape")

    notebook.run(3)
    notebook.ended(3)
    expect(notebook.output(3)).to_contain_text("y" * 2_000_000)

    page.get_by_role("button", name="Enable Debugger").click()
    line = notebook.cell(4).locator(".cm-breakpoint-gutter .cm-gutterElement").nth(2)
    line.click()
    expect(notebook.cell(4).locator(".cm-breakpoint-icon").last).to_be_visible()
    notebook.run(4)
    expect(page.get_by_role("treeitem", name="x: 3")).to_be_visible()
    look_as_it_is(page, f"kernel-{kernel}-stopped")
    expect(notebook.output(4)).to_have_text("")
    page.get_by_role("button", name="Continue").first.click()
    expect(notebook.output(4)).to_have_text("7")
