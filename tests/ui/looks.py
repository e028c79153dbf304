"""Screenshots in `screenshots/`, and accessibility checks by axe."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
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
"""The lists in axe's answer. A rule is inapplicable if it matches nothing on the page."""


def look(page: Page, name: str, *shown: Locator) -> None:
    """Take screenshots in both themes and in a narrow window. axe must find nothing, and the
    content must fit. The page keeps the second theme."""
    size = page.viewport_size
    assert size is not None
    for theme in shown_themes(page):
        look_as_it_is(page, f"{name}-{theme}")
    page.set_viewport_size({"width": 640, "height": size["height"]})
    for one in shown:
        fits(page, one)
    page.screenshot(path=SCREENSHOTS / f"{name}-narrow.png")
    page.set_viewport_size(size)


def shown_themes(page: Page) -> Iterator[Literal["dark", "light"]]:
    """Show the page in each theme, and yield its name."""
    themes: list[Literal["dark", "light"]] = ["dark", "light"]
    # Start with the current theme, since a change takes as long as a screenshot.
    if page.locator("body[data-jp-theme-light=true]").count():
        themes.reverse()
    if version("jupyterlab").startswith("4.2."):
        themes.pop()  # JupyterLab 4.2 follows the system's colours only at its start
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        light = str(theme == "light").lower()
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", light)
        expect(page.locator("#jupyterlab-splash")).to_have_count(0)
        yield theme


def fits(page: Page, shown: Locator) -> None:
    """Return when the element is not wider than its container. The layout follows a change of size
    with a delay."""
    page.wait_for_function(
        "e => e.scrollWidth <= e.parentElement.clientWidth", arg=shown.element_handle()
    )


def are_lines(rows: Locator) -> None:
    """Assert that each row is one line high and nothing is clipped."""
    higher = (
        "all => all.filter(one => one.scrollHeight > one.clientHeight).map(one => one.innerText)"
    )
    assert rows.count() > 0
    assert rows.evaluate_all(higher) == []


def look_as_it_is(page: Page, name: str) -> None:
    """Take a screenshot, and assert that axe finds nothing in our parts."""
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    if page.locator(OURS).count():
        is_clean(page, name, OURS)


def is_clean(page: Page, name: str, context: str | None = None) -> None:
    """Assert that axe finds nothing, and print the counts of its rules. `context` is the part to
    check, None for the whole page."""
    found = Axe().run(page, context=context)
    run = {kind: len(found.response[kind]) for kind in _RUN}
    met = sum(run.values()) - run["inapplicable"]
    print(f"axe: {name}: {sum(run.values())} rules run, {met} apply")
    assert found.violations_count == 0, found.generate_report()
