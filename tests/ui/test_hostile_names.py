"""Hostile names and output of jobs, which must be text in every view."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.lab import Lab, at_rest, submit_script
from tests.ui.side import waits

_MARK = "<img src=x onerror=window.harmed=1><script>window.harmed=1</script>"
_NAMES = (
    "two  words and a\ttab",
    'it\'s "quoted" `and` $(more)',
    f"h{_MARK}",
    "🦙🚀 état",
    "עברית \u202egpj.exe",
)


def opened_lab(page: Page, lab: Lab) -> None:
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    page.get_by_role("tab", name="Slurm").click()


def is_unharmed(page: Page) -> bool:
    return not page.evaluate("Boolean(window.harmed)")


def test_hostile_job_names_are_shown_as_text_in_every_view(
    page: Page, lab: Lab, cluster: SlurmCluster
) -> None:
    opened_lab(page, lab)
    for name in _NAMES:
        submit_script(page, "named", "#!/bin/sh\n", **{"job-name": name, "hold": ""})
    page.get_by_role("button", name="Queue", exact=True).click()
    grid = page.get_by_role("grid", name="Queue \N{EN DASH} local")
    row = waits(page)
    for name in _NAMES:
        # Tabs become blanks. Marks that reverse text are shown, but have no effect.
        shown = " ".join(name.replace("\u202e", "\ufffd").split())
        expect(row.filter(has_text=shown)).to_be_visible()
        expect(grid.get_by_role("row").filter(has_text=shown)).to_be_visible()
    for name in _NAMES:
        shown = " ".join(name.replace("\u202e", "\ufffd").split())
        row.filter(has_text=shown).first.dblclick()
        expect(page.locator(".jp-slurm-JobHead:visible")).to_contain_text(shown)
        page.get_by_role("tab", name="Details", exact=True).click()
        expect(page.get_by_role("rowheader", name="JobId")).to_be_visible()
    assert is_unharmed(page)
