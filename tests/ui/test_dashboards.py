"""The dashboards of a job, opened in a tab from its card."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import expect

from tests.ui.lab import Notebook

Open = Callable[[Sequence[str]], Notebook]

BOARD = """%%slurm --detach --runtime none --name board --tensorboard logs --env PYTHONPATH={there}
import os, time
while not os.path.exists({gate!r}):
    time.sleep(0.05)"""


def test_card_opens_tensorboard_at_its_own_address(
    opened: Open, engines_python: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    there = sysconfig.get_path("purelib", vars={"base": str(engines_python.parents[1])})
    notebook = opened([BOARD.format(there=there, gate=str(gate))])
    notebook.run(0, 1)
    card = notebook.card(1)
    expect(card).to_contain_text("running")
    with notebook.page.context.expect_page() as coming:
        card.get_by_role("button", name="Open TensorBoard").click()
    board = coming.value
    expect(board).to_have_url(re.compile(r"http://tensorboard-[a-z2-7]{8}-[0-9a-f]{32}\.localhost"))
    expect(board).to_have_title("TensorBoard")
    expect(board.locator("body")).to_contain_text("No dashboards are active")
    board.close()
    gate.touch()
    expect(card).to_contain_text("done")
    expect(card.get_by_role("button", name="Open TensorBoard")).to_have_count(0)
