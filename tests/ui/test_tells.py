"""Status bar, notifications, command palette and settings."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.waiting import wait_until
from tests.ui.lab import Lab, at_rest, submit_script
from tests.ui.looks import look

_TOLD = "told-of"


@pytest.fixture
def idle_lab(lab: Lab) -> Lab:
    """Return a server without live jobs. Otherwise a page would notify about the end of an earlier
    test's job."""
    wait_until(lambda: not lab.live_jobs())
    return lab


@pytest.fixture
def desk(page: Page, idle_lab: Lab) -> Page:
    """Open JupyterLab with nothing open."""
    page.goto(f"{idle_lab.url}lab?token={idle_lab.token}&reset")
    at_rest(page)
    expect(page.get_by_role("button", name="Slurm:")).to_be_visible()
    return page


def submit_held(page: Page) -> str:
    """Submit a job that waits until it is released; return Slurm's ID."""
    _, slurm_id = submit_script(page, _TOLD, "#!/bin/sh\nsleep 600\n", hold="")
    return slurm_id


def test_job_is_counted_and_announced_once_even_after_a_reload(
    desk: Page, cluster: SlurmCluster
) -> None:
    address = desk.url
    held = submit_held(desk)
    item = desk.get_by_role("button", name="Slurm:")
    expect(item).to_have_accessible_name(re.compile("waits"))
    cluster.run("scontrol", "release", held)
    toast = desk.get_by_role("alert").filter(has_text=_TOLD)
    expect(toast).to_contain_text("running")  # the notification is visible only for seconds
    expect(item).to_have_accessible_name(re.compile("1 job runs"))
    expect(item).to_have_text("Slurm 1 ▶ 0 ◷")
    look(desk, "notification")
    cluster.run("scancel", held)
    ended = toast.filter(has_text="cancelled")
    expect(ended).to_have_count(1)
    ended.get_by_role("button", name="Show log").click()
    expect(desk.get_by_role("tab", name=re.compile(_TOLD))).to_be_visible()
    expect(item).to_have_text("Slurm")
    desk.goto(address)
    expect(item).to_have_text("Slurm")
    desk.wait_for_timeout(2_000)  # in this time a second notification would appear
    expect(_alert(desk)).to_have_count(0)


def _alert(page: Page) -> Locator:
    return page.get_by_role("alert").filter(has_text=_TOLD)


def test_status_bar_and_palette_open_the_views_and_settings_apply(
    desk: Page, cluster: SlurmCluster
) -> None:
    desk.get_by_role("button", name="Slurm:").press("Enter")
    expect(desk.get_by_role("region", name="Slurm")).to_be_visible()
    assert desk.evaluate("document.activeElement.closest('#jupyter-slurm-sidebar') !== null")

    desk.keyboard.press("Control+Shift+c")
    palette = desk.locator(".lm-CommandPalette")
    palette.get_by_role("textbox").fill("slurm")
    for view in ("queue", "nodes", "job"):
        item = palette.get_by_role("menuitem").filter(has_text=re.compile(view, re.IGNORECASE))
        expect(item.first).to_be_visible()
    desk.keyboard.press("Escape")

    desk.keyboard.press("Control+,")
    desk.get_by_placeholder("Search settings…").last.fill("Slurm")
    start = desk.get_by_label("Notify when a job starts")
    expect(start).to_be_checked()
    # JupyterLab shows a list's description, but not its title.
    expect(desk.get_by_text("Do not notify about")).to_be_visible()
    look(desk, "settings")
    start.uncheck()
    held = submit_held(desk)
    cluster.run("scontrol", "release", held)
    expect(desk.get_by_role("button", name="Slurm:")).to_have_text("Slurm 1 ▶ 0 ◷")
    expect(_alert(desk)).to_have_count(0)
    cluster.run("scancel", held)
    expect(_alert(desk)).to_contain_text("cancelled")
    start.check()
