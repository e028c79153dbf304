"""What is on screen is true in sidebar, panels and card alike, at the cost of one who looks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from playwright.sync_api import Locator, Page, Request, WebSocket, expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.four_views import beside_one_another
from tests.ui.kept_page import heard
from tests.ui.lab import Lab, Notebook, at_rest, hide
from tests.ui.side import open_sidebar, row

_OURS = "/jupyter-slurm/"
_MANY = 60
_POLL_S = 1.0
"""The local cluster's."""


def test_a_job_that_is_changed_in_a_terminal_changes_in_every_view(
    opened: Callable[..., Notebook], cluster: SlurmCluster
) -> None:
    code = "import time\ntime.sleep(600)"
    notebook = opened([f"%%slurm --detach --hold --requeue --time 4:00:00\n{code}"])
    notebook.run_all()
    views = beside_one_another(notebook)
    job = views.slurm_id
    views.all_say("waiting", "On hold", brief=("waiting", "on hold"), queue=("on hold",))
    cluster.run("scontrol", "release", job)
    views.all_say("running")
    cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=3:30:00")
    views.all_say("3 h 30 min", brief=("3 h 2",), queue=("3 h 30",))  # 3 h 29 min left, and less
    cluster.run("scontrol", "update", f"JobId={job}", "JobName=renamed")
    views.all_say("renamed")
    cluster.run("scontrol", "requeue", job)
    views.all_say("waiting")
    cluster.run("scontrol", "hold", job)
    views.all_say("waiting", "On hold", brief=("waiting", "on hold"), queue=("on hold",))
    cluster.run("scancel", job)
    views.all_say_that_it_is_over("cancelled")


def test_a_hidden_tab_and_a_hidden_sidebar_ask_for_nothing(
    page: Page, lab: Lab, cluster: SlurmCluster
) -> None:
    sockets: list[WebSocket] = []
    sent: list[str] = []
    asked: list[Request] = []

    def connected(one: WebSocket) -> None:
        if _OURS in one.url:
            sockets.append(one)
            one.on("framesent", lambda frame: sent.append(str(frame)))

    def seen(one: Request) -> None:
        asked.append(one)

    with heard(page, "websocket", connected), heard(page, "request", seen):
        sidebar = open_sidebar(page, lab)
        cluster.submit("-H", "-J", "seen", "--wrap", "true")
        expect(row(sidebar, "seen")).to_be_visible()
        assert len([one for one in sent if "queue_changes" in one]) == 1
        with sockets[-1].expect_event("framesent", lambda frame: '"unwatch"' in str(frame)):
            page.get_by_role("tab", name="File Browser").click()
        expect(sidebar).not_to_be_visible()
        cluster.submit("-H", "-J", "behind files", "--wrap", "true")
        page.get_by_role("tab", name="Slurm").click()
        expect(row(sidebar, "behind files")).to_be_visible()

        asked.clear()
        with sockets[-1].expect_event("close"):
            hide(page, hidden=True)
        sockets.clear()
        cluster.submit("-H", "-J", "unseen", "--wrap", "true")
        assert any(_is_left_alone(page, cluster) for _ in range(8))
        assert [one.url for one in asked if _OURS in one.url] == []
        assert [one.url for one in sockets] == []
        hide(page, hidden=False)
        expect(row(sidebar, "unseen")).to_be_visible()


def test_a_queue_that_was_out_of_sight_is_told_only_what_is_new(
    page: Page, lab: Lab, cluster: SlurmCluster
) -> None:
    made = f"for n in $(seq {_MANY}); do sbatch -H --parsable -J old-$n --wrap true; done"
    jobs = cluster.run("sh", "-c", made).stdout.split()
    told: list[int] = []

    def connected(one: WebSocket) -> None:
        if _OURS in one.url:
            one.on("framereceived", lambda frame: told.append(len(frame)))

    with heard(page, "websocket", connected):
        rows = _open_queue(page, lab)
        expect(rows.filter(has_text="old-").first).to_be_visible()
        whole = max(told)
        page.get_by_role("region", name="Slurm").get_by_role("button", name="Nodes").click()
        expect(rows.first).to_be_hidden()
        jobs.append(cluster.submit("-H", "-J", "behind a tab", "--wrap", "true"))
        told.clear()
        page.get_by_role("tab", name="Queue of local").click()
        page.get_by_label("Filter the queue").fill("behind")
        expect(rows.filter(has_text="behind a tab")).to_be_visible()
        hide(page, hidden=True)
        jobs.append(cluster.submit("-H", "-J", "behind a window", "--wrap", "true"))
        hide(page, hidden=False)
        expect(rows.filter(has_text="behind a window")).to_be_visible()
        page.get_by_label("Filter the queue").fill("")
        expect(page.get_by_role("group", name="States")).to_contain_text(f"waiting {len(jobs)}")
    print(f"whole: {whole} bytes, what is new: {told}")
    assert max(told) < whole / 4


def test_squeue_is_run_once_an_interval_for_three_tabs_as_for_one(
    page: Page, lab: Lab, cluster: SlurmCluster
) -> None:
    """As often as one tab may have it run at most."""
    cluster.submit("-H", "-J", "watched", "--wrap", "true")
    for one in (page, page.context.new_page(), page.context.new_page()):
        expect(_open_queue(one, lab).filter(has_text="watched")).to_be_visible()
    assert not any(one.evaluate("document.hidden") for one in page.context.pages)
    began_s, before = time.monotonic(), _squeues(cluster)
    page.wait_for_timeout(5_000)
    asked, took_s = _squeues(cluster) - before, time.monotonic() - began_s
    assert 1 <= asked <= took_s / _POLL_S + 1


def _open_queue(page: Page, lab: Lab) -> Locator:
    """In a workspace of its own: JupyterLab moves a second page of the same to another."""
    workspace = f"tab{page.context.pages.index(page)}"
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
