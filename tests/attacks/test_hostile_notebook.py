"""Hostile files in a cluster's shared folder, which must run nothing in JupyterLab without the
user's trust.

Code that runs leaves its name in `localStorage`, which all pages of JupyterLab's address share.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import pytest
from playwright.sync_api import Browser, Download, Locator, Page, Route, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.waiting import wait_until
from tests.ui import conftest as ui
from tests.ui.lab import Lab, submit_script
from tests.ui.side import row

cluster, lab, lab_home = ui.cluster, ui.lab, ui.lab_home
page, sbatch, sidebar = ui.page, ui.sbatch, ui.sidebar

pytestmark = pytest.mark.own_page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a browser for this module. The browser of `tests.ui` would stay open for the whole
    session."""
    with ui.chromium() as running:
        yield running


@pytest.fixture(scope="package")
def port() -> int:
    """Return 0 for any free port, since the module has only one server."""
    return 0


_RUN = "localStorage.setItem('harmed', 1)"
_HTML = (
    f'<p>a harmless table</p><img src="data:image/png;base64,AA" onerror="{_RUN}">'
    f"<script>{_RUN}</script>"
)
_OUTPUTS = [{"output_type": "display_data", "metadata": {}, "data": {"text/html": _HTML}}]
_CODE = {"cell_type": "code", "execution_count": 1, "source": "1", "outputs": _OUTPUTS}
_TRUSTED = {"trusted": True}
_CELLS: dict[str, dict[str, Any]] = {
    "flag": {**_CODE, "metadata": _TRUSTED},
    "inherited by the cell": {**_CODE, "__proto__": {"metadata": _TRUSTED}},
}
"""Forms of trust in a file. JupyterLab's copies of JSON objects use their own `__proto__` as the
prototype."""


def _notebook(*cells: dict[str, Any], **more: Any) -> str:
    whole = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 4, **more}
    return json.dumps(whole)


_WIDGET = "saved with a widget.ipynb"


def _saved_with_a_widget() -> str:
    """Return a notebook with a saved widget that contains a program. Opening the notebook starts
    its kernel."""

    class Program(anywidget.AnyWidget):
        _esm = f"{_RUN}; export default {{initialize() {{ {_RUN} }}, render() {{ {_RUN} }}}};"

    made = Program()
    state = ipywidgets.Widget.get_manager_state(widgets=[made, made.layout])
    made.close()
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    mime = "application/vnd.jupyter.widget-state+json"
    cell = {**_CODE, "metadata": {}, "source": "'It has ' 'answered'"}
    return _notebook(cell, metadata={"kernelspec": kernel, "widgets": {mime: state}})


