"""The form that submits jobs on a real Slurm, opened from each place."""

from __future__ import annotations

import re
from collections.abc import Iterator

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.kept_page import heard
from tests.ui.lab import Lab, Notebook, at_rest, show_more
from tests.ui.looks import look
from tests.ui.side import jobs

HOSTILE = "r\u00e9sum\u00e9 'of' \"all\" \N{SNAKE} \u05e9\u05dc\u05d5\u05dd $(x) #1"
"""A name with blanks, quotes, an emoji, right-to-left letters, and special characters of shells and
URLs."""


@pytest.fixture
def form(page: Page) -> Locator:
    return page.get_by_role("form", name="Slurm job")


@pytest.fixture
def gate(lab: Lab) -> Iterator[str]:
    """Yield the path of a file for which jobs wait. It is created at the end."""
    path = lab.folder / "gate"
    path.unlink(missing_ok=True)
    yield str(path)
    path.touch()


def from_launcher(page: Page) -> None:
    page.get_by_text("Slurm job", exact=True).click()


def from_browser(page: Page, name: str) -> None:
    item = page.get_by_role("listitem", name=f"Name: {name}")
    item.first.click(button="right")
    page.get_by_role("menuitem", name="Run on Slurm").click()


def from_toolbar(page: Page, item: str) -> None:
    page.get_by_role("button", name="Run this cell or this notebook on Slurm").click()
    page.get_by_role("menuitem", name=item).click()


def submit(form: Locator) -> None:
    form.get_by_role("button", name="Submit").click()


def test_form_submits_a_job_with_the_clusters_options(opened_lab: Page, form: Locator) -> None:
    page = opened_lab
    for card in ("job", "lab", "kernel"):
        icon = page.locator(f".jp-LauncherCard [data-icon='jupyter-slurm:{card}']")
        icon.scroll_into_view_if_needed()
        expect(icon).to_be_visible()
    look(page, "launcher")
    from_launcher(page)
    expect(form.get_by_label("Code")).to_be_focused()
    page.keyboard.type("print('from the form')")
    form.get_by_label("Image").fill("python:3.11")
    gpus = form.get_by_role("spinbutton", name="GPUs", exact=True)
    expect(form.get_by_text("2 of 2 GPUs free").last).to_be_attached()
    gpus.fill("9")
    expect(form.get_by_text("at most 2 GPUs")).to_be_visible()
    expect(form.get_by_label("Partition").locator("option[disabled]")).not_to_have_count(0)
    button = form.get_by_role("button", name="Submit")
    expect(button).to_be_disabled()
    expect(form.get_by_role("status")).to_contain_text("Slurm would refuse the job")
    look(page, "submit-wrong", form)
    gpus.fill("2")
    expect(form.get_by_text("Expected to start")).to_be_visible()
    expect(form.get_by_text("GPU-hour")).to_be_visible()
    # The usual fields and the preview are visible without scrolling.
    expect(form.get_by_text("More options", exact=True)).to_be_in_viewport(ratio=1)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("log", name="Output")).to_contain_text("from the form")


def test_file_browser_submits_files_with_any_name(page: Page, lab: Lab, form: Locator) -> None:
    name = f"{HOSTILE}.slurm"
    files = {name: "#!/bin/sh\n#SBATCH --time=5\necho ran\n"}
    # The folder is first in the list, so that new or removed files do not move a row during a
    # click.
    refused = {"a table.csv": "1,2\n", "a wrong.py": "for x in 1\n    pass\n"}
    for path, text in (files | refused).items():
        (lab.folder / path).write_text(text)
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    from_browser(page, name)
    expect(form.get_by_text(name, exact=True)).to_be_visible()
    expect(form.get_by_text(re.compile("Expected to start|Starts ~"))).to_be_visible()
    submit(form)
    expect(page.get_by_role("log", name="Output")).to_contain_text("ran")
    expect(form).to_have_count(0)
    page.get_by_role("button", name="Edit and resubmit").click()
    expect(form.get_by_text(name, exact=True)).to_be_visible()
    submit(form)
    expect(form).to_have_count(0)

    page.get_by_role("listitem", name="Name: a table.csv").click(button="right")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_visible()
    expect(page.get_by_role("menuitem", name="Run on Slurm")).to_have_count(0)
    page.keyboard.press("Escape")
    from_browser(page, "a wrong.py")
    expect(form.get_by_text("Line 1 of a wrong.py is not valid Python")).to_be_visible()
    for path in (*files, *refused):
        (lab.folder / path).unlink()


