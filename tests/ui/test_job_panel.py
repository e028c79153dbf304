"""A job's panel in JupyterLab's main area: log, resources, script and timeline."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.lab import Notebook, at_rest, saves
from tests.ui.looks import look

_CODE = """%%slurm --detach --image python:3.11
import sys, time
print("\\x1b[32mgreen\\x1b[0m <script>alert(1)</script> \\x1b[38;5;208morange\\x1b[0m")
for percent in range(0, 101, 10):
    print(f"\\r{percent} % of it", end="", flush=True)
print()
print("\\x1b[1;33ma warning\\x1b[0m of a tool", file=sys.stderr, flush=True)
class Table:
    def _repr_html_(self):
        return "<table><tr><th>loss</th><td>0.25</td></tr></table><script>bad()</script>"
display(Table())
for step in range(2000):
    print(f"step {step} loss 0.{step:04}")
block = [bytearray(1 << 20) for _ in range(300)]
until = time.time() + 2
while time.time() < until:
    pass
time.sleep(600)"""


_SELECTED = """log => {
    getSelection().selectAllChildren(log);
    const text = getSelection().toString();
    getSelection().removeAllRanges();
    return text;
}"""
_CLOCK = re.compile(r"^\d\d:\d\d:\d\d$")


def _open(notebook: Notebook, at: int = 1, state: str = "running") -> Page:
    """Run all cells. Open a cell's job once it is in that state and its buttons no longer move."""
    page = notebook.page
    notebook.run_all()
    expect(notebook.card(at)).to_contain_text(state)
    notebook.cell(at).get_by_role("button", name="Open").click()
    expect(page.get_by_role("log", name="Output")).to_be_visible()
    page.get_by_role("log", name="Output").click()
    return page


def _show(page: Page, tab: str) -> None:
    page.get_by_role("tab", name=tab, exact=True).click()


def _tell_of_gpus(cluster: SlurmCluster, *busy: float) -> None:
    """Append samples with GPUs to those of the newest job, as if nvidia-smi reported them. They are
    later than the job's own samples, which have no GPUs."""
    files = cluster.folder.glob("**/jobs/*/usage.0.jsonl")
    newest = max(files, key=lambda one: one.stat().st_mtime)
    sizes = {"name": "H100", "memory_mib": 1024, "memory_total_mib": 81920}
    gpus = [{**sizes, "utilisation": one} for one in busy]
    sample = {"time_s": time.time() + 3600, "cpus": 1, "memory_mib": 300, "gpus": gpus}
    with newest.open("a") as file:
        file.write(json.dumps(sample) + "\n")


def test_job_panel_shows_output_resources_script_and_timeline(
    opened: Callable[..., Notebook], cluster: SlurmCluster
) -> None:
    page = _open(opened([_CODE]))
    page.set_viewport_size({"width": 1400, "height": 900})
    log = page.get_by_role("log", name="Output")
    expect(log).to_contain_text("step 1999")
    expect(page.get_by_text("step 1999 loss")).to_be_in_viewport()
    look(page, "job-log-end")
    expect(page.get_by_text("step 1999 loss")).to_be_in_viewport()
    log.focus()
    page.keyboard.press("Home")
    expect(page.get_by_role("button", name="Follow", exact=True)).to_be_visible()
    expect(page.get_by_text("100 % of it", exact=False)).to_be_in_viewport()
    expect(log).not_to_contain_text("90 % of it")
    expect(log).to_contain_text("<script>alert(1)</script>")
    expect(log.get_by_role("cell", name="0.25")).to_be_visible()
    assert not log.locator("script").count()
    written = log.evaluate(_SELECTED)
    page.get_by_label("Times").check()
    expect(log.locator("[data-time]").first).to_have_attribute("data-time", _CLOCK)
    assert log.evaluate(_SELECTED) == written
    _show(page, "Resources")
    expect(page.get_by_role("img", name="CPU cores")).to_be_visible()
    expect(page.get_by_text("CPU efficiency:")).to_be_visible()
    look(page, "job-resources")
    _tell_of_gpus(cluster, 0.9, 0.3)
    gpu = page.get_by_role("figure").filter(has_text="GPU utilization")
    expect(gpu).to_contain_text("60 %")
    _show(page, "Script")
    expect(page.get_by_role("region", name="Batch script")).to_contain_text("#!/bin/bash")
    look(page, "job-script")
    _show(page, "Details")
    expect(page.get_by_role("rowheader", name="JobId")).to_be_visible()
    look(page, "job-details")


def test_job_panel_restores_a_failed_job_with_much_output(
    opened: Callable[..., Notebook],
) -> None:
    code = """%%slurm --detach --image python:3.11
print("the first line")
print(("x" * 79 + "\\n") * 40_000)
raise ValueError("<i>too</i> much")"""
    notebook = opened([code])
    with notebook.page.expect_response(lambda one: saves(one, '"current":"slurm-job:')):
        page = _open(notebook, state="failed")
    log = page.get_by_role("log", name="Output")
    expect(log).to_contain_text("ValueError: <i>too</i> much")
    expect(
        page.get_by_role("region", name="main area content").get_by_title("FAILED", exact=True)
    ).to_be_visible()
    assert not log.locator("i").count()
    page.reload()
    at_rest(page)
    expect(log).to_contain_text("ValueError: <i>too</i> much")
    log.focus()
    page.keyboard.press("Home")
    expect(log).to_contain_text("hidden. Download the full log.")
    expect(log).not_to_contain_text("the first line")
    log.get_by_role("button", name="Load more").click()
    expect(log).to_contain_text("the first line")
    expect(log).not_to_contain_text("hidden. Download the full log.")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert "the first line" in download.value.path().read_text()


_RANKS = """%%slurm --launch mpi --ntasks 3 --image python:3.11
import os
print("I am", os.environ["SLURM_PROCID"])"""


def test_output_of_each_rank_is_folded_in_the_cell_and_in_the_panel(
    opened: Callable[..., Notebook],
) -> None:
    notebook = opened([_RANKS])
    page = notebook.page
    notebook.run_all()
    cell = notebook.cell(1)
    expect(cell.get_by_text("I am 0", exact=True)).to_be_visible()
    fold = cell.get_by_text("Rank 2: 1 line")
    expect(fold).to_be_visible()
    expect(cell.get_by_text("I am 2", exact=True)).to_be_hidden()
    fold.click()
    expect(cell.get_by_text("I am 2", exact=True)).to_be_visible()
    cell.get_by_role("button", name="Open").click()
    log = page.get_by_role("log", name="Output")
    expect(log).to_contain_text("I am 0")
    page.get_by_label("Rank", exact=True).select_option("Rank 1")
    expect(log).to_contain_text("I am 1")
