"""A lab in a tab of a real browser, from the launcher's form through the queue to a notebook."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.lab import Lab, at_rest, show_more
from tests.ui.looks import SCREENSHOTS, is_clean, look, look_as_it_is
from tests.ui.side import do, row

START_MS = 120_000
"""Timeout for the start of JupyterLab on a busy machine."""
ADDRESS = re.compile(r"^http://lab-[a-z2-7]{8}-[0-9a-f]{20}\.localhost:\d+/lab")


@pytest.fixture
def form(page: Page) -> Locator:
    return page.get_by_role("form", name="Jupyter on a node")


def start(page: Page, form: Locator, name: str, **fields: str) -> Page:
    """Submit the form, and return the waiting tab."""
    page.get_by_text("Jupyter on a node…", exact=True).click()
    show_more(form)
    form.get_by_label("Name").fill(name)
    for label, text in fields.items():
        form.get_by_label(label.replace("_", " "), exact=True).fill(text)
    with page.context.expect_page() as opened:
        form.get_by_role("button", name="Start").click()
    return opened.value


def look_at_room(tab: Page, name: str) -> None:
    """Take pictures of the waiting page in both themes. axe must find nothing."""
    SCREENSHOTS.mkdir(exist_ok=True)
    for theme in ("dark", "light"):
        tab.emulate_media(color_scheme=theme)
        tab.screenshot(path=SCREENSHOTS / f"{name}-{theme}.png")
        is_clean(tab, f"{name}-{theme}")


def bar(tab: Page) -> Locator:
    """Return the bar of the lab's page."""
    return tab.get_by_role("group", name="Slurm job")


def job_of_a_notebook(tab: Page) -> str:
    """Return the Slurm ID of the lab's job, printed by a cell of a new notebook."""
    tab.get_by_text("Python 3 (ipykernel)", exact=True).first.click()
    cell = tab.locator(".jp-Notebook .jp-CodeCell").first
    expect(tab.get_by_text("| Idle")).to_be_visible()
    cell.locator(".cm-content").click()
    tab.keyboard.type("import os; print('job', os.environ['SLURM_JOB_ID'])")
    tab.keyboard.press("Shift+Enter")
    expect(cell.locator(".jp-Cell-outputArea")).to_contain_text("job ")
    return cell.locator(".jp-Cell-outputArea").inner_text().split()[-1]


def test_launcher_opens_a_lab_that_waits_in_the_queue_and_runs_a_notebook(
    opened_lab: Page, form: Locator, cluster: SlurmCluster, lab: Lab
) -> None:
    page = opened_lab
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_text("Jupyter on a node…", exact=True).click()
    expect(form.get_by_text("Expected to start")).to_be_visible()
    look(page, "lab-form", form)
    in_the_way = cluster.submit("--exclusive", "--wrap", "sleep 600")
    cluster.wait_for(in_the_way, "RUNNING")
    show_more(form)
    form.get_by_label("Name").fill("mine")
    form.get_by_label("Time limit").fill("2h")
    with page.context.expect_page() as opened:
        form.get_by_role("button", name="Start").click()
    tab = opened.value
    expect(tab.get_by_role("status")).to_contain_text("waiting")
    expect(tab.locator("#why")).not_to_be_empty()
    expect(tab.get_by_role("button", name="Cancel")).to_be_visible()
    look_at_room(tab, "lab-waits")
    expect(form).to_have_count(0)

    cluster.run("scancel", in_the_way)
    tab.wait_for_url(ADDRESS, timeout=START_MS)
    assert "token" not in tab.url
    at_rest(tab)
    expect(tab).to_have_title(re.compile("mine · n1 · JupyterLab$"))
    expect(bar(tab)).to_contain_text(re.compile(r"mine\s*n1\s*1 h 5. min left\s*End"))
    job_id = job_of_a_notebook(tab)
    assert cluster.job_state(job_id) == "RUNNING"
    look_as_it_is(tab, "lab-notebook")

    cookies = page.context.cookies()
    of_lab = {one["name"] for one in cookies if one["domain"].startswith("lab-")}
    assert of_lab
    assert not [one for one in page.context.cookies(lab.url) if one["name"] in of_lab - {"_xsrf"}]

    page.bring_to_front()
    page.get_by_role("tab", name="Slurm").first.click()
    mine = row(page, "mine")
    expect(mine).to_contain_text(re.compile("1 h 5. left"))
    do(page, "mine", "Copy link")
    link = page.evaluate("navigator.clipboard.readText()")
    assert tab.url.startswith(link)
    with page.context.expect_page() as again:
        do(page, "mine", "Open lab")
    again.value.wait_for_url(ADDRESS, timeout=START_MS)
    page.bring_to_front()
    page.get_by_role("tab", name="Running Terminals and Kernels").click()
    runs = page.get_by_role("region", name="Slurm Section").get_by_role("treeitem", name="mine")
    expect(runs).to_contain_text("n1")
    runs.hover()
    runs.get_by_title("End").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(runs).to_have_count(0)
    page.get_by_role("tab", name="Slurm").first.click()
    expect(mine).to_have_accessible_name(re.compile("^mine, done"))
    cluster.wait_for(job_id, "CANCELLED", "")


def test_end_button_saves_documents_and_completes_the_job(
    opened_lab: Page, form: Locator, cluster: SlurmCluster, lab: Lab
) -> None:
    tab = start(opened_lab, form, "saves")
    tab.wait_for_url(ADDRESS, timeout=START_MS)
    at_rest(tab)
    job_id = job_of_a_notebook(tab)
    [path] = lab.folder.glob("Untitled*.ipynb")
    assert "SLURM_JOB_ID" not in path.read_text()
    bar(tab).get_by_role("button", name="End").click()
    tab.get_by_role("dialog").get_by_role("button", name="Shut Down").click()
    cluster.wait_for(job_id, "COMPLETED", "")
    assert "SLURM_JOB_ID" in path.read_text()
    opened_lab.bring_to_front()
    opened_lab.get_by_role("tab", name="Slurm").first.click()
    expect(row(opened_lab, "saves")).to_have_accessible_name(re.compile("^saves, done"))
