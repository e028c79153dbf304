"""What is on screen is true in sidebar, panels and card alike, at the cost of one who looks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Request, WebSocket, expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.four_views import beside_one_another
from tests.ui.lab import Lab, Notebook, at_rest, hide

_OURS = "/jupyter-slurm/"
_MANY = 60
_POLL_S = 1.0
"""The local cluster's."""


def test_a_job_that_is_changed_in_a_terminal_changes_in_every_view(
    opened: Callable[..., Notebook], cluster: SlurmCluster
) -> None:
    code = "import time\ntime.sleep(600)"
    notebook = opened([f"%%slurm --detach --hold --requeue --time 10\n{code}"])
    notebook.run_all()
    views = beside_one_another(notebook)
    job = views.slurm_id
    views.all_say("waiting", "held")
    cluster.run("scontrol", "release", job)
    views.all_say("running")
    cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=7")
    views.all_say("7 min")
    cluster.run("scontrol", "update", f"JobId={job}", "JobName=renamed")
    views.all_say("renamed")
    cluster.run("scontrol", "requeue", job)
    views.all_say("waiting")
    cluster.run("scontrol", "hold", job)
    views.all_say("waiting", "held")
    cluster.run("scancel", job)
    views.all_say_that_it_is_over("cancelled")


def test_a_job_that_ends_by_itself_has_ended_in_every_view(
    opened: Callable[..., Notebook], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.1)"
    notebook = opened([f"%%slurm --detach\n{wait}\n1 / 0"])
    notebook.run_all()
    views = beside_one_another(notebook)
    views.all_say("running")
    gate.touch()
    views.all_say_that_it_is_over("failed")


@pytest.mark.own_page
def test_a_hidden_tab_asks_for_nothing(
    opened: Callable[..., Notebook], cluster: SlurmCluster
) -> None:
    sockets: list[WebSocket] = []
    notebook = opened(["1"])
    page = notebook.page

    def heard(one: WebSocket) -> None:
        sockets.append(one)

    def seen(one: Request) -> None:
        asked.append(one)

    page.on("websocket", heard)
    page.get_by_role("tab", name="Slurm").click()
    expect(page.get_by_text("this machine")).to_be_visible()
    asked: list[Request] = []
    page.on("request", seen)
    hide(page, hidden=True)
    job = cluster.submit("-H", "-J", "unseen", "--wrap", "true")
    assert any(_is_left_alone(page, cluster) for _ in range(8))
    assert [one.url for one in asked if _OURS in one.url] == []
    assert [one.url for one in sockets if _OURS in one.url and not one.is_closed()] == []
    hide(page, hidden=False)
    expect(page.get_by_role("region", name="Slurm").get_by_text("unseen")).to_be_visible()
    cluster.run("scancel", job)


@pytest.mark.own_page
def test_a_queue_that_was_out_of_sight_is_told_only_what_is_new(
    page: Page, lab: Lab, cluster: SlurmCluster
) -> None:
    made = f"for n in $(seq {_MANY}); do sbatch -H --parsable -J old-$n --wrap true; done"
    jobs = cluster.run("sh", "-c", made).stdout.split()
    heard: list[int] = []

    def connected(one: WebSocket) -> None:
        if _OURS in one.url:
            one.on("framereceived", lambda frame: heard.append(len(frame)))

    page.on("websocket", connected)
    rows = _open_queue(page, lab)
    expect(rows.filter(has_text="old-").first).to_be_visible()
    whole = max(heard)
    page.get_by_role("region", name="Slurm").get_by_role("button", name="Nodes").click()
    expect(rows.first).to_be_hidden()
    jobs.append(cluster.submit("-H", "-J", "behind a tab", "--wrap", "true"))
    heard.clear()
    page.get_by_role("tab", name="Queue of local").click()
    page.get_by_label("Filter the queue").fill("behind")
    expect(rows.filter(has_text="behind a tab")).to_be_visible()
    hide(page, hidden=True)
    jobs.append(cluster.submit("-H", "-J", "behind a window", "--wrap", "true"))
    hide(page, hidden=False)
    expect(rows.filter(has_text="behind a window")).to_be_visible()
    page.get_by_label("Filter the queue").fill("")
    expect(page.get_by_role("group", name="States")).to_contain_text(f"waiting {len(jobs)}")
    print(f"whole: {whole} bytes, what is new: {heard}")
    assert max(heard) < whole / 4
    cluster.run("scancel", *jobs)


def test_squeue_is_run_once_an_interval_for_five_tabs_as_for_one(
    page: Page, lab: Lab, cluster: SlurmCluster
) -> None:
    job = cluster.submit("-H", "-J", "watched", "--wrap", "true")
    for tabs in (1, 5):
        while len(page.context.pages) <= tabs:
            one = page.context.new_page()
            expect(_open_queue(one, lab).filter(has_text="watched")).to_be_visible()
            assert not one.evaluate("document.hidden")
        began_s, before = time.monotonic(), _squeues(cluster)
        page.wait_for_timeout(5_000)
        asked, took_s = _squeues(cluster) - before, time.monotonic() - began_s
        print(f"{tabs} tabs: {asked} squeues in {took_s:.1f} s")
        assert 1 <= asked <= took_s / _POLL_S + 1
    cluster.run("scancel", job)


def _open_queue(page: Page, lab: Lab) -> Locator:
    """In a workspace of its own: JupyterLab moves a second page of the same to another."""
    workspace = f"tab{len(page.context.pages)}"
    page.goto(f"{lab.url}lab/workspaces/{workspace}?token={lab.token}&reset")
    at_rest(page)
    page.get_by_role("tab", name="Slurm").click()
    page.get_by_role("button", name="Queue", exact=True).click()
    return page.get_by_role("grid", name="Queue of local").get_by_role("row")


def _is_left_alone(page: Page, cluster: SlurmCluster) -> bool:
    """Nobody asks the controller for three of its intervals."""
    counted = _squeues(cluster)
    page.wait_for_timeout(3_000)
    return _squeues(cluster) == counted


def _squeues(cluster: SlurmCluster) -> int:
    """How often the controller was asked for its jobs, as it counts itself."""
    told = cluster.run("sdiag").stdout
    return sum(
        int(count)
        for count in re.findall(r"REQUEST_JOB(?:_USER)?_INFO\w*\s+\(.*?\) count:(\d+)", told)
    )
