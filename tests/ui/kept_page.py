"""One clean page of a browser for each test in turn. The page's process keeps JupyterLab's compiled
scripts, which halves the load time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from tests.ui.lab import PATIENCE_S

VIEWPORT: Final = ViewportSize(width=1100, height=1200)
_CANNOT_BE_UNDONE = (
    "add_init_script",
    "expose_binding",
    "expose_function",
    "on",
    "once",
    "route",
    "route_from_har",
    "route_web_socket",
)
"""Methods that change pages and contexts permanently."""
_STILL_SPLASH = """
    const sheet = new CSSStyleSheet();
    sheet.replaceSync('#jupyterlab-splash, #jupyterlab-splash * { animation: none !important }');
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
"""
"""Style that hides JupyterLab's animated splash. Without a GPU, drawing it takes a tenth of the
load time, or more on a busy machine."""


class KeptPage:
    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._page: Page | None = None

    def lend(self) -> Page:
        """Return the page if it was given back, or a new page."""
        page = self._page or new_context(self._browser).new_page()
        self._page = None  # until the page is given back
        for one in (page, page.context):
            for name in _CANNOT_BE_UNDONE:
                if hasattr(one, name):
                    setattr(one, name, _refuse(name))
        return page

    def give_back(self, page: Page) -> None:
        """Reset the page: close other tabs, and remove cookies, storage, permissions and
        emulation."""
        context = page.context
        for other in context.pages:
            if other != page:
                other.close()
        page.evaluate("try { sessionStorage.clear() } catch { /* about:blank has none */ }")
        page.goto("about:blank")  # this ends JupyterLab and its connections
        page.evaluate("window.name = ''")
        session = context.new_cdp_session(page)
        session.send("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})
        session.detach()
        context.clear_cookies()
        context.clear_permissions()
        page.emulate_media(
            media="null", color_scheme="null", forced_colors="null", reduced_motion="null"
        )
        page.set_viewport_size(VIEWPORT)
        self._page = page


@contextmanager
def heard(page: Page, event: Any, handler: Callable[..., None]) -> Iterator[None]:
    """Listen like `page.on` during the context; lent pages allow only this."""
    type(page).on(page, event, handler)
    try:
        yield
    finally:
        page.remove_listener(event, handler)


def new_context(browser: Browser) -> BrowserContext:
    expect.set_options(timeout=PATIENCE_S * 1000)
    context = browser.new_context(viewport=VIEWPORT)
    context.set_default_timeout(PATIENCE_S * 1000)
    context.add_init_script(_STILL_SPLASH)
    return context


def _refuse(name: str) -> Callable[..., NoReturn]:
    def refused(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise AssertionError(f"{name}() cannot be undone: use heard(), or the mark `own_page`")

    return refused
