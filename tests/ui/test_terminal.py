"""A terminal in a running job, in JupyterLab's terminal."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.lab import submit_script
from tests.ui.looks import look
from tests.ui.side import Sbatch, row, runs

SCREEN = ".jp-MainAreaWidget:not(.lm-mod-hidden) .jp-Terminal"


def menu(page: Page, of: Locator, name: str) -> None:
    of.click(button="right")
    page.get_by_role("menuitem", name=name, exact=True).click()


def typed(page: Page, line: str) -> None:
    page.locator(f"{SCREEN} textarea").press_sequentially(line)
    page.keyboard.press("Enter")


def shows(page: Page, text: str | re.Pattern[str]) -> None:
    """Wait for text in the terminal's screen-reader output, since the visible text is a canvas."""
    expect(page.locator(f"{SCREEN} .xterm-accessibility-tree")).to_contain_text(text)


def test_terminal_in_a_job_stays_readable_once_the_job_has_ended(
    sidebar: Locator, cluster: SlurmCluster, sbatch: Sbatch, page: Page
) -> None:
    _, slurm_id = submit_script(page, "sat-in", "#!/bin/sh\nsleep 600\n")
    sbatch.ids.append(slurm_id)
    expect(runs(sidebar).filter(has_text="sat-in")).to_be_visible()
    menu(page, row(sidebar, "sat-in"), "Open a terminal")
    tab = page.get_by_role("main").get_by_role("tab", selected=True)
    expect(tab).to_contain_text(re.compile("sat-in · n1|root@|bash"))
    page.locator(SCREEN).click()
    typed(page, "echo =$SLURM_JOB_ID= $(stty size)")
    shows(page, re.compile(rf"={slurm_id}= \d+ \d+"))
    look(page, "terminal")
    cluster.run("scancel", slurm_id)
    shows(page, "Enter closes the terminal")
    page.keyboard.press("Enter")
    expect(page.locator(SCREEN)).to_have_count(0)
