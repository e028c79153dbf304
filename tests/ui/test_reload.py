"""A page that is reloaded during a cell's job offers the missed output."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.ui.lab import Lab, Notebook

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


def _reloaded(opened: Open, gate: Path, name: str) -> Notebook:
    """Return a notebook whose job ended after a reload. The page missed most of its output."""
    notebook = opened([_LINES.format(name=name, gate=str(gate)), "total"])
    notebook.run(0, 1)
    expect(notebook.output(1)).to_contain_text("r 3")
    notebook.saved()
    notebook.load()
    expect(notebook.card(1)).to_contain_text("running")
    expect(_show_all(notebook.card(1))).to_have_count(0)
    gate.touch()
    notebook.shown()
    expect(notebook.card(1)).to_contain_text("done")
    return notebook


def test_button_completes_the_output_after_a_reload(opened: Open, lab: Lab, tmp_path: Path) -> None:
    notebook = _reloaded(opened, tmp_path / "gate", "reload-button")
    card = notebook.card(1)
    assert "r 4" not in notebook.output(1).inner_text()
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
