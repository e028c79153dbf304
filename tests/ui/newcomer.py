"""A new user, who knows only labels. Clicks are counted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from playwright.sync_api import Locator, Page, expect

from tests.ui.side import jobs

PATIENCE_MS = 120_000
_MOST_CLICKS = 8


@dataclass
class Newcomer:
    page: Page
    clicks: list[str] = field(default_factory=list)

    def press(
        self, there: Locator | Page, name: str, role: Literal["button", "tab"] = "button"
    ) -> None:
        there.get_by_role(role, name=name).click()
        self.clicks.append(name)

    def open_sidebar(self) -> Locator:
        self.press(self.page, "Slurm", "tab")
        return self.page.get_by_role("region", name="Slurm")

    def run_first_job(self, sidebar: Locator, code: str, printed: str | re.Pattern[str]) -> None:
        """Submit a cell with the form, and wait for its end. Assert that few clicks were needed
        since the page opened."""
        self.press(sidebar, "Submit…")
        form = self.page.get_by_role("form", name="Slurm job")
        form.get_by_role("textbox", name="Code").fill(code)
        self.press(form, "Submit")
        log = self.page.get_by_role("log", name="Output")
        expect(log).to_contain_text(printed, timeout=PATIENCE_MS)
        done = jobs(sidebar).get_by_role("row", name=re.compile("^cell, done"))
        expect(done).to_be_visible(timeout=PATIENCE_MS)
        print(len(self.clicks), "clicks:", self.clicks)
        assert len(self.clicks) <= _MOST_CLICKS, self.clicks
