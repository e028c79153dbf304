"""A job by itself in JupyterLab's main area: its log, what it uses, its script, its life."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.conftest import CHROMIUM, OPTIONS, new_page
from tests.ui.lab import Lab, Notebook, at_rest, saves
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


_FLOOD = """%%slurm --detach --image python:3.11
import time
for step in range(1_000_000):
    print(f"step {step} ".ljust(75, "."), flush=step % 500 == 0)
    if step % 500 == 0:
        time.sleep(0.5)"""
# The first whole line that is seen of the log. One further down would be another where what stands
# above the log takes another line.
_SEEN = """box => {
  const { left, top } = box.getBoundingClientRect();
  const at = document.caretRangeFromPoint(left + 60, top + 20);
  const text = at.startContainer.textContent;
  return text.slice(text.lastIndexOf('\\n', at.startOffset - 1) + 1).split('\\n')[0];
}"""


_SCHEMES: tuple[Literal["dark", "light"], ...] = ("dark", "light")


_SELECTED = """log => {
    getSelection().selectAllChildren(log);
    const text = getSelection().toString();
    getSelection().removeAllRanges();
    return text;
}"""
_CLOCK = re.compile(r"^\d\d:\d\d:\d\d$")


def _open(notebook: Notebook, at: int = 1, state: str = "running") -> Page:
    """Run all and open the job of a cell once it is in that state: its buttons move no more."""
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
    """Append to what the newest job has measured, as where nvidia-smi tells of GPUs. It is of a
    later time than what the job goes on to measure, which has none."""
    files = cluster.folder.glob("**/jobs/*/usage.0.jsonl")
    newest = max(files, key=lambda one: one.stat().st_mtime)
    sizes = {"name": "H100", "memory_mib": 1024, "memory_total_mib": 81920}
    gpus = [{**sizes, "utilisation": one} for one in busy]
    sample = {"time_s": time.time() + 3600, "cpus": 1, "memory_mib": 300, "gpus": gpus}
    with newest.open("a") as file:
        file.write(json.dumps(sample) + "\n")


def test_a_jobs_output_its_use_its_script_and_what_happened(
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
    look(page, "job-log", log)
    _show(page, "Resources")
    expect(page.get_by_role("img", name="CPU cores")).to_be_visible()
    expect(page.get_by_text("of the CPU time it asked for")).to_be_visible()
    page.get_by_text("As a table").click()
    expect(page.get_by_role("table").get_by_role("row").nth(3)).to_be_visible()
    look(page, "job-resources")
    _tell_of_gpus(cluster, 0.9, 0.25)
    gpu = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="GPU 1"))
    expect(gpu.get_by_role("cell").first).to_have_text("25 %")
    look(page, "job-gpus")
    _show(page, "Script")
    expect(page.get_by_role("region", name="Batch script")).to_contain_text("#!/bin/bash")
    look(page, "job-script")
    _show(page, "Details")
    expect(page.get_by_role("rowheader", name="JobId")).to_be_visible()
    look(page, "job-details")


def test_a_text_is_found_the_end_followed_again_and_kept_in_sight_whatever_the_letters(
    opened: Callable[..., Notebook],
) -> None:
    code = """%%slurm --detach --image python:3.11
import sys, time
for step in range(5000):
    print(f"step {step} \\x1b[36mloss\\x1b[0m 0.{step:04}")
    if step % 1000 == 0:
        print(f"Saved to <b>checkpoint-{step}</b>", file=sys.stderr, flush=True)
for step in range(600):
    print("still here", step, flush=True)
    time.sleep(1)"""
    still = """%%slurm --detach --image python:3.11
import time
for step in range(8000):
    print(f"step {step} {'loss ' * (step % 60)}")
