"""What is done to one job, from its row, its panel and the command palette."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.profile import write_profile
from tests.ssh.waiting import wait_until
from tests.ui.lab import Lab, Notebook
from tests.ui.looks import look, look_as_it_is
from tests.ui.side import Sbatch, do, open_sidebar, row, runs, waits

SECRET = "not to be seen"
CELL = f"""%%slurm --detach --name from-a-cell --env TOKEN='{SECRET}'
import time
print("it writes", flush=True)
time.sleep(600)"""


@pytest.fixture
def near(lab: Lab, cluster: SlurmCluster) -> Iterator[str]:
    """The same cluster, with its jobs' folders among the files of this Jupyter."""
    profile = tomllib.loads(cluster.profile_path.read_text(encoding="utf-8"))
    settings = {**profile, "images": None, "job_root": str(lab.folder / "jobs")}
    path = write_profile(Path(cluster.env["JUPYTER_CONFIG_DIR"]), "near", settings)
    yield "near"
    path.unlink()


def menu(page: Page, of: Locator, *path: str) -> None:
    of.click(button="right")
    for name in path:
        page.get_by_role("menuitem", name=name, exact=True).click()


def copied(page: Page) -> str:
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_where_no_job_is_the_queue_says_so_and_the_sidebar_where_to_look(
    sidebar: Locator, page: Page
) -> None:
    sidebar.get_by_role("button", name="Look a day back").click()
    expect(sidebar.get_by_text("1 day", exact=True)).to_be_visible()
    sidebar.get_by_role("button", name="Look 7 days back").click()
    expect(sidebar.get_by_text("7 days", exact=True)).to_be_visible()
    look(page, "sidebar-empty", sidebar.locator(".jp-slurm-SidebarBody"))
    sidebar.get_by_role("button", name="Queue", exact=True).click()
    expect(page.get_by_text("Nobody has a job in this queue.")).to_be_visible()
    look(page, "queue-empty")


