"""Actions on a job from its row, its panel and the command palette."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.profile import write_profile
from tests.ssh.waiting import wait_until
from tests.ui.lab import Lab, Notebook, submit_script
from tests.ui.looks import look, look_as_it_is
from tests.ui.side import Sbatch, do, row, runs, waits

SECRET = "not to be seen"
CELL = f"""%%slurm --detach --name from-a-cell --env TOKEN='{SECRET}'
import time
print("it writes", flush=True)
time.sleep(600)"""


@pytest.fixture
def near(lab: Lab, cluster: SlurmCluster) -> Iterator[str]:
    """Yield the same cluster with its jobs' folders below this Jupyter's root."""
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


def test_row_menu_copies_holds_releases_extends_and_requeues_jobs(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    later = {"requeue": "", "begin": "now+1hour", "time": "60"}
    _, slurm_id = submit_script(page, "steered", "#!/bin/sh\nsleep 600\n", **later)
    sbatch.ids.append(slurm_id)
    shown = waits(sidebar).filter(has_text="steered")
    do(sidebar, "steered", "Copy job ID")
    wait_until(lambda: copied(page) == slurm_id)
    menu(page, row(sidebar, "steered"), "Hold")
    expect(shown).to_contain_text("on hold")
    menu(page, row(sidebar, "steered"), "Release")
    expect(shown).not_to_contain_text("on hold")
    cluster.run("scontrol", "update", f"jobid={slurm_id}", "starttime=now")
    expect(runs(sidebar).filter(has_text="steered")).to_contain_text("/ 1 h")

    def extend_by(limit: str) -> None:
        menu(page, row(sidebar, "steered"), "More time…")
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox").fill(limit)
        look_as_it_is(page, "dialog-more-time")
        dialog.get_by_role("button", name="Change").click()

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
    expect(dialog).to_contain_text("Unsaved work will be lost.")
    dialog.get_by_role("button", name="End and requeue the job").click()
    expect(shown).to_be_visible()
    # Slurm counts the restart when the requeued job has left its node.
    job = ("scontrol", "show", "job", slurm_id)
    wait_until(lambda: "Restarts=1" in cluster.run(*job).stdout)


def test_job_panel_shows_the_log_and_state_of_each_array_task(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page, tmp_path: Path
) -> None:
    ways = "case $SLURM_ARRAY_TASK_ID in 2) exit 1;; 3) sleep 600;; esac"
    runs = f"echo I am task $SLURM_ARRAY_TASK_ID; {ways}"
    options = {"array": "0-3", "output": f"{tmp_path}/%a.txt"}
    _, array_id = submit_script(page, "many-tasks", f"#!/bin/sh\n{runs}\n", **options)
    sbatch.ids.append(array_id)
    ended = ("squeue", "-h", "-t", "CD,F", "-o", "%K", "-j", array_id)
    wait_until(lambda: sorted(cluster.run(*ended).stdout.split()) == ["0", "1", "2"])
    _, talks = submit_script(page, "talks", "#!/bin/sh\necho it talks; sleep 600\n")
    sbatch.ids.append(talks)
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
    expect(page.get_by_role("main").get_by_text(", ".join(told))).to_be_visible()
    expect(row(sidebar, "many-tasks").first).to_contain_text("2/4 · 1 failed")
    row(sidebar, "many-tasks").first.hover()
    expect(page.get_by_role("tooltip")).to_contain_text(", ".join(told))
    look(page, "job-array", sidebar.locator(".jp-slurm-SidebarBody"))
    page.get_by_role("tab", name="Tasks", exact=True).click()
    tasks = page.get_by_role("listbox", name="Tasks")
    tasks.press("End")
    expect(tasks.get_by_role("option", name="Task 3 running")).to_be_attached()
    tasks.press("Home")
    tasks.press("Enter")
    expect(log).to_have_text("I am task 0")
    expect(task).to_have_value("0")
    row(sidebar, "many-tasks").focus()
    page.keyboard.press("ArrowRight")
    one = row(sidebar, "many-tasks [1]")
    expect(one).to_be_visible()
    one.dblclick()
    expect(log).to_have_text("I am task 1")


def test_job_panel_opens_cell_and_folder_and_shows_timeline_and_settings(
    opened: Callable[..., Notebook], near: str, page: Page
) -> None:
    notebook = opened([CELL.replace("%%slurm", f"%%slurm --cluster {near}"), "1 + 1"])
    notebook.run(0, 1, 2)
    notebook.card(1).get_by_role("button", name="Open", exact=True).click()
    page.get_by_role("tab", name="Timeline", exact=True).click()
    told = page.get_by_role("region", name="Timeline")
    expect(told.get_by_role("listitem").filter(has_text="Started on")).to_be_visible()
    expect(told.get_by_text(re.compile(r"^\d\d:\d\d:\d\d$")).first).to_be_visible()
    look(page, "job-timeline", told)
    page.get_by_role("tab", name="Details", exact=True).click()
    token = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="TOKEN"))
    expect(token.get_by_role("img", name="hidden")).to_be_visible()
    expect(page.locator("body")).not_to_contain_text(SECRET, use_inner_text=True)
    actions = page.get_by_role("group", name="Actions")
    expect(actions.get_by_role("button")).to_have_text(
        ["Go to cell", "Open a terminal", "Copy job ID", "Cancel"]
    )
    page.get_by_role("button", name=str(notebook.path), exact=True).click()
    expect(notebook.cell(1)).to_be_in_viewport()
    expect(notebook.cell(1)).to_have_class(re.compile("jp-mod-active"))

    page.get_by_role("tab", name="Slurm").click()
    sidebar = page.get_by_role("region", name="Slurm")
    menu(page, row(sidebar, "from-a-cell"), "Open folder")
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