print("the last line", flush=True)
time.sleep(600)"""
    notebook = opened([code, still])
    page = _open(notebook)
    log = page.get_by_role("log", name="Output")
    expect(log).to_contain_text("still here")
    page.keyboard.press("Control+f")
    field = page.get_by_label("Find in the output")
    expect(field).to_be_focused()
    page.keyboard.type("CHECKPOINT")
    status = page.get_by_role("search").get_by_role("status")
    expect(status).to_have_text("1 of 5")
    current = log.locator("mark[aria-current]")
    expect(current).to_be_in_viewport()
    expect(log.get_by_text("checkpoint-0")).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(status).to_have_text("3 of 5")
    expect(current).to_be_in_viewport()
    expect(log.get_by_text("checkpoint-2000")).to_be_in_viewport()
    page.keyboard.press("Shift+Enter")
    expect(status).to_have_text("2 of 5")
    look(page, "job-search")
    field.fill("step 4999 loss")
    expect(status).to_have_text("1 of 1")
    expect(current.first).to_be_in_viewport()
    field.fill("nowhere")
    expect(status).to_have_text("not found")
    page.keyboard.press("Escape")
    expect(log).to_be_focused()
    page.get_by_label("Show", exact=True).select_option("stderr")
    expect(log).not_to_contain_text("step 1")
    expect(log).to_contain_text("checkpoint-4000")
    page.get_by_label("Show", exact=True).select_option("all output")
    expect(log.get_by_text("still here", exact=False).last).to_be_in_viewport()
    page.keyboard.press("Home")
    # A browser may take its time to get there, and whoever scrolls up does not follow.
    page.wait_for_function("document.querySelector('[role=log]').scrollTop === 0")
    page.get_by_role("button", name="Follow", exact=True).click()
    expect(log.get_by_text("still here", exact=False).last).to_be_in_viewport()
    before = log.evaluate("e => e.textContent.length")
    longer = "before => document.querySelector('[role=log]').textContent.length > before"
    page.wait_for_function(longer, arg=before)
    expect(page.get_by_role("button", name="Follow", exact=True)).to_have_count(0)

    page.get_by_role("main").get_by_role("tab", name=notebook.path.name).click()
    notebook.cell(2).get_by_role("button", name="Open").click()
    last = log.get_by_text("the last line")
    expect(last).to_be_in_viewport()
    for size in (14, 15, 16, 20, 13, 9, 12):
        log.click()  # which scrolls nothing
        # What "Increase Code Font Size" of JupyterLab's menu does.
        page.evaluate(
            "px => document.documentElement.style.setProperty('--jp-code-font-size', `${px}px`)",
            size,
        )
        _drawn(page)
        expect(last).to_be_in_viewport()
    for scheme in _SCHEMES:
        page.emulate_media(color_scheme=scheme)
        light = str(scheme == "light").lower()
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", light)
        _drawn(page)
        expect(last).to_be_in_viewport()
    expect(page.get_by_role("button", name="Follow", exact=True)).to_have_count(0)


def test_a_job_that_failed_after_much_output_is_there_again_after_a_reload(
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
    look(page, "job-failed")
    log.focus()
    page.keyboard.press("Home")
    expect(log).to_contain_text("hidden; download for the full log")
    expect(log).not_to_contain_text("the first line")
    log.get_by_role("button", name="Load more").click()
    expect(log).to_contain_text("the first line")
    expect(log).not_to_contain_text("hidden; download for the full log")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert "the first line" in download.value.path().read_text()
    page.get_by_role("tab", name="Log", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Resources", exact=True)).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Resources")).to_contain_text("Its memory was")
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="Details", exact=True)).to_be_focused()
    page.get_by_label("Filter: Slurm's record").fill("jobstate")
    expect(page.get_by_role("rowheader", name="JobState")).to_be_visible()
    expect(page.get_by_role("rowheader", name="JobId")).to_have_count(0)


def _drawn(page: Page) -> None:
    """Some frames later: what was measured anew has led to what it leads to."""
    page.evaluate(
        """async () => {
          for (let frames = 0; frames < 10; frames += 1) {
            await new Promise(done => requestAnimationFrame(done));
          }
        }"""
    )


@pytest.fixture
def with_bars(browser: Browser) -> Iterator[Page]:
    """A page with scrollbars, which Playwright hides."""
    started = browser.browser_type.launch(
        executable_path=CHROMIUM,
        args=OPTIONS,
        ignore_default_args=["--hide-scrollbars"],
    )
    with new_page(started) as page:
        page.set_viewport_size({"width": 1100, "height": 900})
        yield page
    started.close()


def test_who_scrolls_up_while_much_comes_stays_there(lab: Lab, with_bars: Page) -> None:
    page = with_bars
    lab.write("flood.ipynb", ["%load_ext jupyter_slurm", _FLOOD])
    _open(Notebook(page, lab, "flood.ipynb"))
    log = page.get_by_role("log", name="Output")
    follow = page.get_by_role("button", name="Follow", exact=True)
    longer = "([box, before]) => box.scrollHeight > before + 5_000"
    page.wait_for_function(longer, arg=[log.element_handle(), 0])
    for scroll in (_by_wheel, _by_key, _by_bar):
        scroll(page, log)
        expect(follow, scroll.__name__).to_be_visible()
        _drawn(page)
        seen = log.evaluate(_SEEN)
        assert seen.startswith("step ")
        before = log.evaluate("box => box.scrollHeight")
        page.wait_for_function(longer, arg=[log.element_handle(), before])
        assert log.evaluate(_SEEN) == seen
        follow.click()
        expect(follow).to_have_count(0)
        page.wait_for_function(longer, arg=[log.element_handle(), before])
        expect(follow).to_have_count(0)


def _by_wheel(page: Page, log: Locator) -> None:
    log.hover()
    page.mouse.wheel(0, -700)


def _by_key(page: Page, log: Locator) -> None:
    log.focus()
    page.keyboard.press("PageUp")


def _by_bar(page: Page, log: Locator) -> None:
    """Above its thumb; its end may lie below a notification."""
    box = log.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] - 6, box["y"] + box["height"] / 3)


_RANKS = """%%slurm --launch mpi --ntasks 3 --image python:3.11
import os
print("I am", os.environ["SLURM_PROCID"])"""


def test_every_rank_has_its_output_folded_in_the_cell_and_its_log_in_the_panel(
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
    look(page, "ranks-cell", cell)
    cell.get_by_role("button", name="Open").click()
    log = page.get_by_role("log", name="Output")
    expect(log).to_contain_text("I am 0")
    page.get_by_label("Rank", exact=True).select_option("Rank 1")
    expect(log).to_contain_text("I am 1")
    look(page, "ranks-log")
