"""The sidebar, and jobs submitted in a terminal."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page

from tests.cluster.plugin import SlurmCluster
from tests.ui.lab import Lab, at_rest


def open_sidebar(page: Page, lab: Lab) -> Locator:
    """Open the sidebar in a JupyterLab with nothing else open."""
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    page.get_by_role("tab", name="Slurm").click()
    return page.get_by_role("region", name="Slurm")


def row(sidebar: Locator | Page, name: str) -> Locator:
    """Return the row of a job. Its text for screen readers starts with the name."""
    return jobs(sidebar).get_by_role("row", name=re.compile(f"^{re.escape(name)}, "))


def jobs(sidebar: Locator | Page) -> Locator:
    """Return the tree of jobs."""
    return sidebar.get_by_role("treegrid", name="My jobs")


def runs(sidebar: Locator | Page) -> Locator:
    return jobs(sidebar).get_by_role("row", name=re.compile(", running"))


def waits(sidebar: Locator | Page) -> Locator:
    return jobs(sidebar).get_by_role("row", name=re.compile(", waiting"))


def do(sidebar: Locator | Page, name: str, action: str) -> None:
    """Select a job, and press one of its buttons."""
    row(sidebar, name).click()
    chosen = sidebar.get_by_role("group", name="Selected jobs")
    chosen.get_by_role("button", name=action, exact=True).click()


class Sbatch:
    """Submitter of jobs as in a terminal, which returns Slurm's ID. The jobs are cancelled after
    the test. They are then listed under "Ended today", so all tests use different names."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self._cluster = cluster
        self.ids: list[str] = []

    def __call__(self, name: str, *options: str, runs: str = "sleep 600") -> str:
        args = ("sbatch", "--parsable", "-J", name, *options, "--wrap", runs)
        self.ids.append(self._cluster.run(*args).stdout.strip())
        return self.ids[-1]
