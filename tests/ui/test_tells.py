"""What tells of jobs beside their views: status bar, notifications, the palette, the settings."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.waiting import wait_until
from tests.ui.lab import Lab, adopt, at_rest, hide
from tests.ui.looks import look

_TOLD = "told <b>&"
_MANY = 24
_MOST_LISTED = 5
_LISTENER = f"""
  window.wasTold = false;
  window.mostTold = 0;
  new MutationObserver(() => {{
    const there = [...document.querySelectorAll('[role=alert]')].filter(
      one => !/exit/.test(one.closest('.Toastify__toast')?.className ?? '')  // on its way out
    );
    window.mostTold = Math.max(window.mostTold, there.length);
    for (const one of document.querySelectorAll('[role=alert]')) {{
      window.wasTold ||= one.textContent.includes('{_TOLD}');
    }}
  }}).observe(document, {{ childList: true, subtree: true, characterData: true }});
"""
"""Who looks only now and then may miss what is shown for seconds."""


@pytest.fixture
def idle_lab(lab: Lab) -> Lab:
    """A server that knows of no live job: of an earlier test's that is only now seen to have ended
    a page would tell, too."""
    wait_until(lambda: not lab.live_jobs())
    return lab


@pytest.fixture
def desk(page: Page, idle_lab: Lab) -> Page:
    """JupyterLab with nothing opened."""
    page.goto(f"{idle_lab.url}lab?token={idle_lab.token}&reset")
    at_rest(page)
    page.evaluate(_LISTENER)
    expect(page.get_by_role("button", name="Slurm:")).to_be_visible()
    return page


@pytest.fixture
def held(cluster: SlurmCluster) -> Iterator[str]:
    """The id of a job that waits until it is released."""
    line = ("--parsable", "-H", "-J", "told <b>&", "--wrap", "sleep 600")
    slurm_id = cluster.run("sbatch", *line).stdout.strip()
    yield slurm_id
    cluster.run("scancel", slurm_id)


def test_a_job_is_counted_and_told_of_once_from_its_start_to_its_end_and_not_by_a_new_page(
    desk: Page, held: str, cluster: SlurmCluster
) -> None:
    address = desk.url
    adopt(desk, held)
    item = desk.get_by_role("button", name="Slurm:")
    expect(item).to_have_accessible_name(re.compile("waits"))
    cluster.run("scontrol", "release", held)
    toast = desk.get_by_role("alert").filter(has_text="told <b>&")
    expect(toast).to_contain_text("running")  # it is there for seconds only
    expect(item).to_have_accessible_name(re.compile("1 job runs"))
    expect(item).to_have_text("Slurm 1 ▶ 0 ◷")
    look(desk, "notification")
    cluster.run("scancel", held)
    ended = toast.filter(has_text="cancelled")
    expect(ended).to_have_count(1)
    ended.get_by_role("button", name="Show log").click()
    expect(desk.get_by_role("tab", name=re.compile("told <b>&"))).to_be_visible()
    expect(item).to_have_text("Slurm")
    desk.goto(address)
    expect(item).to_have_text("Slurm")
    desk.wait_for_timeout(2_000)  # in which it would have been told
    expect(_alert(desk)).to_have_count(0)


def test_of_many_short_jobs_one_notification_at_a_time_is_seen(
    desk: Page, cluster: SlurmCluster
) -> None:
    line = ("--parsable", "-H", "-J", _TOLD, "-o", "/dev/null", "--wrap", "true")
    ids = [cluster.run("sbatch", *line).stdout.strip() for _ in range(_MANY)]
    for one in ids:
        adopt(desk, one)
    item = desk.get_by_role("button", name="Slurm:")
    expect(item).to_have_text(f"Slurm 0 ▶ {_MANY} ◷")
    cluster.run("scontrol", "release", ",".join(ids))
    toast = desk.get_by_role("alert").filter(has_text="jobs have ended")
    expect(toast).to_be_visible()
    look(desk, "notification-of-many")
    expect(item).to_have_text("Slurm")
    assert desk.evaluate("mostTold") == 1
    desk.get_by_title(re.compile(r"^\d+ notification")).click()
    listed = desk.locator(".jp-Notification-List").get_by_role("listitem")
    expect(listed.first).to_be_visible()
    assert listed.count() <= _MOST_LISTED


def test_of_two_tabs_one_tells(desk: Page, held: str, cluster: SlurmCluster, lab: Lab) -> None:
    other = desk.context.new_page()
    other.goto(f"{lab.url}lab/workspaces/other?token={lab.token}&reset")
    expect(other.get_by_role("button", name="Slurm:")).to_be_visible()
    other.evaluate(_LISTENER)
    adopt(desk, held)
    for tab in (desk, other):
        expect(tab.get_by_role("button", name="Slurm:")).to_have_text("Slurm 0 ▶ 1 ◷")
    cluster.run("scontrol", "release", held)
    for tab in (desk, other):
        expect(tab.get_by_role("button", name="Slurm:")).to_have_text("Slurm 1 ▶ 0 ◷")
    wait_until(lambda: _was_told(desk) or _was_told(other))
    desk.wait_for_timeout(1_000)  # in which the other one would have told it, too
    assert _was_told(desk) != _was_told(other)


_RECORDER = """() => {
  window.told = [];
  class Recorded {
    constructor(title, {body}) { window.told.push(`${title}: ${body}`); }
    static permission = 'granted';
    static requestPermission() { return Promise.resolve('granted'); }
    close() {}
  }
  window.Notification = Recorded;
}"""
"""Stands for the desktop, which a browser without a head does not have."""


def test_the_browser_tells_by_itself_where_that_is_wanted_and_the_page_is_not_seen(
    page: Page, idle_lab: Lab, held: str, cluster: SlurmCluster
) -> None:
    page.goto(f"{idle_lab.url}lab?token={idle_lab.token}&reset")
    item = page.get_by_role("button", name="Slurm:")
    expect(item).to_be_visible()
    page.evaluate(_RECORDER)
    adopt(page, held)
    cluster.run("scontrol", "release", held)
    expect(_alert(page)).to_contain_text("running")
    assert page.evaluate("told") == []  # nobody has asked for it
    page.reload()
    at_rest(page)
    page.evaluate(_RECORDER)
    expect(item).to_have_text("Slurm 1 ▶ 0 ◷")
    page.wait_for_timeout(2_000)  # in which it would have been told
    expect(_alert(page)).to_have_count(0)  # it was there already
    page.keyboard.press("Control+,")
    page.get_by_placeholder("Search settings…").last.fill("Slurm")
    wanted = page.get_by_label("Notifications of the browser, too")
    wanted.check()
    hide(page, hidden=True)
    cluster.run("scancel", held)
    page.wait_for_function("told.length > 0")
    assert page.evaluate("told") == ["Slurm: told <b>&: cancelled"]
    hide(page, hidden=False)
    wanted.uncheck()


def _alert(page: Page) -> Locator:
    return page.get_by_role("alert").filter(has_text=_TOLD)


def _was_told(page: Page) -> bool:
    """Since it was opened."""
    told: bool = page.evaluate("wasTold")
    return told


def test_sidebar_and_views_are_opened_from_status_bar_and_palette_and_settings_are_used(
    desk: Page, held: str, cluster: SlurmCluster
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
    start = desk.get_by_label("Tell when a job starts")
    expect(start).to_be_checked()
    look(desk, "settings")
    start.uncheck()
    adopt(desk, held)
    cluster.run("scontrol", "release", held)
    expect(desk.get_by_role("button", name="Slurm:")).to_have_text("Slurm 1 ▶ 0 ◷")
    expect(_alert(desk)).to_have_count(0)
    cluster.run("scancel", held)
    expect(_alert(desk)).to_contain_text("cancelled")
    start.check()