_FILES = {
    **{f"{name}.ipynb": _notebook(cell) for name, cell in _CELLS.items()},
    _WIDGET: _saved_with_a_widget(),
    "page.html": f"<!DOCTYPE html><html><body>{_HTML}</body></html>",
    "picture.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" '
    f'onload="{_RUN}"><script>{_RUN}</script></svg>',
    "text.md": f"a harmless table\n\n{_HTML}\n\n[page](page.html)\n",
    "plot.vl.json": json.dumps(
        {
            "data": {"values": [{"a": 1, "u": f"javascript:{_RUN}"}]},
            "mark": "point",
            "encoding": {"href": {"field": "u"}, "tooltip": {"value": _HTML}},
            "title": _HTML,
        }
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "shared"
    made.mkdir()
    for name, text in _FILES.items():
        (made / name).write_text(text)
    return made


@pytest.fixture
def trusting(lab: Lab) -> Iterator[None]:
    """Make JupyterLab trust HTML files by default."""
    path = lab.folder.parent / "settings/@jupyterlab/htmlviewer-extension"
    path.mkdir(parents=True)
    setting = path / "plugin.jupyterlab-settings"
    setting.write_text('{"trustByDefault": true}')
    yield
    setting.unlink()
    path.rmdir()


@pytest.fixture
def files(
    trusting: None,
    sidebar: Locator,
    cluster: SlurmCluster,
    folder: Path,
) -> Iterator[Locator]:
    """Yield the file browser at the folder of a waiting job on the cluster."""
    page, name = sidebar.page, folder.parent.name
    submit_script(page, name, "#!/bin/sh\nsleep 600", hold="", chdir=str(folder))
    for opened, what in (
        (page.get_by_role("tab", name="Details", exact=True), "Open the job"),
        (page.get_by_role("region", name="Cluster files"), "Open folder"),
    ):
        row(sidebar, name).click(button="right")
        page.get_by_role("menuitem", name=what, exact=True).click()
        expect(opened).to_be_visible()
    yield opened
    cluster.run("scancel", f"--name={name}")


def _item(files: Locator, name: str) -> Locator:
    return files.get_by_role("listitem").filter(has_text=re.compile(f"^{re.escape(name)}"))


def _open(files: Locator, name: str, with_what: str | None = None) -> None:
    if with_what is None:
        _item(files, name).dblclick()
        return
    page = files.page
    _item(files, name).click(button="right")
    page.locator(".lm-Menu-item").get_by_text("Open With", exact=True).hover()
    page.get_by_role("menuitem", name=with_what, exact=True).click()


def _ran(page: Page) -> bool:
    """Return whether any code has run. First wait until a later image fails to load. By then the
    file's own image has failed, too."""
    harmed = page.evaluate(
        """async () => {
            const later = new Image();
            const failed = new Promise(resolve => { later.onerror = resolve; });
            later.src = 'x-later';
            await failed;
            return localStorage.getItem('harmed');
        }"""
    )
    return harmed is not None


def test_notebook_that_claims_to_be_trusted_runs_nothing(files: Locator, page: Page) -> None:
    dialog = page.get_by_role("dialog")
    for name in _CELLS:
        _open(files, f"{name}.ipynb")
        expect(page.get_by_role("tab", name=f"{name}.ipynb", selected=True)).to_be_visible()
        outputs = page.locator(".jp-NotebookPanel:visible .jp-OutputArea-output")
        expect(outputs.get_by_text("a harmless table")).to_be_visible()
        expect(outputs.locator("script, [onerror]")).to_have_count(0)
        assert not _ran(page), name
        dialog.get_by_role("button", name="No Kernel").click()
        expect(dialog).to_have_count(0)


def test_widget_saved_in_a_notebook_runs_nothing(files: Locator, page: Page) -> None:
    """JupyterLab creates saved widgets even without trust."""
    _open(files, _WIDGET)
    expect(page.get_by_text("| Idle")).to_be_visible()
    # JupyterLab requests the widgets from the kernel first. The kernel answers requests in order.
    panel = page.locator(".jp-NotebookPanel:visible")
    panel.locator(".cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    expect(panel.get_by_text("'It has answered'")).to_be_visible()
    assert not _ran(page)


def test_trust_is_stored_locally_and_not_in_the_file(
    files: Locator, folder: Path, page: Page
) -> None:
    _open(files, "flag.ipynb")
    expect(page.locator(".jp-OutputArea-output").get_by_text("a harmless table")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="No Kernel").click()
    page.keyboard.press("Control+Shift+c")
    page.locator(".jp-ModalCommandPalette input").fill("Trust Notebook")
    page.keyboard.press("Enter")
    before = (folder / "flag.ipynb").read_bytes()
    page.get_by_role("dialog").get_by_role("button", name="Confirm Trusting").click()
    page.wait_for_function("localStorage.getItem('harmed') !== null")
    wait_until(lambda: (folder / "flag.ipynb").read_bytes() != before)
    assert "trusted" not in (folder / "flag.ipynb").read_text()


_SHOWN = {
    "page.html": (None, "iframe"),
    "picture.svg": (None, ".jp-ImageViewer img"),
    "text.md": ("Markdown Preview", ".jp-MarkdownViewer p"),
    "plot.vl.json": (None, ".jp-MimeDocument canvas, .jp-MimeDocument svg"),
}
"""The viewer of each file, and the content that it shows."""


def test_opened_files_run_nothing(files: Locator, page: Page) -> None:
    read: list[str] = []

    def answer_once(route: Route) -> None:
        """Answer only the first request for the page. The HTML viewer stays empty if it starts
        during a second read, and the cluster may answer slowly."""
        asked = (route.request.post_data or "").partition('"path":"')[2].partition('"')[0]
        read.append(asked)
        if not asked.endswith("/page.html") or read.count(asked) == 1:
            route.continue_()

    page.route("**/read_file*", answer_once)
    for name, (viewer, seen) in _SHOWN.items():
        _open(files, name, viewer)
        shown = page.get_by_role("main").locator(seen).locator("visible=true").first
        expect(shown).to_be_visible()
        if seen == "iframe":
            expect(shown.content_frame.get_by_text("a harmless table")).to_be_visible()
        assert not _ran(page), name


def test_file_opened_in_a_browser_tab_is_downloaded(
    files: Locator, folder: Path, page: Page
) -> None:
    kept: list[Download] = []

    def keep(download: Download) -> None:
        kept.append(download)

    page.context.on("page", lambda tab: tab.on("download", keep))
    for count, name in enumerate(("page.html", "picture.svg"), 1):
        _item(files, name).click(button="right")
        page.get_by_role("menuitem", name="Open in New Browser Tab", exact=True).click()
        expect(page.get_by_role("menu")).to_have_count(0)

        def downloaded(count: int = count) -> bool:
            page.wait_for_timeout(50)
            return len(kept) == count

        wait_until(downloaded, 20)
        assert kept[-1].path().read_bytes() == (folder / name).read_bytes()
        assert not _ran(page)
