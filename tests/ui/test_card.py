"""The card of a job under its cell, live by the browser's side alone."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import nbformat
from nbformat.v4 import new_output
from playwright.sync_api import Locator, Page, expect

from jupyter_slurm.views.card import MIME
from tests.cluster.plugin import SlurmCluster
from tests.ssh.waiting import wait_until
from tests.ui.conftest import home_of_a_lab
from tests.ui.lab import Notebook, running_lab
from tests.ui.looks import look

Open = Callable[[Sequence[str]], Notebook]

_LINGER = """%%slurm --detach --name {name} --out x
import os, time
for step in range(3):
    print(f"\\x1b[32mstep\\x1b[0m {{step}} <b>&", flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.05)
x = 1"""


def test_a_card_is_live_with_the_kernel_busy_gone_and_after_a_reload(
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

    notebook.load()  # of a kernel that is busy it never says what it does
    _opened_log(card)
    notebook.shut_down()
    gate.touch()
    expect(card).to_contain_text("done")
    expect(card.get_by_role("button", name="Show all output")).to_be_visible()
    expect(card.get_by_role("button", name="Cancel")).to_have_count(0)
    look(notebook.page, "card-done", card)


def test_a_notebook_that_is_opened_tomorrow_shows_what_became_of_its_job(
    page: Page, cluster: SlurmCluster, port_apart: int, tmp_path: Path
) -> None:
    """Server, agent and kernel have ended since, and so has the job."""
    with home_of_a_lab(cluster) as (home, env):
        gate = tmp_path / "gate"
        name = "tomorrow.ipynb"
        linger = _LINGER.format(name="overnight", gate=str(gate))
        with running_lab(env, home, port_apart) as lab:
            lab.write(name, ["%load_ext jupyter_slurm", linger])
            notebook = Notebook(page, lab, name)
            notebook.run(0, 1)
            expect(notebook.card(1)).to_contain_text("running")

            def is_kept() -> bool:
                """Tell whether the kernel has heard it, too, perhaps later than the page."""
                [shown] = notebook.saved().cells[1].outputs
                return bool(re.search(r"running since \d{4}-\d\d-\d\d ", shown.data["text/html"]))

            wait_until(is_kept)
            page.goto("about:blank")
        stop = [sys.executable, "-m", "jupyter_slurm", "agent", "stop"]
        subprocess.run(stop, env=env, check=True, timeout=60, capture_output=True)
        gate.touch()
        wait_until(lambda: "overnight" not in cluster.run("squeue", "-h", "-o", "%j").stdout)
        with running_lab(env, home, port_apart) as lab:
            card = Notebook(page, lab, name).card(1)
            expect(card).to_contain_text("done")
            _opened_log(card)
            page.goto("about:blank")


def _opened_log(card: Locator) -> Locator:
    card.get_by_role("button", name="Log", exact=True).click()
    log = card.get_by_role("log", name="Log")
    expect(log).to_contain_text("step 2")
    return log


def test_two_cards_of_a_job_agree_and_cancel_asks_first(opened: Open, tmp_path: Path) -> None:
    linger = _LINGER.format(name="twice", gate=str(tmp_path / "gate"))
    notebook = opened([linger, "%slurm attach"])
    page = notebook.page
    notebook.run(0, 1, 2)
    first, second = notebook.card(1), notebook.card(2)
    expect(first).to_contain_text("running")
    expect(second).to_contain_text("running")
    second.get_by_role("button", name="Cancel").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("twice")
    asked.get_by_role("button", name="Keep").click()
    expect(first).to_contain_text("running")
    first.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(first).to_contain_text("cancelled")
    expect(second).to_contain_text("cancelled")


def test_why_a_job_waits_is_told(opened: Open, cluster: SlurmCluster) -> None:
    taken = cluster.run("sbatch", "--parsable", "--exclusive", "--wrap", "sleep 600").stdout.strip()
    try:
        notebook = opened(["%%slurm --detach --name queued\n1"])
        notebook.run_all()
        card = notebook.card(1)
        expect(card).to_contain_text("waiting")
        expect(card).to_contain_text(re.compile("next|priority"))
        expect(card.locator("p")).to_have_count(1)
        look(notebook.page, "card-waiting", card)
    finally:
        cluster.run("scancel", taken)
    expect(card).to_contain_text("done")


def test_a_notebook_cannot_put_words_into_a_cards_mouth(opened: Open) -> None:
    """Saved elsewhere, or by somebody who means ill."""
    notebook = opened(["print('an unknown job')", "print('no job at all')"])
    saved = nbformat.read(notebook.path, as_version=4)
    evil = "<img src=x onerror='document.title=1'> all is well"
    for cell, named in zip(saved.cells[1:], ("zzzzzzzz", "../../etc"), strict=True):
        names = {"v": 1, "cluster": "local", "id": named, "name": "evil"}
        data = {MIME: names, "text/html": f"<b>{evil}</b>", "text/plain": evil}
        cell.outputs = [new_output("display_data", data)]
    nbformat.write(saved, notebook.path)
    notebook.reload()
    for at, sentence in ((1, "is not tracked here"), (2, "is not tracked here")):
        expect(notebook.output(at)).to_contain_text(sentence)
        expect(notebook.output(at)).to_contain_text(evil)
        expect(notebook.output(at).locator("img, b")).to_have_count(0)
    look(notebook.page, "card-unknown", notebook.output(1))


def test_a_job_that_had_too_little_memory_is_submitted_again_with_more(opened: Open) -> None:
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
