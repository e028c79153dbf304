"""The sidebar as a person finds it, and jobs of theirs that were submitted in a terminal."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page

from tests.cluster.plugin import SlurmCluster
from tests.ui.lab import Lab, at_rest


def open_sidebar(page: Page, lab: Lab) -> Locator:
    """In a JupyterLab with nothing else opened."""
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    page.get_by_role("tab", name="Slurm").click()
    return page.get_by_role("region", name="Slurm")


def row(sidebar: Locator, name: str) -> Locator:
    return sidebar.get_by_role("button", name=re.compile(f"^{re.escape(name)} "))


class Sbatch:
    """Submits as in a terminal; gives Slurm's id. Its jobs are cancelled after the test, and listed
    under "Ended today" from then on: each test, of all modules, has names of its own."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self._cluster = cluster
        self.ids: list[str] = []

    def __call__(self, name: str, *options: str, runs: str = "sleep 600") -> str:
        args = ("sbatch", "--parsable", "-J", name, *options, "--wrap", runs)
        self.ids.append(self._cluster.run(*args).stdout.strip())
        return self.ids[-1]
