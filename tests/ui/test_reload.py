"""A page that is loaded again while a cell's job runs offers what it missed; a rerun attaches."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.ssh.waiting import wait_until
from tests.ui.lab import Lab, Notebook
from tests.ui.looks import look
from tests.ui.side import row

Open = Callable[[Sequence[str]], Notebook]

_LINES = """%%slurm --name {name} --out total
import os, time
for line in range(20):
    print("r", line, flush=True)
    while line == 3 and not os.path.exists({gate!r}):
        time.sleep(0.05)
total = 190"""
_ALL = re.compile("".join(f"r {line}\n" for line in range(20)))


def _show_all(card: Locator) -> Locator:
    return card.get_by_role("button", name="Show all output")


def _reloaded(opened: Open, gate: Path, name: str, *behind: str) -> Notebook:
    """The job has ended, most of its output since the page was loaded again."""
    notebook = opened([_LINES.format(name=name, gate=str(gate)), *behind, "total"])
    notebook.run(0, *range(1, 2 + len(behind)))
    expect(notebook.output(1)).to_contain_text("r 3")
    notebook.saved()
    notebook.load()
    expect(notebook.card(1)).to_contain_text("running")
    expect(_show_all(notebook.card(1))).to_have_count(0)
    gate.touch()
    notebook.shown()
    expect(notebook.card(1)).to_contain_text("done")
    return notebook


def test_one_button_completes_the_output(opened: Open, lab: Lab, tmp_path: Path) -> None:
    notebook = _reloaded(opened, tmp_path / "gate", "reload-button")
    page, card = notebook.page, notebook.card(1)
    assert "r 4" not in notebook.output(1).inner_text()
    look(page, "card-show-all", card)
    _show_all(card).click()
    notebook.ended(1)
    expect(notebook.output(1)).to_contain_text(_ALL)
    expect(_show_all(card)).to_have_count(0)
    outputs = notebook.saved().cells[1].outputs
    text = "".join(one.text for one in outputs if one.output_type == "stream")
    assert _ALL.fullmatch(text)

    notebook.reload()
    expect(card).to_contain_text("done")
    expect(notebook.output(1)).to_contain_text(_ALL)
    expect(_show_all(card)).to_have_count(0)
    assert len(lab.jobs_named("reload-button")) == 1
    notebook.run(1)
    notebook.ended(1)
    expect(card).to_contain_text("done")
    assert len(lab.jobs_named("reload-button")) == 2


def test_the_cell_attaches_when_it_is_run_again(opened: Open, lab: Lab, tmp_path: Path) -> None:
    notebook = _reloaded(opened, tmp_path / "gate", "reload-again")
    notebook.restart()
    notebook.run(0, 1, 2)
    expect(notebook.output(2)).to_contain_text("190")
    expect(notebook.output(1)).to_contain_text("attached to it")
    expect(notebook.output(1)).to_contain_text(_ALL)
    assert len(lab.jobs_named("reload-again")) == 1
    notebook.run(1)
    notebook.ended(1)
    expect(notebook.output(1)).not_to_contain_text("attached to it")
    assert len(lab.jobs_named("reload-again")) == 2


def test_a_queued_cell_that_no_page_was_sent_attaches(
    opened: Open, lab: Lab, tmp_path: Path
) -> None:
    behind = "%%slurm --name reload-behind\nprint('from behind')"
    notebook = _reloaded(opened, tmp_path / "gate", "reload-first", behind)
    wait_until(lambda: lab.jobs_named("reload-behind") != [])
    wait_until(lambda: "reload-behind" not in lab.live_jobs())
    expect(notebook.card(2)).to_have_count(0)
    page = notebook.page
    page.get_by_role("tab", name="Slurm").click()
    row(page, "reload-behind").click(button="right")
    page.get_by_role("menuitem", name="Go to its cell").click()
    expect(notebook.cell(2)).to_have_class(re.compile("jp-mod-active"))
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text("attached to it")
    expect(notebook.output(2)).to_contain_text("from behind")
    expect(notebook.card(2)).to_contain_text("done")
    assert len(lab.jobs_named("reload-behind")) == 1


def test_a_second_page_offers_what_only_the_first_was_sent(
    opened: Open, lab: Lab, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    first = opened([_LINES.format(name="reload-both", gate=str(gate))])
    first.run(0, 1)
    expect(first.output(1)).to_contain_text("r 3")
    first.saved()
    gate.touch()
    first.ended(1)
    expect(first.output(1)).to_contain_text(_ALL)
    expect(_show_all(first.card(1))).to_have_count(0)
    second = Notebook(first.page.context.new_page(), lab, first.path.name)
    assert "r 4" not in second.output(1).inner_text()
    _show_all(second.card(1)).click()
    expect(second.output(1)).to_contain_text(_ALL)
    assert len(lab.jobs_named("reload-both")) == 1
    first.run(1)
    first.ended(1)
    assert len(lab.jobs_named("reload-both")) == 2


def test_the_output_of_a_batch_script_comes_by_the_same_button(opened: Open, lab: Lab) -> None:
    notebook = opened(["%%sbatch --job-name reload-batch\n#!/bin/sh\necho a $((40 + 2)) b"])
    notebook.run(0, 1)
    expect(notebook.card(1)).to_contain_text("done")
    _show_all(notebook.card(1)).click()
    expect(notebook.output(1)).to_contain_text("a 42 b")
    expect(_show_all(notebook.card(1))).to_have_count(0)
