"""Cells and the queue widget in JupyterLab."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.lab import Notebook
from tests.ui.looks import look

Open = Callable[[Sequence[str]], Notebook]

FIT = """%%slurm --gpus 1 --image python:3.11 --in data --out total --name fit
import matplotlib.pyplot as plt
from tqdm import tqdm

for _ in tqdm(range(100)):
    pass
plt.plot(data)
total = sum(data)
print("sum", total)"""


def waits(name: str, gate: Path, line: str = "") -> str:
    """Return a cell that reports its start and ends once the gate exists."""
    return (
        f"%%slurm --name {name} --out x {line}\n"
        "import os, time\n"
        "print('has started', flush=True)\n"
        f"while not os.path.exists({str(gate)!r}):\n"
        "    time.sleep(0.05)\n"
        "print('has ended')\n"
        "x = 'is back'"
    )


def test_cell_runs_as_a_job_and_its_outputs_are_saved(opened: Open) -> None:
    notebook = opened(["data = [1, 4, 9]", FIT, "total + 1"])
    notebook.run_all()
    output, card = notebook.output(2), notebook.card(2)
    notebook.ended(3)

    def all_is_there() -> None:
        expect(card).to_contain_text("done")
        expect(card).to_contain_text("Node n1 · GPUs 1 · Image python:3.11")
        expect(output).to_contain_text("100/100")
        expect(output).to_contain_text("sum 14")
        expect(output.locator("img")).to_be_visible()
        expect(notebook.output(3)).to_contain_text("15")

    all_is_there()
    kinds = [one.output_type for one in notebook.saved().cells[2].outputs]
    assert kinds == ["display_data", "stream", "stream", "display_data"]
    notebook.reload()
    all_is_there()


def test_interrupted_cell_attaches_to_its_job_after_a_restart(
    opened: Open, cluster: SlurmCluster, tmp_path: Path
) -> None:
    notebook = opened([waits("again", tmp_path / "gate"), "x"])
    notebook.run(0, 1)
    output = notebook.output(1)
    expect(output).to_contain_text("has started")
    notebook.interrupt()
    expect(output).to_contain_text("KeyboardInterrupt: job")
    expect(notebook.card(1)).to_contain_text("running")
    notebook.restart()
    notebook.run(0, 1, 2)
    expect(output).to_contain_text("attached to it")
    (tmp_path / "gate").touch()
    expect(notebook.card(1)).to_contain_text("done")
    expect(output).to_contain_text(re.compile("has started\\s*has ended"))
    expect(notebook.output(2)).to_contain_text("is back")
    names = cluster.run("squeue", "-h", "-t", "all", "-o", "%j").stdout.split()
    assert [name.partition(".")[0] for name in names].count("again") == 1


def test_queue_widget_updates_live_and_jobs_can_be_cancelled_by_keyboard(
    opened: Open, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    notebook = opened(["%slurm", waits("idle", gate, "--detach"), waits("busy", gate)])
    page, queue = notebook.page, notebook.output(1)
    notebook.run(0, 1, 2)
    row = queue.get_by_role("row").filter(has_text="idle")
    expect(row).to_contain_text("running")
    row.get_by_role("button", name="Log of job idle").click()
    expect(queue.get_by_role("region", name="Log")).to_contain_text("has started")
    row.get_by_role("button", name="Cancel job idle").focus()
    page.keyboard.press("Enter")
    expect(row.get_by_role("button", name="Keep job idle")).to_be_focused()
    look(page, "queue-widget", queue.get_by_role("region", name="Jobs"))
    page.keyboard.press("Escape")
    expect(row.get_by_role("button", name="Cancel job idle")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(row).to_contain_text("cancelled")
    expect(queue.get_by_role("status")).to_contain_text("job idle", ignore_case=True)
    expect(notebook.card(2)).to_contain_text("cancelled")

    notebook.run(3)
    expect(notebook.output(3)).to_contain_text("has started")
    row = queue.get_by_role("row").filter(has_text="busy")
    expect(row).to_contain_text("running")
    row.get_by_role("button", name="Cancel job busy").click()
    row.get_by_role("button", name="Cancel it: end job busy").click()
    expect(row).to_contain_text("cancelled")
    notebook.ended(3)
    expect(notebook.output(3)).to_contain_text("KeyboardInterrupt")
