"""A remote kernel in a real browser. It is added by a form, started from the launcher, used in a
notebook, stopped in the sidebar, and removed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.waiting import wait_until
from tests.ui.lab import Lab, at_rest, show_more
from tests.ui.looks import look
from tests.ui.side import do, row

START_MS = 120_000
"""Timeout for a job, its step and an ipykernel on a busy machine."""


@pytest.fixture
def opened_lab(page: Page, lab: Lab, lab_home: tuple[Path, dict[str, str]]) -> Iterator[Page]:
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    yield page
    lab.end_kernels()
    shutil.rmtree(lab_home[0] / "data" / "kernels")


@pytest.fixture
def form(page: Page) -> Locator:
    return page.get_by_role("form", name="New remote kernel")


def make(page: Page, form: Locator, title: str, **fields: str) -> None:
    """Add a kernel by the form, and wait for it in the launcher."""
    page.get_by_text("New remote kernel…", exact=True).first.click()
    form.get_by_label("Title").fill(title)
    show_more(form)
    for label, text in fields.items():
        form.get_by_label(label.replace("_", " "), exact=True).fill(text)
    form.get_by_role("button", name="Create kernel").click()
    expect(form).to_have_count(0)


def card(page: Page, title: str) -> Locator:
    """Return the launcher's card below Notebook."""
    return page.locator('.jp-LauncherCard[data-category="Notebook"]').filter(has_text=title)


def processes(job_name: str) -> list[str]:
    """Return the job's processes on this machine, its node."""
    mark = f"SLURM_JOB_NAME={job_name}".encode()
    found = []
    for one in psutil.process_iter():
        with suppress(OSError, psutil.Error):  # the process has just ended
            if mark in Path(f"/proc/{one.pid}/environ").read_bytes().split(b"\0"):
                found.append(" ".join(one.cmdline()))
    return found


def traces(job_name: str, home: Path) -> list[str]:
    """Return the traces of a job on this machine, except its record and folder: processes, the
    socket of its kernel's messages, and temporary files of the agent."""
    job_id = job_name.rpartition(".")[2]
    sockets = Path("/proc/net/unix").read_text().splitlines()
    return [
        *processes(job_name),
        *(line for line in sockets if f"jslurm-{job_id}" in line),
        *(
            f"{folder}/{name}"
            for folder, folders, files in os.walk(home)  # folders can disappear during the walk
            if folder.endswith("/spool")
            for name in (*folders, *files)
            if job_id in name
        ),
    ]


def test_form_adds_a_kernel_that_runs_a_cell_and_can_be_stopped_in_the_sidebar(
    opened_lab: Page, form: Locator, cluster: SlurmCluster, lab: Lab
) -> None:
    page = opened_lab
    page.get_by_text("New remote kernel…", exact=True).first.click()
    form.get_by_label("GPUs", exact=True).fill("1")
    form.get_by_label("Time limit").fill("2h")
    expect(form).to_contain_text("Default: Python 3 (local · 1 GPU)")
    expect(form).to_contain_text("Default: slurm-local-1-gpu")
    expect(form.get_by_text("Expected to start")).to_be_visible()
    look(page, "kernel-form", form)
    show_more(form)
    form.get_by_label("Name").fill("No Name")
    form.get_by_role("button", name="Create kernel").click()
    expect(form).to_contain_text("is not a valid kernel name")
    form.get_by_label("Name").fill("")
    expect(form).to_contain_text("Default: slurm-local-1-gpu")
    form.get_by_role("button", name="Create kernel").click()
    title = "Python 3 (local · 1 GPU)"
    # The row is shown only for seconds.
    expect(page.get_by_text(f'Kernel "{title}" is ready')).to_be_visible()
    expect(form).to_have_count(0)

    card(page, title).click()
    cell = page.locator(".jp-Notebook .jp-CodeCell").first
    # JupyterLab runs nothing before the kernel is ready.
    expect(page.get_by_text("| Idle")).to_be_visible()
    cell.locator(".cm-content").click()
    page.keyboard.type("import os; print('job', os.environ['SLURM_JOB_ID'])")
    page.keyboard.press("Shift+Enter")
    output = cell.locator(".jp-Cell-outputArea")
    # This is the only output. It replaces the reason for waiting and the job ID.
    expect(output).to_have_text(re.compile(r"^\s*job \d+\s*$"), timeout=START_MS)
    job_id = output.inner_text().split()[-1]
    assert cluster.job_state(job_id) == "RUNNING"

    page.get_by_role("tab", name="Slurm").first.click()
    mine = row(page, "Untitled")
    expect(mine).to_contain_text(re.compile("1 GPU.*1 h 5. left"))
    mine.dblclick()
    panel = page.get_by_role("group", name="Actions")
    notebook = page.get_by_role("main").get_by_role("tab", name="Untitled.ipynb")
    expect(notebook).to_have_attribute("aria-selected", "false")
    panel.get_by_role("button", name="Go to notebook").click()
    expect(notebook).to_have_attribute("aria-selected", "true")
    second = page.locator(".jp-Notebook .jp-CodeCell").nth(1)
    second.locator(".cm-content").click()
    page.keyboard.type("import time; time.sleep(600)")
    page.keyboard.press("Shift+Enter")
    expect(second.get_by_text("[*]:")).to_be_visible()
    name = cluster.run("squeue", "-h", "-o", "%j", "-j", job_id).stdout.strip()
    there = traces(name, lab.folder.parent)
    assert any("ipykernel" in one for one in there)
    assert any("jslurm" in one for one in there)

    do(page, "Untitled", "Cancel")
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(second.locator(".jp-Cell-outputArea")).to_contain_text("Shut down.")
    cluster.wait_for(job_id, "CANCELLED", "")
    wait_until(lambda: not traces(name, lab.folder.parent))


def test_kernels_are_listed_and_removed(opened_lab: Page, form: Locator) -> None:
    page = opened_lab
    make(page, form, "Mine (a & b)", GPUs="2", Name="mine")
    expect(card(page, "Mine (a & b)")).to_be_visible()
    page.get_by_role("menubar").get_by_text("Kernel", exact=True).click()
    page.get_by_role("menuitem", name="Remote kernels…").click()
    row = page.get_by_role("list", name="Remote kernels").get_by_role("listitem")
    row = row.filter(has_text="Mine (a & b)")
    expect(row).to_contain_text("mine · local")
    expect(row).to_contain_text("--gpus 2")
    look(page, "kernel-list", page.locator(".jp-slurm-Kernels"))
    row.get_by_role("button", name="Remove…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Mine (a & b)")
    dialog.get_by_role("button", name="Keep").click()
    expect(row).to_be_visible()
    row.get_by_role("button", name="Remove…").click()
    dialog.get_by_role("button", name="Remove", exact=True).click()
    expect(row).to_have_count(0)
    page.get_by_role("main").get_by_role("tab", name="Launcher").click()
    expect(card(page, "Mine (a & b)")).to_have_count(0)
