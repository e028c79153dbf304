"""A terminal in a running job, as one of JupyterLab's own."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.waiting import wait_until
from tests.ui.looks import look
from tests.ui.side import Sbatch, row, runs

SCREEN = ".jp-MainAreaWidget:not(.lm-mod-hidden) .jp-Terminal"


def menu(page: Page, of: Locator, name: str) -> None:
    of.click(button="right")
    page.get_by_role("menuitem", name=name, exact=True).click()


def shells(cluster: SlurmCluster, slurm_id: str) -> list[str]:
    """The steps of the job beside its script."""
    told = cluster.run("squeue", "--steps", "-h", "-j", slurm_id, "-o", "%i").stdout.split()
    return [step for step in told if step.rpartition(".")[2].isdigit()]


def typed(page: Page, line: str) -> None:
    page.locator(f"{SCREEN} textarea").press_sequentially(line)
    page.keyboard.press("Enter")


def shows(page: Page, text: str | re.Pattern[str]) -> None:
    """By what a screen reader is told, as what is seen is drawn."""
    expect(page.locator(f"{SCREEN} .xterm-accessibility-tree")).to_contain_text(text)


def test_a_terminal_in_a_job_has_its_size_and_its_words_and_stays_to_be_read_at_its_end(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page
) -> None:
    slurm_id = sbatch("sat-in", runs="sleep 600")
    expect(runs(sidebar).filter(has_text="sat-in")).to_be_visible()
    menu(page, row(sidebar, "sat-in"), "Open a terminal")
    tab = page.get_by_role("main").get_by_role("tab", selected=True)
    expect(tab).to_contain_text(re.compile("sat-in · n1|root@|bash"))
    page.locator(SCREEN).click()
    typed(page, "echo =$SLURM_JOB_ID= $(stty size)")
    shows(page, re.compile(rf"={slurm_id}= \d+ \d+"))
    look(page, "terminal")
    rows = page.locator(f"{SCREEN} .xterm-accessibility-tree [role=listitem]")
    before = rows.count()
    page.set_viewport_size({"width": 1000, "height": 700})
    expect(rows).not_to_have_count(before)
    typed(
        page, "clear; for n in 1 2 3 4 5 6 7 8; do echo .; done; echo the window has $(stty size)"
    )
    shows(page, re.compile(r"the window has \d+ \d+"))
    told = page.locator(f"{SCREEN} .xterm-accessibility-tree").inner_text()
    found = re.search(r"the window has (\d+) (\d+)", told)
    assert found is not None
    assert int(found[1]) == rows.count() < before
    cluster.run("scancel", slurm_id)
    shows(page, "Enter closes the terminal")
    look(page, "terminal-ended")
    page.keyboard.press("Enter")
    expect(page.locator(SCREEN)).to_have_count(0)


def test_a_shell_that_ends_closes_its_tab_and_leaves_nothing(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page
) -> None:
    slurm_id = sbatch("two-shells", runs="sleep 600")
    expect(runs(sidebar).filter(has_text="two-shells")).to_be_visible()
    menu(page, row(sidebar, "two-shells"), "Open the job")
    actions = page.get_by_role("group", name="Actions")
    for _ in range(2):
        actions.get_by_role("button", name="Open a terminal").click()
        page.locator(SCREEN).click()
        typed(page, "echo sits $((6 * 7))")
        shows(page, "sits 42")
        assert len(shells(cluster, slurm_id)) == 1
        typed(page, "exit")
        expect(page.locator(SCREEN)).to_have_count(0)
        wait_until(lambda: not shells(cluster, slurm_id))
