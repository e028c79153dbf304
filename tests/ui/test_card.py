"""The card of a job under its cell, updated by the JupyterLab extension."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.ui.lab import Notebook
from tests.ui.looks import look

Open = Callable[[Sequence[str]], Notebook]

_LINGER = """%%slurm --detach --name {name} --out x
import os, time
for step in range(3):
    print(f"\\x1b[32mstep\\x1b[0m {{step}} <b>&", flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.05)
x = 1"""


def test_card_stays_live_with_a_busy_or_dead_kernel_and_after_a_reload(
    opened: Open, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    linger = _LINGER.format(name="long-fit", gate=str(gate))
    told = "import os; print('cards:', os.environ['JUPYTER_SLURM_CARDS'])"
    notebook = opened([linger, told, "import time; time.sleep(3600)"])
    notebook.run(0, 1, 2, 3)
    card = notebook.card(1)
    expect(card).to_contain_text("running")
    expect(notebook.output(2)).to_contain_text("cards: live")
    log = _opened_log(card)
    expect(log).to_have_text(re.compile("^step 0 <b>&\nstep 1 <b>&\nstep 2 <b>&\n?$"))
    look(notebook.page, "card-log", card)
    notebook.saved()

    notebook.load()  # a busy kernel never reports its state
    _opened_log(card)
    notebook.shut_down()
    gate.touch()
    expect(card).to_contain_text("done")
    expect(card.get_by_role("button", name="Show all output")).to_be_visible()
    expect(card.get_by_role("button", name="Cancel")).to_have_count(0)


def _opened_log(card: Locator) -> Locator:
    card.get_by_role("button", name="Log", exact=True).click()
    log = card.get_by_role("log", name="Log")
    expect(log).to_contain_text("step 2")
    return log


def test_card_resubmits_an_out_of_memory_job_with_more_memory(opened: Open) -> None:
    hog = "import time\nhog = b'x' * (100 << 20)\ntime.sleep(5)\nprint('it fits')"
    notebook = opened([f"%%slurm --mem 100M --name hog\n{hog}"])
    notebook.run_all()
    card = notebook.card(1)
    expect(card).to_contain_text("out of memory")
    look(notebook.page, "card-remedy", card)
    card.get_by_role("button", name="Submit again with --mem 150M").click()
    expect(notebook.cell(1)).to_contain_text("%%slurm --mem 150M --name hog")
    expect(notebook.output(1)).to_contain_text("it fits")
    expect(card).to_contain_text("done")
