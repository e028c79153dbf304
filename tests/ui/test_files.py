"""A job's folder on the cluster in JupyterLab's file browser."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ssh.waiting import wait_until
from tests.ui.lab import submit_script
from tests.ui.looks import look
from tests.ui.side import Sbatch, row, runs

NAME = 'it\'s "$HOME" ü.txt'


@pytest.fixture
def browser_of_files(
    sidebar: Locator,
    sbatch: Sbatch,
    page: Page,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> tuple[Locator, Path]:
    """Open the file browser at a job's folder."""
    folder = tmp_path / "run 1"
    folder.mkdir()
    (folder / NAME).write_text("first line\n")
    name = request.node.name[:40]
    options = {"chdir": str(folder), "output": f"{folder}/out"}
    _, slurm_id = submit_script(page, name, "#!/bin/sh\nsleep 600\n", **options)
    sbatch.ids.append(slurm_id)
    expect(runs(sidebar).filter(has_text=name)).to_be_visible()
    row(sidebar, name).click(button="right")
    page.get_by_role("menuitem", name="Open folder", exact=True).click()
    return page.get_by_role("region", name="Cluster files"), folder


def test_remote_file_is_edited_and_saved_and_remote_changes_are_detected(
    browser_of_files: tuple[Locator, Path], page: Page
) -> None:
    files, folder = browser_of_files
    path = folder / NAME
    path.chmod(0o640)
    files.get_by_role("listitem").filter(has_text=NAME).dblclick()
    editor = page.locator(".jp-FileEditor .cm-content")
    expect(editor).to_contain_text("first line")
    look(page, "files")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("second line, grün\n")
    page.keyboard.press("Control+s")
    wait_until(lambda: path.read_text() == "first line\nsecond line, grün\n")
    assert path.stat().st_mode & 0o777 == 0o640
    assert {one.name for one in folder.iterdir()} == {NAME, "out"}

    expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    path.write_text("from elsewhere\n")
    later = path.stat().st_mtime + 60
    os.utime(path, (later, later))
    editor.click()
    page.keyboard.type("x")
    page.keyboard.press("Control+s")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("changed")
    dialog.get_by_role("button", name="Revert").click()
    expect(editor).to_contain_text("from elsewhere")
