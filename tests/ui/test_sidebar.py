"""The sidebar in JupyterLab: my jobs on a real Slurm, seen and steered as a person does it."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.profile import write_profile
from tests.ssh.waiting import wait_until
from tests.ui.lab import Lab
from tests.ui.looks import are_lines, fits, look, look_as_it_is
from tests.ui.side import Sbatch, jobs, open_sidebar, row, runs

_LONG = "train-resnet-50-with-a-name-that-is-rather-long"
_NO_TONE = "rgb(97, 97, 97)"
"""The colour of icons without a style of ours."""


def states(cluster: SlurmCluster, slurm_id: str) -> list[str]:
    """Of what is left of it in the queue."""
    told = cluster.run("squeue", "-h", "-j", slurm_id, "-o", "%i %T").stdout.split("\n")
    return [line for line in told if line and "CANCELLED" not in line and "COMPLETING" not in line]


def test_a_job_that_was_submitted_in_a_terminal_is_seen_read_out_and_its_end_too(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page
) -> None:
    expect(sidebar.get_by_text("this machine")).to_be_visible()
    name = 'my job, "quoted" <b>é</b>'
    slurm_id = sbatch(name)
    expect(runs(sidebar).filter(has_text=name)).to_be_visible()
    cluster.run("scancel", slurm_id)
    expect(runs(sidebar).filter(has_text=name)).to_have_count(0)
    expect(jobs(sidebar).get_by_role("row").filter(has_text=name)).to_contain_text("cancelled")

    sbatch("read out", "-H")
    row(sidebar, "read out").focus()
    page.keyboard.press("Space")
    expect(sidebar).to_match_aria_snapshot("""
      - region "Slurm":
        - heading "My jobs" [level=2]
        - toolbar "Jobs":
          - button "Submit…"
          - button "Queue"
          - button "Nodes"
          - button "Refresh"
          - button "Collapse all"
        - list "Clusters":
          - listitem: local this machine
        - searchbox "Filter my jobs"
        - treegrid "My jobs":
          - rowgroup:
            - row /Waiting \\d+/ [expanded] [level=1]
            - row "read out, waiting, on hold" [level=2] [selected]
        - group "Selected jobs":
          - status: 1 selected
          - button "Copy the id"
          - button "Release"
          - button "Cancel"
    """)


def test_several_are_chosen_and_cancelled_by_keys_once_a_person_has_said_so(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page
) -> None:
    ids = [sbatch(name, "-H") for name in ("keep", "one", "two")]
    for name in ("keep", "one", "two"):
        expect(row(sidebar, name)).to_be_visible()
    row(sidebar, "one").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Shift+ArrowDown")
    expect(sidebar.get_by_text("2 selected")).to_be_visible()
    page.keyboard.press("Delete")
    dialog = page.get_by_role("dialog")
    for name, slurm_id in (("one", ids[1]), ("two", ids[2])):
        expect(dialog).to_contain_text(f"{name} · {slurm_id} · local · waiting")
    expect(dialog).not_to_contain_text("keep")
    look_as_it_is(page, "dialog-cancel")
    dialog.get_by_role("button", name="Keep").click()
    assert len(states(cluster, ",".join(ids))) == 3
    page.get_by_role("group", name="Selected jobs").get_by_role("button", name="Cancel").click()
    dialog.get_by_role("button", name="Cancel the jobs").click()
    for name in ("one", "two"):
        expect(row(sidebar, name)).to_contain_text("cancelled")
    expect(row(sidebar, "keep")).to_contain_text("on hold")
    assert [line.split()[0] for line in states(cluster, ",".join(ids))] == [ids[0]]
    row(sidebar, "keep").focus()
    page.keyboard.press("Control+a")
    chosen = page.get_by_role("group", name="Selected jobs")
    for label in ("Release (1)", "Cancel (1)"):
        expect(chosen.get_by_role("button", name=label)).to_be_visible()


def test_of_an_array_one_task_is_cancelled_and_the_others_stay(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page
) -> None:
    name = "of four with a name that is longer than its line"
    slurm_id = sbatch(name, "--array=0-3%2")
    expect(row(sidebar, name)).to_contain_text("2 of 4 running")
    row(sidebar, name).focus()
    page.keyboard.press("ArrowRight")
    # The card of the row that keys have come to; Escape closes it.
    card = page.get_by_role("tooltip")
    expect(card).to_contain_text("2 running · 2 waiting")
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)
    tasks = jobs(sidebar).get_by_role("row").and_(sidebar.locator("[aria-level='3']"))
    task = tasks.filter(has_text="[1]")
    number = task.get_by_text("[1]", exact=True)
    expect(number).to_be_in_viewport(ratio=1)  # the name is cut, and the number is not
    assert number.evaluate("one => one.scrollWidth <= one.clientWidth")
    task.focus()
    page.keyboard.press("Delete")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{slurm_id}_1")
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(task).to_have_count(0)
    left = " ".join(states(cluster, slurm_id))
    assert f"{slurm_id}_0" in left
    assert f"{slurm_id}_1 " not in left
    waiting = tasks.filter(has_text=re.compile(r"\[.*%"))
    if waiting.count():
        waiting.focus()
        page.keyboard.press("Delete")
        dialog.get_by_role("button", name="Cancel the job").click()
        expect(waiting).to_have_count(0)
        assert f"{slurm_id}_0" in " ".join(states(cluster, slurm_id))


def test_the_sidebar_looks_well_in_both_themes_and_fits_into_200_pixels(
    sidebar: Locator, sbatch: Sbatch, page: Page
) -> None:
    sbatch(_LONG, "--gpus=1", "--time=2:00:00")
    sbatch("held", "-H")
    sbatch("wants-more-than-there-is", "--gpus=2", "--time=30")
    sbatch("rates", "--array=0-5%1", "--time=10")
    expect(row(sidebar, "rates")).to_be_visible()
    sidebar.get_by_role("button", name="Tasks of rates").click()
    row(sidebar, "held").click()
    # No panel of a job is open, which has signs, too.
    sign = row(sidebar, _LONG).locator("svg [data-tone=running]")
    expect(sign).not_to_have_css("fill", _NO_TONE)
    are_lines(jobs(sidebar).get_by_role("row"))
    look(page, "sidebar", sidebar.locator(".jp-slurm-SidebarBody"))

    # JupyterLab's own least is more; a person's style sheet may allow less.
    page.add_style_tag(content=":root { --jp-sidebar-min-width: 180px !important; }")
    for _ in range(2):
        page.get_by_role("tab", name="Slurm").click()
    box = sidebar.bounding_box()
    assert box
    edge, middle = box["x"] + box["width"] + 2, box["y"] + box["height"] / 2
    page.mouse.move(edge, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, middle, steps=5)
    page.mouse.up()
    page.mouse.move(edge + 300, middle)
    wait_until(lambda: _width(sidebar) <= 202, seen=lambda: _width(sidebar))
    fits(page, sidebar.locator(".jp-slurm-SidebarBody"))
    are_lines(jobs(sidebar).get_by_role("row"))
    look_as_it_is(page, "sidebar-200")


def test_shift_and_click_selects_rows_and_no_text(
    sidebar: Locator, sbatch: Sbatch, page: Page
) -> None:
    for name in ("shift-1", "shift-2", "shift-3"):
        sbatch(name, "-H")
        expect(row(sidebar, name)).to_be_visible()
    row(sidebar, "shift-1").click()
    row(sidebar, "shift-3").click(modifiers=["Shift"])
    expect(sidebar.get_by_role("row", selected=True)).to_have_count(3)
    look_as_it_is(page, "sidebar-shift")
    assert page.evaluate("getSelection().toString()") == ""


def test_details_of_a_row_close_when_the_user_types_or_goes_elsewhere(
    sidebar: Locator, sbatch: Sbatch, page: Page
) -> None:
    sbatch("pointed at", "-H")
    row(sidebar, "pointed at").hover()
    details = page.get_by_role("tooltip")
    expect(details).to_be_visible()
    sidebar.get_by_label("Filter my jobs").focus()  # by no pointer: it rests on the row
    expect(details).to_have_count(0)
    sidebar.get_by_role("heading", name="My jobs").hover()
    row(sidebar, "pointed at").hover()
    expect(details).to_be_visible()
    page.keyboard.type("p")
    expect(details).to_have_count(0)
    expect(row(sidebar, "pointed at")).to_be_visible()


def test_it_is_filtered_by_slash_and_gone_through_by_tab_arrows_and_menu_key_alone(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page
) -> None:
    slurm_id = sbatch("upper", "-H")
    sbatch("lower", "-H")
    expect(row(sidebar, "upper")).to_be_visible()
    row(sidebar, "lower").focus()
    page.keyboard.press("/")
    page.keyboard.type("upp")
    expect(row(sidebar, "upper")).to_be_visible()
    expect(row(sidebar, "lower")).to_have_count(0)
    page.keyboard.type("zzz")
    expect(sidebar.get_by_text("None of my jobs has")).to_be_visible()
    page.keyboard.press("Escape")
    expect(row(sidebar, "lower")).to_be_visible()

    sidebar.get_by_label("Filter my jobs").focus()
    page.keyboard.press("Tab")
    expect(row(sidebar, "lower")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(row(sidebar, "upper")).to_be_focused()
    page.keyboard.press("ContextMenu")
    menu = page.get_by_role("menu")
    expect(menu.get_by_role("menuitem", name="Release")).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    expect(row(sidebar, "upper")).to_be_focused()
    page.keyboard.press("ContextMenu")
    for _ in ("Open the job", "Copy the id", "Release"):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(runs(sidebar).filter(has_text="upper")).to_be_visible()
    expect(row(sidebar, "upper")).to_be_focused()
    assert states(cluster, slurm_id) == [f"{slurm_id} RUNNING"]

    for was_open in (True, False):
        if not was_open:
            page.get_by_role("tab", name="Slurm").click()
            expect(sidebar).to_be_hidden()
        page.keyboard.press("Control+Shift+c")
        page.locator(".lm-CommandPalette").get_by_role("textbox").fill("show slurm jobs")
        page.keyboard.press("Enter")
        expect(row(sidebar, "upper")).to_be_focused()


def test_a_cluster_that_cannot_be_reached_says_why_and_can_be_tried_again(
    page: Page, lab: Lab, cluster: SlurmCluster
) -> None:
    config = Path(cluster.env["JUPYTER_CONFIG_DIR"])
    with socket.socket() as nobody:  # bound, and not listened at
        nobody.bind(("127.0.0.1", 0))
        far = {"host": "127.0.0.1", "port": nobody.getsockname()[1]}
        path = write_profile(config, "nowhere", far)
        try:
            sidebar = open_sidebar(page, lab)
            nowhere = sidebar.get_by_role("list", name="Clusters").get_by_role("listitem")
            nowhere = nowhere.filter(has_text="nowhere")
            nowhere.get_by_role("button", name="Connect nowhere", exact=True).click()
            expect(nowhere).to_contain_text("refuses connections")
            page.wait_for_timeout(3_000)  # in which a notification would have told it, too
            expect(page.get_by_role("alert").filter(has_text="refuses")).to_have_count(0)
            expect(
                nowhere.get_by_role("button", name="Connect nowhere", exact=True)
            ).to_be_visible()
            look(page, "sidebar-error", sidebar.locator(".jp-slurm-SidebarBody"))
        finally:
            path.unlink()


def _width(shown: Locator) -> float:
    box = shown.bounding_box()
    assert box
    return box["width"]
