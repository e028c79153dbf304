"""The sidebar in JupyterLab with jobs on a real Slurm."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.looks import look_as_it_is
from tests.ui.side import Sbatch, jobs, row, runs


def states(cluster: SlurmCluster, slurm_id: str) -> list[str]:
    """Return the states of the job in the queue."""
    told = cluster.run("squeue", "-h", "-j", slurm_id, "-o", "%i %T").stdout.split("\n")
    return [line for line in told if line and "CANCELLED" not in line and "COMPLETING" not in line]


def test_sidebar_shows_a_job_from_a_terminal_and_its_end(
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
          - button "Copy job ID"
          - button "Release"
          - button "Cancel"
    """)


def test_selected_jobs_are_cancelled_by_keyboard_after_a_confirmation(
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
