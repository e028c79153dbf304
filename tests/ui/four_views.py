"""One job in all its views on one page: card, sidebar, queue and job panel."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from playwright.sync_api import Locator, Page, expect

from tests.ui.lab import Notebook
from tests.ui.side import jobs

_PATIENCE_S = 60.0
_TICK_MS = 100


@dataclass(frozen=True)
class FourViews:
    page: Page
    slurm_id: str
    card: Locator
    panel: Locator
    sidebar: Locator
    """The job's row in the sidebar, which is the newest."""
    queue: Locator
    """The job's row in the queue."""

    def all_say(self, *words: str, brief: Sequence[str] = (), queue: Sequence[str] = ()) -> None:
        """Wait until each view shows all words, and print the seconds that each took.

        `brief` lists the words of the card and of the row, which show less. `queue` lists the words
        of the queue's row.
        """
        wanted = dict.fromkeys(("card", "panel", "sidebar", "queue"), words)
        short = {"card": tuple(brief), "sidebar": (", ".join(brief),)} if brief else {}
        self._wait({**wanted, **short, **({"queue": tuple(queue)} if queue else {})})

    def all_say_that_it_is_over(self, word: str) -> None:
        """Wait in the same way for the end of the job, which leaves the queue."""
        self._wait({"card": (word,), "panel": (word,), "sidebar": (word,), "queue": ()})

    def show_nodes(self) -> None:
        """Show the nodes beside the queue."""
        sidebar = self.page.get_by_role("region", name="Slurm")
        sidebar.get_by_role("button", name="Nodes", exact=True).click()
        tabs = self.page.locator("#jp-main-dock-panel").get_by_role("tab")
        _drag(self.page, tabs.filter(has_text="Nodes \N{EN DASH} local"), 0.94, 0.8)
        expect(self.queue).to_be_visible()

    def _wait(self, wanted: Mapping[str, tuple[str, ...]]) -> None:
        began_s = time.monotonic()
        after_s: dict[str, float] = {}
        while missing := wanted.keys() - after_s:
            said = {name: texts(getattr(self, name)) for name in missing}
            for name, text in said.items():
                words = wanted[name]
                if all(word in text for word in words) if words else not text:
                    after_s[name] = round(time.monotonic() - began_s, 2)
            assert time.monotonic() < began_s + _PATIENCE_S, f"expected {wanted}, found {said}"
            self.page.wait_for_timeout(_TICK_MS)
        print(self.slurm_id, wanted, after_s)


def beside_one_another(notebook: Notebook) -> FourViews:
    """Open all views of the second cell's job in a large window."""
    page = notebook.page
    page.set_viewport_size({"width": 1800, "height": 1200})
    main = page.locator("#jp-main-dock-panel")
    card = notebook.card(1)
    where = card.get_by_text(re.compile(r"^Job \d+ · local"))
    expect(where).to_be_visible()
    slurm_id = where.inner_text().split()[1]
    card.get_by_role("button", name="Open").click()
    panel = page.locator(".jp-slurm-JobHead")
    expect(panel).to_be_visible()
    _drag(page, main.locator(".lm-TabBar-tab.lm-mod-current"), 0.95, 0.5)
    page.get_by_role("tab", name="Slurm").click()
    page.get_by_role("button", name="Queue", exact=True).click()
    _drag(page, main.get_by_role("tab").filter(has_text="Queue \N{EN DASH} local"), 0.75, 0.85)
    grid = page.get_by_role("grid", name="Queue \N{EN DASH} local")
    row = grid.get_by_role("row").filter(has=page.get_by_text(slurm_id, exact=True))
    expect(row).to_be_visible()
    mine = jobs(page).locator("[aria-level='2']").first
    for view in (card, panel, mine):
        expect(view).to_be_visible()
    return FourViews(page, slurm_id, card, panel, mine, row)


def _drag(page: Page, tab: Locator, x: float, y: float) -> None:
    """Drag a tab to a point in the main area."""
    area = page.locator("#jp-main-dock-panel").bounding_box()
    assert area
    tab.hover()
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * x, area["y"] + area["height"] * y, steps=8)
    page.mouse.up()


def texts(view: Locator) -> str:
    """Return the text of a view, and its texts for screen readers."""
    spoken = view.evaluate_all("all => all.map(one => one.ariaLabel ?? '')")
    return " ".join([*view.all_inner_texts(), *spoken])
