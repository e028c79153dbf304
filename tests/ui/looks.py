"""What a person would look at: screenshots, in `screenshots/`, and what axe has to say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Locator, Page, expect

SCREENSHOTS = Path(__file__).with_name("screenshots")
OURS = ", ".join(
    (
        ".jp-slurm",
        ".jp-slurm-Status",
        ".jp-RenderedHTMLCommon",
        ".jupyter-slurm-queue",
        ".jp-Dialog-content",
        "#jupyter-slurm-lab",
    )
)
_RUN = ("passes", "violations", "incomplete", "inapplicable")
"""The lists in axe's answer. Axe found nothing on the page for an inapplicable rule."""


def look(page: Page, name: str, *shown: Locator) -> None:
    """Take screenshots in both themes, in each of which axe has nothing to say, and in a window as
    narrow as one beside another, where what is shown must fit. The other theme stays."""
    size = page.viewport_size
    assert size is not None
    themes: list[Literal["dark", "light"]] = ["dark", "light"]
    # Beginning with the one that there is: to change it takes as long as to look.
    if page.locator("body[data-jp-theme-light=true]").count():
        themes.reverse()
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        light = str(theme == "light").lower()
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", light)
        expect(page.locator("#jupyterlab-splash")).to_have_count(0)
        look_as_it_is(page, f"{name}-{theme}")
    page.set_viewport_size({"width": 640, "height": size["height"]})
    for one in shown:
        fits(page, one)
    page.screenshot(path=SCREENSHOTS / f"{name}-narrow.png")
    page.set_viewport_size(size)


def fits(page: Page, shown: Locator) -> None:
    """Returns once it is no wider than its place: the page lays itself out some time after its
    size has changed."""
    page.wait_for_function(
        "e => e.scrollWidth <= e.parentElement.clientWidth", arg=shown.element_handle()
    )


def are_lines(rows: Locator) -> None:
    """Assert that each is one line high and that nothing in it is cut."""
    higher = (
        "all => all.filter(one => one.scrollHeight > one.clientHeight).map(one => one.innerText)"
    )
    assert rows.count() > 0
    assert rows.evaluate_all(higher) == []


def look_as_it_is(page: Page, name: str) -> None:
    """A screenshot, and axe has nothing to say of what is ours in it."""
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    if page.locator(OURS).count():
        is_clean(page, name, OURS)


def is_clean(page: Page, name: str, context: str | None = None) -> None:
    """Print how many rules axe has run, and for how many of them there was something to look at.
    It has nothing to say. `context`: where; None: on the whole page."""
    found = Axe().run(page, context=context)
    run = {kind: len(found.response[kind]) for kind in _RUN}
    met = sum(run.values()) - run["inapplicable"]
    print(f"axe: {name}: {sum(run.values())} rules run, {met} apply")
    assert found.violations_count == 0, found.generate_report()