def test_form_writes_and_reads_the_magic_line_of_a_cell(
    lab: Lab, page: Page, form: Locator
) -> None:
    its_own = "%%slurm --gpus 1 -t 5 --comment 'a b' --detach\nprint('again')"
    path = lab.write(f"{HOSTILE} cell.ipynb", ["x = 6", "print(x * 7)\ny = x", its_own])
    notebook = Notebook(page, lab, path.name)
    notebook.cell(1).locator(".cm-content").click()
    from_toolbar(page, "Run this cell on Slurm")
    expect(form.get_by_label("The cell")).to_contain_text("print(x * 7)")
    show_more(form)
    form.get_by_label("Other options").fill("--in x --out y")
    notebook_runs_first(page, notebook)
    form.get_by_label("Image").fill("python:3.11")
    expect(form.get_by_text("Expected to start")).to_be_visible()
    submit(form)
    expect(form).to_have_count(0)
    # `%load_ext jupyter_slurm` is now the first cell, so that the notebook works when reopened.
    expect(notebook.cell(0)).to_contain_text("%load_ext jupyter_slurm")
    cell = notebook.cell(2)
    expect(cell.locator(".cm-content")).to_contain_text("%%slurm --cluster local --image")
    expect(notebook.output(2)).to_contain_text("42")
    notebook.ended(2)
    saved = notebook.saved()
    assert saved.cells[2].source.startswith("%%slurm --cluster local")
    assert saved.cells[2].source.endswith("\nprint(x * 7)\ny = x")

    cell = notebook.cell(3)
    cell.locator(".cm-content").click()
    cell.click(button="right")
    page.get_by_role("menuitem", name="Run this cell on Slurm").click()
    expect(form.get_by_role("spinbutton", name="GPUs", exact=True)).to_have_value("1")
    expect(form.get_by_label("Time limit")).to_have_value("5")
    expect(form.get_by_label("Other options")).to_have_value("--comment 'a b' --detach")
    form.get_by_label("Time limit").fill("6")
    submit(form)
    expect(cell.locator(".cm-content")).to_contain_text(
        "%%slurm --cluster local --gpus 1 --time 6 --comment 'a b' --detach"
    )
    notebook.ended(3)
    expect(notebook.card(3)).to_be_visible()
    expect(page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(4)
    path.unlink()


def notebook_runs_first(page: Page, notebook: Notebook) -> None:
    """Run the first cell, and focus the form again."""
    tabs = page.get_by_role("main").get_by_role("tab")
    tabs.first.click()
    notebook.run(0)
    notebook.ended(0)
    tabs.filter(has_text="on Slurm").click()


def test_executed_notebook_is_saved_after_a_page_reload(
    lab: Lab, page: Page, form: Locator, gate: str
) -> None:
    wait = f"import os, time\nwhile not os.path.exists({gate!r}):\n    time.sleep(0.1)"
    path = lab.write(f"{HOSTILE}.ipynb", [wait, "print('not saved')"])
    notebook = Notebook(page, lab, path.name)
    notebook.cell(1).locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.type("print(6 * 7)")
    from_toolbar(page, "Run this notebook on Slurm")
    expect(form.get_by_text("The executed copy is saved next to the notebook")).to_be_visible()
    submit(form)
    expect(form).to_have_count(0)
    assert nbformat.read(path, as_version=4).cells[1].source == "print(6 * 7)"
    expect(page.get_by_role("log", name="Output")).to_be_attached()
    page.reload()
    at_rest(page)
    (lab.folder / "gate").touch()
    toast = page.get_by_role("alert").filter(has_text="Results:")
    toast.get_by_role("button", name="Open").click()  # the notification is shown only for seconds
    [copy] = lab.folder.glob("*.slurm-*.ipynb")
    assert copy.name.startswith(f"{HOSTILE}.slurm-")
    assert nbformat.read(copy, as_version=4).cells[1].outputs[0].text == "42\n"
    expect(page.get_by_role("main").get_by_role("tab").filter(has_text=".slurm-")).to_be_visible()
    asked: list[str] = []
    with heard(page, "request", lambda request: asked.append(request.url)):
        page.reload()
        page.get_by_role("tab", name="Slurm", exact=True).click()
        ended = jobs(page).get_by_role("row", name=re.compile(", done"))
        expect(ended.first).to_be_visible()
    assert not [one for one in asked if "/api/executed" in one], "the copy was already delivered"
    copy.unlink()
    path.unlink()