def test_a_row_copies_its_id_is_held_released_given_more_time_and_put_back_into_the_queue(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    slurm_id = sbatch("steered", "--requeue", "--begin=now+1hour", "--time=60")
    shown = waits(sidebar).filter(has_text="steered")
    do(sidebar, "steered", "Copy the id")
    wait_until(lambda: copied(page) == slurm_id)
    menu(page, row(sidebar, "steered"), "Hold")
    expect(shown).to_contain_text("on hold")
    menu(page, row(sidebar, "steered"), "Release")
    expect(shown).not_to_contain_text("on hold")
    cluster.run("scontrol", "update", f"jobid={slurm_id}", "starttime=now")
    expect(runs(sidebar).filter(has_text="steered")).to_contain_text("left")

    def extend_by(limit: str) -> None:
        menu(page, row(sidebar, "steered"), "More time…")
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox").fill(limit)
        look_as_it_is(page, "dialog-more-time")
        dialog.get_by_role("button", name="Ask Slurm for it").click()

    extend_by("+1h")
    limit = ("squeue", "-h", "-o", "%l", "-j", slurm_id)
    wait_until(lambda: cluster.run(*limit).stdout.strip() == "2:00:00")
    extend_by("soon")
    refused = page.get_by_role("dialog").filter(has_text="is not a time")
    expect(refused).to_be_visible()
    page.keyboard.press("Escape")
    expect(refused).to_have_count(0)
    assert cluster.run(*limit).stdout.strip() == "2:00:00"

    menu(page, row(sidebar, "steered"), "Requeue")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("What it has not saved is lost.")
    look_as_it_is(page, "dialog-requeue")
    dialog.get_by_role("button", name="End and requeue the job").click()
    expect(shown).to_be_visible()
    # Slurm counts it when the job that is put back has left its node.
    job = ("scontrol", "show", "job", slurm_id)
    wait_until(lambda: "Restarts=1" in cluster.run(*job).stdout)


def test_a_row_shows_the_log_of_a_job_and_of_an_array_that_of_each_task_and_which_has_failed(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page, tmp_path: Path
) -> None:
    ways = "case $SLURM_ARRAY_TASK_ID in 2) exit 1;; 3) sleep 600;; esac"
    runs = f"echo I am task $SLURM_ARRAY_TASK_ID; {ways}"
    array_id = sbatch("many-tasks", "--array=0-3", f"--output={tmp_path}/%a.txt", runs=runs)
    ended = ("squeue", "-h", "-t", "CD,F", "-o", "%K", "-j", array_id)
    wait_until(lambda: sorted(cluster.run(*ended).stdout.split()) == ["0", "1", "2"])
    sbatch("talks", f"--output={tmp_path}/out", runs="echo it talks; sleep 600")
    menu(page, row(sidebar, "talks"), "Open the job")
    log = page.get_by_role("log", name="Output")
    expect(log).to_contain_text("it talks")
    expect(page.get_by_role("tab", name="Log", exact=True)).to_have_attribute(
        "aria-selected", "true"
    )

    menu(page, row(sidebar, "many-tasks").first, "Open the job")
    task = page.get_by_role("combobox", name="Task", exact=True)
    expect(log).to_have_text("I am task 2")
    expect(task).to_have_value("2")
    told = ["2 of 4 tasks done", "task 2 failed", "task 3 running"]
    expect(page.get_by_role("main").get_by_text(" · ".join(told))).to_be_visible()
    expect(row(sidebar, "many-tasks").first).to_contain_text("2/4 · 1 failed")
    row(sidebar, "many-tasks").first.hover()
    expect(page.get_by_role("tooltip")).to_contain_text(", ".join(told))
    look(page, "job-array", sidebar.locator(".jp-slurm-SidebarBody"))
    page.get_by_role("tab", name="Tasks", exact=True).click()
    tasks = page.get_by_role("group", name="Tasks")
    expect(tasks.get_by_role("button")).to_have_text(["✔ 0", "✔ 1", "✖ 2", "▶ 3"])
    look(page, "job-tasks", tasks)
    tasks.get_by_role("button", name="Task 0 done").click()
    expect(log).to_have_text("I am task 0")
    expect(task).to_have_value("0")
    row(sidebar, "many-tasks").focus()
    page.keyboard.press("ArrowRight")
    one = row(sidebar, "many-tasks [1]")
    expect(one).to_be_visible()
    look_as_it_is(page, "array-opened")
    one.dblclick()
    expect(log).to_have_text("I am task 1")


@contextmanager
def silent(cluster: SlurmCluster) -> Iterator[None]:
    """Keep the controller from answering: it takes questions, and answers them afterwards."""
    cluster.stop_controller()
    try:
        yield
    finally:
        cluster.cont_controller()


def test_all_jobs_that_are_shown_are_cancelled_after_one_question_unless_stopped_and_without_a_page(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page, lab: Lab
) -> None:
    kept = sbatch("another", "--hold")
    for number in range(4):
        sbatch(f"several-{number}", "--hold")
    sidebar.get_by_label("Filter my jobs").fill("several")
    for number in range(4):
        expect(row(sidebar, f"several-{number}")).to_be_visible()
    expect(row(sidebar, "another")).to_have_count(0)
    look(page, "cancel-shown", sidebar.locator(".jp-slurm-SidebarBody"))
    row(sidebar, "several-0").click()
    page.keyboard.press("Control+a")
    expect(sidebar.get_by_text("4 selected")).to_be_visible()
    page.keyboard.press("Delete")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Cancel 4 jobs?")
    expect(dialog.get_by_role("listitem")).to_have_count(4)
    held = ("squeue", "-h", "-t", "PD", "-o", "%A")
    far = page.get_by_role("alert").filter(has_text="Cancelling: 0 of 4")
    with silent(cluster):
        dialog.get_by_role("button", name="Cancel the jobs").click()
        expect(far).to_be_visible()
        look_as_it_is(page, "cancelling")  # the controller is not silent for ever
        with page.expect_response(re.compile("/stop_action")):
            far.get_by_role("button", name="Stop").click()
    told = "Stopped: 0 jobs cancelled. 4 jobs are as they were"
    expect(page.get_by_role("alert").filter(has_text=told)).to_be_visible()
    assert len(cluster.run(*held).stdout.split()) == 5

    row(sidebar, "several-0").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    with silent(cluster):
        dialog.get_by_role("button", name="Cancel the jobs").click()
        expect(far).to_be_visible()
        page.goto("about:blank")
    wait_until(lambda: cluster.run(*held).stdout.split() == [kept])
    open_sidebar(page, lab)
    expect(page.get_by_role("alert").filter(has_text="4 jobs cancelled")).to_be_visible()


def test_its_cell_and_its_folder_are_found_and_its_life_and_its_settings_told(
    opened: Callable[..., Notebook], near: str, page: Page
) -> None:
    notebook = opened([CELL.replace("%%slurm", f"%%slurm --cluster {near}"), "1 + 1"])
    notebook.run(0, 1, 2)
    notebook.card(1).get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("tab", name="Timeline", exact=True).click()
    told = page.get_by_role("region", name="What happened")
    expect(told.get_by_role("listitem").filter(has_text="Started on")).to_be_visible()
    expect(told.get_by_role("img", name=re.compile(r"running \d+ (s|min)"))).to_be_visible()
    expect(told.get_by_text(re.compile(r"^\d\d:\d\d:\d\d$")).first).to_be_visible()
    look(page, "job-timeline", told)
    page.get_by_role("tab", name="Details", exact=True).click()
    token = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="TOKEN"))
    expect(token.get_by_role("img", name="kept back")).to_be_visible()
    expect(page.locator("body")).not_to_contain_text(SECRET, use_inner_text=True)
    actions = page.get_by_role("group", name="Actions")
    expect(actions.get_by_role("button")).to_have_text(
        ["Go to its cell", "Open a terminal", "Copy the id", "Cancel"]
    )
    page.get_by_role("button", name=str(notebook.path), exact=True).click()
    expect(notebook.cell(1)).to_be_in_viewport()
    expect(notebook.cell(1)).to_have_class(re.compile("jp-mod-active"))

    page.get_by_role("tab", name="Slurm").click()
    sidebar = page.get_by_role("region", name="Slurm")
    menu(page, row(sidebar, "from-a-cell"), "Open its folder")
    files = page.get_by_role("region", name="File Browser Section")
    expect(files.get_by_text(notebook.path.name, exact=True)).to_be_visible()
    expect(files.get_by_text("job.sh", exact=True)).to_have_count(0)

    notebook.cell(1).locator(".jp-InputPrompt").click()
    page.keyboard.press("Control+Shift+c")
    palette = page.locator(".lm-CommandPalette")
    palette.get_by_role("textbox").fill("this job cancel")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(notebook.card(1)).to_contain_text("cancelled")


def test_a_folder_that_is_not_among_the_files_here_is_shown_beside_them(
    opened: Callable[..., Notebook], page: Page, tmp_path: Path
) -> None:
    code = f"%%slurm --detach --name elsewhere --chdir {tmp_path}\nopen('mine.txt', 'w').close()"
    notebook = opened([code])
    notebook.run(0, 1)
    expect(notebook.card(1)).to_contain_text("done")
    page.get_by_role("tab", name="Slurm").click()
    sidebar = page.get_by_role("region", name="Slurm")
    menu(page, row(sidebar, "elsewhere"), "Open its folder")
    files = page.get_by_role("region", name="Files of clusters")
    expect(files.get_by_text("mine.txt", exact=True)).to_be_visible()
    page.get_by_role("tab", name="Slurm").click()
    menu(page, row(sidebar, "elsewhere"), "Forget…")
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(row(sidebar, "elsewhere")).to_have_count(0)
    expect(notebook.card(1)).to_have_count(0)
